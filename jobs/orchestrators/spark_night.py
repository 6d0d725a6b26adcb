import os
import sys

from dbt.cli.main import dbtRunner

from spark_queue import DeltaQueue, local_session

PLACE, QUEUE = os.environ["NIGHT_PLACE"], os.environ["NIGHT_QUEUE"]

# dbt takes the session of its process, and asks it for a catalog of Hive: here a folder is one.
spark = local_session(
    **{
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": f"{PLACE}/warehouse",
        "spark.hadoop.javax.jdo.option.ConnectionURL": (
            f"jdbc:derby:;databaseName={PLACE}/catalog;create=true"
        ),
    }
)


def build(night, *words):
    """Have dbt build a part of its project; end where a model or a test fails."""
    given = ("--profiles-dir", ".", "--vars", f"{{night: {night}}}")
    if not dbtRunner().invoke(["build", *given, *words]).success:
        sys.exit(1)


def save(frame, name):
    """Write what dbt then reads as a source."""
    writer = frame.write.format("delta").mode("overwrite")
    writer.option("overwriteSchema", "true").saveAsTable(name)


def main(night):
    """Build the files of a night, enqueue them, and build on what the queue then is."""
    build(night, "--select", "due")
    queue = DeltaQueue.open(spark, QUEUE)
    queue.enqueue(spark.table("due"), batch=(f"files of {night}", 1))
    save(queue.status(), "queue_status")
    save(queue.dead(), "queue_dead")
    build(night, "--exclude", "due")


if __name__ == "__main__":
    main(sys.argv[1])
