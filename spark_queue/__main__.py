"""``python -m spark_queue`` is the command line."""

from __future__ import annotations

from spark_queue.cli import main

if __name__ == "__main__":
    main()
