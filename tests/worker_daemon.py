"""The parent of Python workers, with their imports done.

Spark's own imports nothing before it forks, as pandas and Arrow may start threads. Here they start
none, so that a worker costs a fork, and not the half second of its imports.
"""

from __future__ import annotations

import gc
import os
from importlib import import_module


def main() -> None:
    """Import what workers need, then fork them as Spark asks for them."""
    # Threads of numpy and of Arrow would not be there after a fork.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    os.environ["JE_ARROW_MALLOC_CONF"] = "background_thread:false"
    for name in ("pandas", "pyspark.worker", "spark_queue.streaming.processor"):
        import_module(name)
    # A worker collects garbage after each task: what is imported is none.
    gc.freeze()
    import_module("pyspark.daemon").manager()


if __name__ == "__main__":
    main()
