#!/usr/bin/env bash
# delta-spark 4.4.0 on pyspark 4.2.0: insertInto drops txnAppId and txnVersion, unless the format is
# named, and a batch that comes twice is written twice.
#
# Done: the same frame of three rows is written twice into a Delta table with txnAppId and txnVersion
# of its own, by saveAsTable, by writeTo().append(), by insertInto, and by format("delta") and insertInto.
# Expected: three rows from each, as the second write of a transaction is skipped; or an error.
# Instead: six from insertInto without a format. The table says that it is Delta's, so that the format
# seems to add nothing; yet without it the options do not reach Delta, without a word.
# delta-spark 4.3.0 on pyspark 4.1.1 does the same.
# Not documented: Delta's "Idempotent table writes in foreachBatch" says that writes of DataFrameWriter
# with the two options are skipped, and insertInto is one.
# Way out: format("delta") before insertInto; or saveAsTable, writeTo; or the two settings of the session.
# It needs Java 17 beside Python.
set -euo pipefail

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
# Spark leaves folders where it runs.
cd "$place"
python3 -m venv "$place/env"
"$place/env/bin/pip" install --quiet "pyspark==4.2.0"

cat > look.py <<'PY'
from pyspark.sql import SparkSession

spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.jars.packages", "io.delta:delta-spark_4.2_2.13:4.4.0")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.databricks.delta.snapshotPartitions", "1")
    .getOrCreate()
)
rows = spark.range(3)
once = {"txnAppId": "nightly", "txnVersion": "1"}
ways = {
    "saveAsTable": lambda: rows.write.format("delta").mode("append").options(**once).saveAsTable("t"),
    "writeTo": lambda: rows.writeTo("t").options(**once).append(),
    "insertInto": lambda: rows.write.options(**once).insertInto("t"),
    "format, insertInto": lambda: rows.write.format("delta").options(**once).insertInto("t"),
}
for way, write in ways.items():
    spark.sql("DROP TABLE IF EXISTS t")
    spark.sql("CREATE TABLE t (id BIGINT) USING delta")
    write()
    write()
    print(f"{way}: {spark.table('t').count()}")
spark.stop()
PY

said=$("$place/env/bin/python" look.py 2> log) || { cat log; exit 1; }
printf '%s\n' "$said"

grep -q "^saveAsTable: 3$" <<< "$said"
grep -q "^writeTo: 3$" <<< "$said"
grep -q "^insertInto: 6$" <<< "$said"
grep -q "^format, insertInto: 3$" <<< "$said"
