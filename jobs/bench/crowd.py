"""Threads of a load test: started together, awaited with patience, and none fails unseen."""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from spark_queue.errors import QueueShutDownError

#: Seconds after which a test that has not ended has failed.
PATIENCE = 120.0


class LoadError(Exception):
    """Raised when a load test found something lost, repeated, out of order, or hanging."""


def require(condition: object, problem: str) -> None:
    """Raise :class:`LoadError` unless something holds."""
    if not condition:
        raise LoadError(problem)


def each(count: int, work: Callable[[int], object]) -> list[Callable[[], object]]:
    """Make one call for each of so many threads, with the thread's number."""
    return [partial(work, number) for number in range(count)]


def together(calls: Iterable[Callable[[], object]], patience: float = PATIENCE) -> float:
    """Make all calls at once, each on a thread, and return the seconds till the last has ended.

    Raises
    ------
    LoadError
        When some have not ended in time; their threads die with the process.
    BaseException
        What the first call that failed has raised.
    """
    errors: list[BaseException] = []

    def guarded(call: Callable[[], object]) -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - raised again below, on the test's thread
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(call,), daemon=True) for call in calls]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, started + patience - time.monotonic()))
    if errors:
        raise errors[0]
    stuck = sum(thread.is_alive() for thread in threads)
    require(not stuck, f"{stuck} of {len(threads)} threads still run after {patience} s")
    return time.monotonic() - started


def until_closed(take: Callable[[], Any], into: list[Any]) -> int:
    """Take until the queue is closed, and return how often there was nothing."""
    misses = 0
    with suppress(QueueShutDownError):
        while True:
            misses += not _taken(take, into)
    return misses


def _taken(take: Callable[[], Any], into: list[Any]) -> bool:
    try:
        into.append(take())
    except queue.Empty:
        return False
    return True


def require_once(what: str, got: Iterable[Any], wanted: Iterable[Any]) -> None:
    """Require that exactly the wanted things were got, each once."""
    taken = list(got)
    unique, all_of_them = set(taken), set(wanted)
    require(len(taken) == len(unique), f"{what}: {len(taken) - len(unique)} came twice")
    require(unique >= all_of_them, f"{what}: {len(all_of_them - unique)} were lost")
    require(unique <= all_of_them, f"{what}: {len(unique - all_of_them)} came from nowhere")


def require_order(what: str, numbers: Sequence[int]) -> None:
    """Require that numbers only ever grow."""
    pairs = itertools.pairwise(numbers)
    broken = next((pair for pair in pairs if pair[0] >= pair[1]), None)
    require(broken is None, f"{what}: {broken} out of order")


def by_source(taken: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    """Sort what was taken by who put it, in the order in which it came."""
    numbers = defaultdict[int, list[int]](list)
    for source, number in taken:
        numbers[source].append(number)
    return numbers
