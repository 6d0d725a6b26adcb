"""Views of a queue as frames of Spark, which are read when they are used."""

from __future__ import annotations

from pyspark.sql import DataFrame

from spark_queue.delta.commands import enqueue
from spark_queue.delta.plans.spark_look import SparkLook
from spark_queue.delta.store import by_spark
from spark_queue.delta.views.views import QueueViews


def _in_order(rows: DataFrame) -> DataFrame:
    return rows.orderBy("_seq")


VIEWS = QueueViews(SparkLook, by_spark.user_schema, enqueue.outcomes, _in_order)
