#!/usr/bin/env bash
# delta-spark 4.4.0 on pyspark 4.2.0: a table that was replaced remembers the transactions of the one
# before, and skips the writes that are to fill it again.
#
# Done: a frame of three rows is appended with txnAppId "nightly" and txnVersion 1. The table is made anew,
# empty, by CREATE OR REPLACE TABLE, by writeTo().createOrReplace(), or by DROP TABLE and CREATE TABLE.
# The same frame is appended again, with the same transaction.
# Expected: three rows, as the new table has had no such write.
# Instead: none, and no error, after the two that replace; three after DROP and CREATE. A replaced table
# goes on with the log of the old one, in which the transaction stands. Other columns change nothing.
# CREATE OR REPLACE does the same with delta-spark 4.3.0 on pyspark 4.1.1.
# Not documented: of "Idempotent table writes in foreachBatch" a new checkpoint is said to need another
# txnAppId, and of CREATE OR REPLACE that it replaces the table.
# Way out: another txnAppId for what is filled again; or DROP and CREATE.
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


def drop_and_create():
    spark.sql("DROP TABLE t")
    spark.sql("CREATE TABLE t (id BIGINT) USING delta")


ways = {
    "replace": lambda: spark.sql("CREATE OR REPLACE TABLE t (id BIGINT, more STRING) USING delta"),
    "writeTo": lambda: spark.range(0).writeTo("t").using("delta").createOrReplace(),
    "drop": drop_and_create,
}


def fill():
    writer = spark.range(3).write.format("delta").mode("append")
    writer.options(txnAppId="nightly", txnVersion="1").saveAsTable("t")
    return spark.table("t").count()


for way, make_anew in ways.items():
    spark.sql("DROP TABLE IF EXISTS t")
    spark.sql("CREATE TABLE t (id BIGINT) USING delta")
    first = fill()
    make_anew()
    print(f"{way}: {first} rows, {spark.table('t').count()} when made anew, {fill()} when filled again")
spark.stop()
PY

said=$("$place/env/bin/python" look.py 2> log) || { cat log; exit 1; }
printf '%s\n' "$said"

grep -q "^replace: 3 rows, 0 when made anew, 0 when filled again$" <<< "$said"
grep -q "^writeTo: 3 rows, 0 when made anew, 0 when filled again$" <<< "$said"
grep -q "^drop: 3 rows, 0 when made anew, 3 when filled again$" <<< "$said"
