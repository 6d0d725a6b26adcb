"""What is forced to the disk at once: all of it, or an error that says so."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from spark_queue.log.disk import fsync


def test_one_that_fails_is_told_when_all_are_over() -> None:
    """The first error is the caller's, and no other call goes on behind his back."""
    made: list[int] = []

    def fail() -> None:
        raise OSError(5, "Input/output error")

    first, *others = (partial(made.append, n) for n in (0, 2, 3))
    with pytest.raises(OSError, match="Input/output"):
        fsync.at_once([first, fail, *others])
    assert sorted(made) == [0, 2, 3]
    with pytest.raises(OSError, match="Input/output"):
        fsync.at_once([fail, partial(made.append, 4)])
    assert made[-1] == 4


def test_all_is_forced_at_the_end_of_a_process_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no thread can be begun any more, the one that asks does all of it."""
    over = ThreadPoolExecutor(1)
    over.shutdown()
    monkeypatch.setattr(fsync, "_threads", lambda: over)
    made: list[int] = []
    fsync.at_once([partial(made.append, n) for n in range(3)])
    assert sorted(made) == [0, 1, 2]
