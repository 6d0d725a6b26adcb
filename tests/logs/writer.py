"""A process that appends steps to a log beside others, and prints the tokens of its own."""

from __future__ import annotations

import sys

from obstore.store import LocalStore

from spark_queue.log.heads import following
from tests.logs.logs import disk_log, local_log, object_log, rows
from tests.logs.stores import ShakyStore


def main(kind: str, place: str, first: int, count: int) -> None:
    """Append as many steps, each of one item."""
    shaky = ShakyStore(LocalStore(place), lost=0.05, refused=0.05, seed=first)
    kinds = {"local": lambda: local_log(place), "disk": lambda: disk_log(place)}
    log, made = kinds.get(kind, lambda: object_log(shaky))(), 0
    while made < count:
        head = following(log.head())
        if log.append(head, rows(first + made)):
            made += 1
            print(head.step, head.token, flush=True)  # noqa: T201 - what the test reads


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
