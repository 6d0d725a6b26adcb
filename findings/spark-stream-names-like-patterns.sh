#!/usr/bin/env bash
# pyspark 4.2.0: a stream over a folder reads the files of a micro-batch several times, once some of
# their names look like a pattern.
#
# Done: readStream.json over a folder of four small files, "plain.json", "other.json", "a[1].json"
# and "b{2}.json", each with one row, in one micro-batch of availableNow.
# Expected: four rows. The source keeps a log of the files that it has read, which names each once.
# Instead: ten. Each name with one of [ ] { } * ? \ stands for all files of the micro-batch, and the
# plain ones come once more: with two such names they are read two and three times. With one file a
# micro-batch each is read once. A batch read of the folder has four rows.
# Not documented: the guide of Structured Streaming says that each file is processed once.
# Way out: maxFilesPerTrigger = 1; or names without these letters.
set -euo pipefail

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
# Spark leaves folders where it runs.
cd "$place"
python3 -m venv "$place/env"
"$place/env/bin/pip" install --quiet "pyspark==4.2.0"

mkdir landing
for name in plain other 'a[1]' 'b{2}'; do
    printf '{"file": "%s"}\n' "$name" > "landing/$name.json"
done

cat > look.py <<'PY'
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").getOrCreate()


def told(rows):
    counted = rows.groupBy("file").count().orderBy("file").collect()
    return ", ".join(f"{row['file']} {row['count']}" for row in counted)


for most in (100, 1):
    stream = spark.readStream.schema("file string").option("maxFilesPerTrigger", most)
    writer = stream.json("landing").writeStream.format("memory").queryName(f"seen{most}")
    writer.trigger(availableNow=True).start().awaitTermination()
    print(f"{most:3} a micro-batch:", told(spark.table(f"seen{most}")))
print("no stream:        ", told(spark.read.schema("file string").json("landing")))
spark.stop()
PY

said=$("$place/env/bin/python" look.py 2> log) || { cat log; exit 1; }
printf '%s\n' "$said"

grep -q "^100 a micro-batch: a\[1\] 2, b{2} 2, other 3, plain 3$" <<< "$said"
grep -q "^  1 a micro-batch: a\[1\] 1, b{2} 1, other 1, plain 1$" <<< "$said"
grep -q "^no stream: *a\[1\] 1, b{2} 1, other 1, plain 1$" <<< "$said"
