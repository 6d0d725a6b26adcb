"""Work a queue off by a streaming query, now and whenever items come.

The same as ``spark-queue stream-dispatch``, with the session of the cluster instead of one of
its own::

    spark-submit --properties-file conf/spark-defaults.conf \
        jobs/stream_dispatch.py QUEUE MODULE:FUNCTION --checkpoint DIRECTORY
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from spark_queue.cli import main


def session(_verbose: bool) -> SparkSession:  # noqa: FBT001 - what the command line calls it with
    """Return the session of this job."""
    return SparkSession.builder.appName("stream_dispatch").getOrCreate()


if __name__ == "__main__":
    main(["stream-dispatch", *sys.argv[1:]], sessions=session)
