#!/usr/bin/env bash
# deltalake 1.6.6, pyarrow 26.0.1: of a table that Spark wrote a filter on a boolean column finds no row by
# DeltaTable.to_pyarrow_dataset, to_pyarrow_table(filters=...) and to_pandas(filters=...).
#
# Done: a table with a boolean, and a decimal whose smallest value is 0.000000000000000001; its log is
# given the statistics that Spark 4.2 with delta-spark 4.4.0 writes for the same rows: booleans have a count
# of nulls and no bounds. Filters by the ways above, by deltalake's SQL and by polars, before and after.
# Expected: each finds the row that is there; bounds are optional in the protocol, for each column.
# Instead: after it the first three find none, as the fragment of the file says flag >= null, and pyarrow
# leaves out a file for which that cannot be true. The column itself as the condition still finds it, and so
# do SQL and polars. The decimal is not found before it either: deltalake and Spark write its bound as
# 1e-18, which becomes null, too.
# Not documented; of columns that a checkpoint has no statistics for, issue 3201 of delta-rs tells.
# Way out: read without a filter and filter the rows, or ask by SQL (QueryBuilder).
set -euo pipefail

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
python3 -m venv "$place/env"
"$place/env/bin/pip" install --quiet "deltalake==1.6.6" "pyarrow==26.0.1" "polars==2.1.0" "pandas==2.3.3"

cat > look.py <<'PY'
import json
from decimal import Decimal
from pathlib import Path

import polars
import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable, QueryBuilder, write_deltalake

small = Decimal("0.000000000000000001")
rows = pa.table(
    {
        "n": [1, 2],
        "flag": [True, False],
        "amount": pa.array([small, Decimal("2")], pa.decimal128(38, 18)),
    }
)
write_deltalake("work", rows)
commit = Path("work/_delta_log/00000000000000000000.json")


def look(when):
    table = DeltaTable("work")
    flag, amount = ds.field("flag"), ds.field("amount")
    asked = {
        "dataset": lambda: table.to_pyarrow_dataset().to_table(filter=flag == True),
        "dataset, decimal": lambda: table.to_pyarrow_dataset().to_table(filter=amount == small),
        "to_pyarrow_table": lambda: table.to_pyarrow_table(filters=[("flag", "=", True)]),
        "to_pandas": lambda: table.to_pandas(filters=[("flag", "=", True)]),
        "flag itself": lambda: table.to_pyarrow_dataset().to_table(filter=flag),
        "SQL": lambda: pa.table(
            QueryBuilder().register("t", table).execute("SELECT n FROM t WHERE flag").read_all()
        ),
        "polars": lambda: polars.scan_delta("work").filter(polars.col("flag") == True).collect(),
    }
    for name, ask in asked.items():
        found = ask()["n"]
        print(f"{when}: {name}: {[int(one) for one in found.to_numpy()]}")


look("bounds")
actions = [json.loads(line) for line in commit.read_text().splitlines()]
for action in actions:
    if "add" in action:
        # As Spark has them in the log.
        action["add"]["stats"] = (
            '{"numRecords":2,"minValues":{"n":1,"amount":1E-18},'
            '"maxValues":{"n":2,"amount":2.000000000000000000},'
            '"nullCount":{"n":0,"flag":0,"amount":0}}'
        )
commit.write_text("".join(json.dumps(action) + "\n" for action in actions))
look("as Spark")
PY

said=$("$place/env/bin/python" look.py 2> log) || { cat log; exit 1; }
printf '%s\n' "$said"

for each in dataset to_pyarrow_table to_pandas "flag itself" SQL polars; do
    grep -qFx "bounds: $each: [1]" <<< "$said"
done
grep -qFx "bounds: dataset, decimal: []" <<< "$said"
for each in dataset "dataset, decimal" to_pyarrow_table to_pandas; do
    grep -qFx "as Spark: $each: []" <<< "$said"
done
for each in "flag itself" SQL polars; do
    grep -qFx "as Spark: $each: [1]" <<< "$said"
done
