from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spark_queue.delta_queue import DeltaQueue
from spark_queue.errors import InvalidArgumentError, InvalidConfigError, UnsafeSessionError
from spark_queue.ingest import ingest
from spark_queue.processing.handler_types import ItemHandler
from spark_queue.processing.loop import Asked
from spark_queue.processing.worker import require_safe


def _queue(**conf: str) -> Any:
    """Return what a worker sees of a queue before it does anything: its session's settings."""
    settings = SimpleNamespace(get=lambda name, default=None: conf.get(name, default))
    return SimpleNamespace(spark=SimpleNamespace(conf=settings))


def _work(handler: ItemHandler) -> Asked:
    return Asked(handler)


def test_a_speculative_session_is_refused() -> None:
    """Where Spark may run a task twice, a handler would run twice for one lease."""
    queue = _queue(**{"spark.speculation": "true"})

    with pytest.raises(UnsafeSessionError, match=r"spark\.speculation.*twice"):
        require_safe(queue, _work(lambda _: None))


def test_a_handler_that_does_not_pickle_is_refused() -> None:
    """What cannot be sent to executors is named before anything is claimed."""
    lines = (n for n in range(3))

    with pytest.raises(InvalidArgumentError, match="cannot be sent to executors"):
        require_safe(_queue(), _work(lambda _: {"n": next(lines)}))


@pytest.mark.parametrize("package", ["pandas", "pyarrow"])
def test_a_driver_without_a_package_of_spark_s_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, package: str
) -> None:
    """What Spark needs to run a handler is asked for before a queue is made or claimed from."""
    monkeypatch.setitem(sys.modules, package, None)
    said = f"(?i)cannot run handlers.*{package}.*pip install"

    with pytest.raises(InvalidConfigError, match=said):
        require_safe(_queue(), _work(lambda _: None))
    with pytest.raises(InvalidConfigError, match=said):
        ingest(SimpleNamespace(), tmp_path, "./q", "./out")  # type: ignore[arg-type]


async def _awaited(_item: object) -> None: ...


class _Awaited:
    async def __call__(self, _item: object) -> None: ...


@pytest.mark.parametrize("handler", [_awaited, _Awaited()])
def test_an_async_handler_is_refused_where_executors_work(handler: Any) -> None:
    """They would never await it; the error says what does, before anything is claimed."""
    with pytest.raises(InvalidArgumentError, match=r"is async def.*LocalQueue.*asyncio\.run"):
        DeltaQueue(_queue()).process(handler)
    with pytest.raises(InvalidArgumentError, match=r"is async def"):
        require_safe(_queue(), _work(handler))


def _process(**options: Any) -> None:
    DeltaQueue(_queue()).process(lambda _: None, **options)


@pytest.mark.parametrize(("name", "value"), [("max_workers", 2), ("using", "threads")])
def test_workers_in_this_process_are_refused_where_executors_work(name: str, value: Any) -> None:
    """An option that would do nothing is named before anything is claimed."""
    with pytest.raises(InvalidArgumentError, match=f"{name} is {value!r}: .*executors"):
        _process(**{name: value})
