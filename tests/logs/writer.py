"""A process that appends steps to a log beside others, and prints the tokens of its own."""

from __future__ import annotations

import sys

from spark_queue.delta.tables.heads import following
from tests.logs.logs import local_log, rows


def main(place: str, first: int, count: int) -> None:
    """Append as many steps, each of one item."""
    log, made = local_log(place), 0
    while made < count:
        head = following(log.head())
        if log.append(head, rows(first + made)):
            made += 1
            print(head.step, head.token, flush=True)  # noqa: T201 - what the test reads


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
