"""Errors of the library, as they come from another process."""

from __future__ import annotations

import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

import spark_queue
from spark_queue import errors


@pytest.mark.parametrize(
    "error",
    [
        errors.FileAccessError("q/status/x", 13, "ask"),
        errors.FileDamagedError("q/status/_delta_log/x", "is empty"),
        errors.FileGoneError("q/x"),
        errors.InvalidArgumentError("n is 0"),
        errors.LeaseLostError([1, 2]),
        errors.LogFileError(Path("log"), 12, "it is damaged"),
        errors.OutputRefusedError("out", "claim", "no"),
        errors.QueueFullError("item", 3),
        errors.QueueNotFoundError("q"),
        errors.ReaderNotFoundError("q", "r", ["s"]),
        errors.SchemaMismatchError("n", "is text"),
        errors.SparkNeededError("this", "it is on a shared store"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_is_pickled_whole(error: errors.SparkQueueError) -> None:
    """Its copy says the same, and has the same facts."""
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - it is our own

    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
    assert getattr(copy, "errno", None) == getattr(error, "errno", None)


def test_an_error_of_a_worker_does_not_break_its_pool(tmp_path: Path) -> None:
    """The parent gets the error, and the pool goes on."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        with pytest.raises(errors.QueueNotFoundError, match="nothing"):
            pool.submit(spark_queue.open, tmp_path / "nothing").result()
        assert pool.submit(len, "ab").result() == 2
