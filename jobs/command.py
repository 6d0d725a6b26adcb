"""Run a command of ``spark-queue`` with the session of the cluster instead of one of its own.

``spark-submit jobs/command.py doctor QUEUE``; its exit code is that of the command.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from spark_queue.cli import main


def session(_verbose: bool) -> SparkSession:  # noqa: FBT001 - what the command line calls it with
    """Return the session of this job."""
    return SparkSession.builder.getOrCreate()


if __name__ == "__main__":
    main(sys.argv[1:], sessions=session)
