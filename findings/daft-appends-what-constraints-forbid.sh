#!/usr/bin/env bash
# daft 0.7.26 (deltalake 1.6.6, polars 2.1.0): write_deltalake appends rows that a CHECK constraint and
# NOT NULL of the table forbid.
#
# Done: a table with "x < 10" as a constraint, and one with a NOT NULL column, both made by deltalake;
# rows that break them are appended by deltalake, by polars and by daft. Then the rows are updated.
# Expected: each refuses. The constraint stands in the table's protocol (writer version 3), and a writer
# that does not know a feature of the protocol may not write; daft refuses an overwrite of a table that
# is append-only.
# Instead: deltalake and polars refuse, daft commits both. It writes Parquet of its own and commits the
# names of its files through deltalake, which checks rows where it writes them itself. Whoever updates
# one of these rows later is refused in its place.
# Not documented with write_deltalake.
# Way out: write_deltalake of deltalake with the Arrow table of the frame.
set -euo pipefail

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
python3 -m venv "$place/env"
# daft asks for pyiceberg where it writes Delta.
"$place/env/bin/pip" install --quiet "daft==0.7.26" "deltalake==1.6.6" "polars==2.1.0" "pyarrow==23.0.1" "pyiceberg==0.12.0"

cat > look.py <<'PY'
import daft
import polars
import pyarrow as pa
from daft import DataType
from deltalake import DeltaTable, write_deltalake

kind = pa.schema([pa.field("x", pa.int64(), nullable=False)])
write_deltalake("check", pa.table({"x": [1]}))
DeltaTable("check").alter.add_constraint({"small": "x < 10"})
write_deltalake("not-null", pa.table([[1]], kind))


def told(name, call):
    try:
        call()
    except Exception as exc:
        print(f"{name}: {type(exc).__name__}")
    else:
        print(f"{name}: committed")


def append(name, x):
    rows = pa.table({"x": pa.array([x], pa.int64())})
    frame = daft.from_pydict({"x": [x]}).select(daft.col("x").cast(DataType.int64()))
    told(f"{name} by deltalake", lambda: write_deltalake(name, rows, mode="append"))
    told(f"{name} by polars", lambda: polars.from_arrow(rows).write_delta(name, mode="append"))
    told(f"{name} by daft", lambda: frame.write_deltalake(name, mode="append"))
    print(f"{name} rows:", sorted(DeltaTable(name).to_pyarrow_table()["x"].to_pylist(), key=str))


append("check", 50)
append("not-null", None)
told("update", lambda: DeltaTable("check").update({"x": "x + 1"}, predicate="x > 40"))
options = {"delta.appendOnly": "true"}
write_deltalake("only", pa.table({"x": [1]}), configuration=options)
told("overwrite", lambda: daft.from_pydict({"x": [2]}).write_deltalake("only", mode="overwrite"))
PY

said=$("$place/env/bin/python" look.py 2> log) || { cat log; exit 1; }
printf '%s\n' "$said"

for each in check not-null; do
    grep -qE "^$each by deltalake: [A-Za-z]*Error" <<< "$said"
    grep -qE "^$each by polars: [A-Za-z]*Error" <<< "$said"
    grep -q "^$each by daft: committed$" <<< "$said"
done
grep -q "^check rows: \[1, 50\]$" <<< "$said"
grep -q "^not-null rows: \[1, None\]$" <<< "$said"
grep -qE "^update: [A-Za-z]*Error" <<< "$said"
grep -qE "^overwrite: [A-Za-z]*Error" <<< "$said"
