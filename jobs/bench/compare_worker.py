"""A worker of ``compare.py``: works off a queue, and says which items it has handled when.

``python compare_worker.py SIDE PLACE SIZE [stay]`` prints a line ``NAME SECONDS`` for each item
that has a name; an item that is called *hang* never ends. A last line has how many items there
were, in how many seconds, and for how many of them it has worked; who is to stay looks for more
instead.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from compare_sides import SIDES
from steps_bench import Row

#: Seconds between two looks.
_PAUSE = 0.05


def main(side: str, place: str, size: str, stay: str = "") -> None:
    """Work off everything that is there."""
    queue = SIDES[side](Path(place))
    handled = 0

    def handle(row: Row) -> None:
        nonlocal handled
        handled += 1
        if row["folder"]:
            say(row["folder"], time.time())
        if row["folder"] == "hang":
            time.sleep(3_600)

    took = queue.drain(int(size), handle)
    while stay:
        time.sleep(_PAUSE)
        queue.drain(int(size), handle)
    say("DONE", handled, took, time.process_time())


def say(*words: object) -> None:
    """Print a line at once."""
    print(*words, flush=True)  # noqa: T201 - it is read by who started this


if __name__ == "__main__":
    main(*sys.argv[1:])
