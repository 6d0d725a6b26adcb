"""The right to rewrite the files of a queue, among the threads of a process."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait

from spark_queue.testing import memory_queue
from spark_queue.upkeep.rewriter import rewriting

PATIENCE = 60.0


def test_threads_rewrite_the_files_of_a_queue_one_by_one() -> None:
    """A thread waits for the one that rewrites the same queue, and for no other."""
    queue, other = memory_queue("n int"), memory_queue("n int")
    begun, end = threading.Event(), threading.Event()
    ended: list[str] = []

    def rewrite() -> None:
        with rewriting(queue._main, "queue"):
            begun.set()
            assert end.wait(PATIENCE)
            ended.append("first")

    def rewrite_too() -> None:
        assert begun.wait(PATIENCE)
        with rewriting(other._main, "queue"):
            ended.append("other")
        with rewriting(queue._main, "status"):
            ended.append("second")

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.submit(rewrite), pool.submit(rewrite_too)
        # It never ends before the first one; without the lock it does in a moment.
        wait([second], timeout=0.5)
        end.set()
        first.result(PATIENCE)
        second.result(PATIENCE)
    assert ended == ["other", "first", "second"]
