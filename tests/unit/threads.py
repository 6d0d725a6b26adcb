"""Threads of a test: started, waited for, and what became of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def threads(*bodies: Callable[[], object]) -> Iterator[None]:
    """Run each body in a thread of its own; all have ended when the block has."""
    started = [threading.Thread(target=body) for body in bodies]
    for thread in started:
        thread.start()
    yield
    for thread in started:
        thread.join(timeout=120)
        assert not thread.is_alive()


def together(*bodies: Callable[[], object]) -> None:
    """Run each body in a thread of its own, to its end."""
    with threads(*bodies):
        pass


def in_thread(call: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """Call something on another thread; its result or error lands in the list."""
    ended: list[Any] = []

    def run() -> None:
        try:
            ended.append(call())
        except BaseException as error:  # noqa: BLE001 - handed to the test
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, ended


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition that other threads bring about."""
    limit = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0)
