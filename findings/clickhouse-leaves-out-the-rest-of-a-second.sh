#!/usr/bin/env bash
# chdb 4.4.0 (ClickHouse 26.9.2) on a table of deltalake 1.6.6: rows later than a whole second, and
# within it, are left out by ">" where their file has no later ones.
#
# Done: two commits of a row each, at 12:00:01.5 and 12:00:02.5, as small steps leave them; then
# "WHERE at > toDateTime('… 12:00:01')" by deltaLakeLocal, by file() over each Parquet file, and with a
# literal of toDateTime64.
# Expected: both rows, as 12:00:01.5 is later than 12:00:01; the comparison alone says so.
# Instead: the row of 12:00:02.5 only. The range of a file's times is cut to whole seconds, as the
# literal has, before it is compared, so that a file of one second has none that is later. now() is such
# a literal too. In one file with the other row the first one is found. chdb 3.7.2 (ClickHouse 25.8)
# has both rows.
# Not documented.
# Way out: compare with toDateTime64('…', 6) or now64(6).
set -euo pipefail

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
python3 -m venv "$place/env"
"$place/env/bin/pip" install --quiet "chdb==4.4.0" "deltalake==1.6.6" "pyarrow==26.0.1"

cat > look.py <<'PY'
import os
from datetime import datetime, timezone
from pathlib import Path

import chdb
import pyarrow as pa
from deltalake import write_deltalake

kind = pa.timestamp("us", "UTC")
for number, second in enumerate((1, 2), 1):
    at = datetime(2026, 11, 2, 12, 0, second, 500_000, tzinfo=timezone.utc)
    row = pa.table({"number": [number], "at": pa.array([at], kind)})
    write_deltalake("steps", row, mode="append")
here = os.getcwd()
table = f"deltaLakeLocal('{here}/steps')"
whole = "toDateTime('2026-11-02 12:00:01', 'UTC')"
exact = "toDateTime64('2026-11-02 12:00:01', 6, 'UTC')"


def told(source, literal):
    asked = f"SELECT arraySort(groupArray(number)) FROM {source} WHERE at > {literal}"
    return chdb.query(asked, "TSV").data().strip()


print("version:", chdb.query("SELECT version()", "TSV").data().strip())
print("compared:", chdb.query(f"SELECT {exact} + toIntervalMillisecond(500) > {whole}", "TSV").data().strip())
print("whole seconds:", told(table, whole))
print("microseconds: ", told(table, exact))
files = [told(f"file('{each}')", whole) for each in Path("steps").absolute().glob("*.parquet")]
print("file by file: ", sorted(files))
PY

said=$("$place/env/bin/python" look.py 2> log) || { cat log; exit 1; }
printf '%s\n' "$said"

grep -q "^version: 26.9.2" <<< "$said"
grep -q "^compared: 1$" <<< "$said"
grep -q "^whole seconds: \[2\]$" <<< "$said"
grep -q "^microseconds: *\[1,2\]$" <<< "$said"
grep -q "^file by file: *\['\[2\]', '\[\]'\]$" <<< "$said"
