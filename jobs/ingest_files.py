"""Read every file below a directory once, on the cluster that ``spark-submit`` names.

The same as ``spark-queue ingest``, with the session of the cluster instead of one of its own::

    spark-submit --properties-file conf/spark-defaults.conf \
        jobs/ingest_files.py SOURCE --queue QUEUE --output TABLE
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from spark_queue.cli import main


def session(_verbose: bool) -> SparkSession:  # noqa: FBT001 - what the command line calls it with
    """Return the session of this job."""
    return SparkSession.builder.appName("ingest_files").getOrCreate()


if __name__ == "__main__":
    main(["ingest", *sys.argv[1:]], sessions=session)
