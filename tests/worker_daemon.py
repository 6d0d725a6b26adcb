"""The parent of Python workers, with their imports done.

Spark's own imports nothing before it forks, as pandas and Arrow may start threads. Here they start
none, so that a worker costs a fork, and not the half second of its imports.
"""

from __future__ import annotations

import gc
import os

# Threads of numpy and of Arrow would not be there after a fork.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["JE_ARROW_MALLOC_CONF"] = "background_thread:false"

import pandas as pd  # noqa: F401 - for the workers
from pyspark import daemon, worker  # noqa: F401

import spark_queue.streaming.processor  # noqa: F401

if __name__ == "__main__":
    # A worker collects garbage after each task: what is imported is none.
    gc.freeze()
    daemon.manager()
