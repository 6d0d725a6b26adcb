#!/usr/bin/env bash
# deltalake 1.6.6: vacuum(full=True) of a DeltaTable that was opened before others wrote deletes the
# files of what they wrote, and the table can be read no more.
#
# Done: a table is opened, as by a service that runs for weeks; another writer appends to it; the files
# are made ten days old; the handle vacuums with the default retention of seven days.
# Expected: no file is deleted, as the newest version has all of them.
# Instead: the file that was appended is deleted: the handle takes its own version for the newest one,
# and each file that this version does not name for one that nobody needs. Nothing is raised.
# Not documented: "not referenced" is said of the table, not of the version that was loaded.
# Way out: update_incremental() before vacuum(full=True).
set -euo pipefail

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
python3 -m venv "$place/env"
"$place/env/bin/pip" install --quiet "deltalake==1.6.6" "pyarrow==26.0.1"

cat > look.py <<'PY'
import os
import time
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

TEN_DAYS_AGO = time.time() - 10 * 86_400


def table(name):
    write_deltalake(name, pa.table({"x": [1]}))
    opened = DeltaTable(name)
    write_deltalake(name, pa.table({"x": [2]}), mode="append")
    for path in Path(name).glob("*.parquet"):
        os.utime(path, (TEN_DAYS_AGO, TEN_DAYS_AGO))
    return opened


def told(name, opened):
    deleted = opened.vacuum(dry_run=False, full=True)
    try:
        rows = DeltaTable(name).to_pyarrow_table().num_rows
    except FileNotFoundError:
        rows = "FileNotFoundError"
    print(f"{name}: deleted {len(deleted)}, rows {rows}")


told("old", table("old"))
fresh = table("fresh")
fresh.update_incremental()
told("fresh", fresh)
PY

said=$("$place/env/bin/python" look.py 2> log) || { cat log; exit 1; }
printf '%s\n' "$said"

grep -q "^old: deleted 1, rows FileNotFoundError$" <<< "$said"
grep -q "^fresh: deleted 0, rows 2$" <<< "$said"
