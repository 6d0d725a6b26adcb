#!/usr/bin/env bash
# deltalake 1.6.6: an overwrite of a whole table, and a delete of all of its rows, leave the rows that
# another writer appended since the table was read, also where delta.isolationLevel is Serializable.
#
# Done: a table of row 1; while an overwrite with row 9 still reads its data, another process appends
# row 2. The same with a predicate that is true for each row, with another schema, and with delete().
# Expected: of each either [9] (or no row, for the delete), or a conflict that is raised: there is no
# order of these two commits that leaves row 2 where the overwrite stands last in the history.
# Instead: [2, 9]. With the predicate the same overwrite raises CommitFailedError. With another schema
# row 2 stays as a row of nulls. delete() leaves [2]; delete("true") raises.
# Documented of Delta: WriteSerializable, the default, may order commits other than the history does;
# Serializable may not. Not documented of deltalake: "overwrite will replace table with new data".
# Way out: overwrite with predicate="true" (where the schema stays), or delete("true"), and do it again
# after CommitFailedError.
set -euo pipefail

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
python3 -m venv "$place/env"
"$place/env/bin/pip" install --quiet "deltalake==1.6.6" "pyarrow==26.0.1"

cat > append.py <<'PY'
import sys

import pyarrow as pa
from deltalake import write_deltalake

write_deltalake(sys.argv[1], pa.table({"x": [2]}), mode="append")
PY

cat > look.py <<'PY'
import subprocess
import sys

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

options = {"delta.isolationLevel": "Serializable"}


def append(name):
    subprocess.run([sys.executable, "append.py", name], check=True)


def look(name, change):
    write_deltalake(name, pa.table({"x": [1]}), configuration=options)
    try:
        change(name)
    except CommitFailedError:
        print(f"{name}: refused")
    else:
        print(f"{name}: {DeltaTable(name).to_pyarrow_table().to_pylist()}")


def overwrite(name, data, **options):
    def batches():
        append(name)
        yield from data.to_batches()

    read = pa.RecordBatchReader.from_batches(data.schema, batches())
    write_deltalake(name, read, mode="overwrite", **options)


def delete(name, *predicate):
    table = DeltaTable(name)
    append(name)
    table.delete(*predicate)


nine = pa.table({"x": [9]})
look("overwrite", lambda name: overwrite(name, nine))
look("predicate", lambda name: overwrite(name, nine, predicate="true"))
look("schema", lambda name: overwrite(name, pa.table({"y": [9]}), schema_mode="overwrite"))
look("delete", delete)
look("delete-true", lambda name: delete(name, "true"))
PY

said=$("$place/env/bin/python" look.py 2> log) || { cat log; exit 1; }
printf '%s\n' "$said"

grep -qE "^overwrite: \[\{'x': (2\}, \{'x': 9|9\}, \{'x': 2)\}\]$" <<< "$said"
grep -q "^predicate: refused$" <<< "$said"
grep -qE "^schema: \[(\{'y': None\}, \{'y': 9\}|\{'y': 9\}, \{'y': None\})\]$" <<< "$said"
grep -q "^delete: \[{'x': 2}\]$" <<< "$said"
grep -q "^delete-true: refused$" <<< "$said"
