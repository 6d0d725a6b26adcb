"""Add the rows of files that land in a directory to a queue, each exactly once.

The same as ``spark-queue stream-enqueue``, with the session of the cluster instead of one of
its own::

    spark-submit --properties-file conf/spark-defaults.conf \
        jobs/stream_enqueue.py QUEUE --files DIRECTORY --checkpoint DIRECTORY
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from spark_queue.cli import main


def session(_verbose: bool) -> SparkSession:  # noqa: FBT001 - what the command line calls it with
    """Return the session of this job."""
    return SparkSession.builder.appName("stream_enqueue").getOrCreate()


if __name__ == "__main__":
    main(["stream-enqueue", *sys.argv[1:]], sessions=session)
