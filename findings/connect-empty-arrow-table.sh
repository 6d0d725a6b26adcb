#!/usr/bin/env bash
# pyspark 4.2.0, pyarrow 26.0.1: an Arrow table without rows becomes a frame in a classic session,
# and an error over Spark Connect.
#
# Done: createDataFrame(table), of a pyarrow.Table that has two typed columns and no row, in a
# session of local[1] and in one of Spark Connect with the same server in its process.
# Expected: the same empty frame from both: the table says the type of each column, and no type has
# to be inferred from values.
# Instead: the classic session answers with bigint and string. Over Connect the call ends in
# CANNOT_INFER_EMPTY_SCHEMA. With a schema beside the table both answer alike; with a row, too.
# Not documented: createDataFrame is said to take a pyarrow.Table in both.
# Way out: give a schema with each table that may have no row.
set -euo pipefail

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
# Spark leaves folders where it runs.
cd "$place"
python3 -m venv "$place/env"
"$place/env/bin/pip" install --quiet "pyspark[connect]==4.2.0" "pyarrow==26.0.1" "pandas<3"

cat > "$place/look.py" <<'PY'
import sys
import pyarrow as pa
from pyspark.sql import SparkSession

builder = SparkSession.builder
if sys.argv[1] == "connect":
    spark = builder.remote("local[1]").getOrCreate()
else:
    spark = builder.master("local[1]").getOrCreate()
schema = pa.schema([("n", pa.int64()), ("s", pa.string())])


def told(*given):
    try:
        frame = spark.createDataFrame(*given)
        return f"{frame.count()} rows of {frame.schema.simpleString()}"
    except Exception as exc:
        return f"{type(exc).__name__}: {getattr(exc, 'getCondition', lambda: '')()}"


print("no row:           ", told(schema.empty_table()))
print("no row, a schema: ", told(schema.empty_table(), "n bigint, s string"))
print("a row:            ", told(pa.table({"n": [1], "s": ["a"]}, schema=schema)))
spark.stop()
PY

look() {
    "$place/env/bin/python" "$place/look.py" "$1" 2> "$place/log" || { cat "$place/log"; exit 1; }
}
classic=$(look classic)
connect=$(look connect)
printf 'classic\n%s\nconnect\n%s\n' "$classic" "$connect"

grep -q "^no row: *0 rows of struct<n:bigint,s:string>" <<< "$classic"
grep -q "^no row: *PySparkValueError: CANNOT_INFER_EMPTY_SCHEMA" <<< "$connect"
for said in "$classic" "$connect"; do
    grep -q "^no row, a schema: *0 rows of struct<n:bigint,s:string>" <<< "$said"
    grep -q "^a row: *1 rows of struct<n:bigint,s:string>" <<< "$said"
done
