"""Threads of several processes that put single items into a queue on an object store, and kills.

Each request is delayed within the process that makes it, so that there is no proxy to pay for. The
figures are to be compared within one run: the first row is one thread of one process. The store is
that of ``object_store.py``.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from object_store import FORK, LATER, in_child, options_of, served
from spark_queue import LocalQueue, QueueConfig

app = typer.Typer(add_completion=False)

_BUCKET = "s3://bench"
_SCHEMA = "k string"

#: Opens a queue and puts items until it is killed.
_LIFE = """
import sys
sys.path.insert(0, sys.argv[1])
from object_store_threads import put_for_ever
put_for_ever(int(sys.argv[2]), sys.argv[3])
"""


class DelayedStore:
    """A store of ``obstore`` each request to which takes longer."""

    def __init__(self, port: int, delay: float) -> None:
        options = {**options_of(port), "retry_config": {"max_retries": 0}}
        self._store = import_module("obstore.store").from_url(_BUCKET, **options)
        self.delay = delay

    def put(self, *given: Any, **options: Any) -> Any:
        """Write an object."""
        return self._ask(self._store.put, *given, **options)

    def get(self, *given: Any, **options: Any) -> Any:
        """Read an object."""
        return self._ask(self._store.get, *given, **options)

    def delete(self, *given: Any, **options: Any) -> Any:
        """Remove an object."""
        return self._ask(self._store.delete, *given, **options)

    def list(self, *given: Any, **options: Any) -> Any:
        """List objects."""
        return self._ask(self._store.list, *given, **options)

    def _ask(self, request: Callable[..., Any], *given: Any, **options: Any) -> Any:
        time.sleep(self.delay)
        return request(*given, **options)


def put_for_ever(port: int, place: str) -> None:
    """Put items until somebody ends this process."""
    queue = LocalQueue.open(place, storage=DelayedStore(port, 0.0))
    while True:
        queue.enqueue([_item()])


def _item() -> dict[str, str]:
    return {"k": uuid.uuid4().hex}


def _make(port: int, place: str, *, is_distinct: bool = False) -> None:
    config = QueueConfig(dedup_key="k") if is_distinct else None
    LocalQueue.create(place, _SCHEMA, config, storage=DelayedStore(port, 0.0))


def _put_one(queue: LocalQueue) -> None:
    queue.enqueue([_item()])


def _claim_one(queue: LocalQueue, claims: list[Any]) -> None:
    claims.append(queue.claim(1))


def _settle_one(claims: list[Any]) -> None:
    claims.pop().ack()


def _time_verbs(port: int, delay: float, rounds: int) -> None:
    """Print what single steps take: by the clock, and of the processor."""
    for is_distinct in (False, True):
        place, store = f"{_BUCKET}/{uuid.uuid4().hex}", DelayedStore(port, 0.0)
        _make(port, place, is_distinct=is_distinct)
        queue, claims = LocalQueue.open(place, storage=store), list[Any]()
        verbs: dict[str, Callable[[], object]] = {
            "distinct enqueue" if is_distinct else "enqueue": partial(_put_one, queue),
            "claim": partial(_claim_one, queue, claims),
            "settle": partial(_settle_one, claims),
        }
        queue.enqueue([_item()])
        queue.claim(1).ack()
        store.delay = delay
        for name, act in verbs.items():
            _print_times(name, [_time(act) for _ in range(rounds)])


def _time(act: Callable[[], object]) -> tuple[float, float]:
    began, work = time.perf_counter(), time.process_time()
    act()
    return time.perf_counter() - began, time.process_time() - work


def _print_times(name: str, found: list[tuple[float, float]]) -> None:
    wall, work = (statistics.median(one) * 1000 for one in zip(*found, strict=True))
    typer.echo(f"{name:17} p50 {wall:5.1f} ms, of which {work:4.1f} ms of the processor")


def _put_by_threads(
    port: int, place: str, threads: int, seconds: float, delay: float, told: str, begin: Any
) -> None:
    queue = LocalQueue.open(place, storage=DelayedStore(port, delay))
    queue.enqueue([_item()])
    begin.wait()
    end, took, lost = time.monotonic() + seconds, list[float](), list[str]()

    def put() -> None:
        while time.monotonic() < end:
            began = time.monotonic()
            try:
                queue.enqueue([_item()])
            except Exception as exc:  # noqa: BLE001 - counted
                lost.append(type(exc).__name__)
            else:
                took.append(time.monotonic() - began)

    crew = [threading.Thread(target=put) for _ in range(threads)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    used = time.process_time()
    Path(told, str(os.getpid())).write_text(json.dumps([took, lost, used]), encoding="utf-8")


def _rate(port: int, processes: int, threads: int, seconds: float, delay: float) -> float:
    """Print and return how many items a second are told durable."""
    place = f"{_BUCKET}/{uuid.uuid4().hex}"
    in_child(partial(_make, port, place))
    begin = FORK.Barrier(processes)
    with tempfile.TemporaryDirectory() as told:
        args = (port, place, threads, seconds, delay, told, begin)
        crew = [FORK.Process(target=_put_by_threads, args=args) for _ in range(processes)]
        for one in crew:
            one.start()
        for one in crew:
            one.join()
        found = [json.loads(path.read_text(encoding="utf-8")) for path in Path(told).iterdir()]
    took = sorted(one for some, _, _ in found for one in some)
    lost, used = sum(len(some) for _, some, _ in found), sum(one for *_, one in found)
    p50, p99 = (took[int(len(took) * part)] * 1000 for part in (0.5, 0.99))
    typer.echo(
        f"{processes} x {threads:2}  {len(took) / seconds:6.1f} items a second, "
        f"p50 {p50:.0f} ms, p99 {p99:.0f} ms, {used / len(took) * 1000:.1f} ms of the processor "
        f"an item, {lost} errors"
    )
    return len(took) / seconds


def _count_left(port: int, kills: int) -> tuple[int, int]:
    """Return the files that killed processes leave, and those that the next one leaves of them."""
    place, draw = f"{_BUCKET}/{uuid.uuid4().hex}", random.Random(0)  # noqa: S311 - of a benchmark
    in_child(partial(_make, port, place))
    words = [sys.executable, "-c", _LIFE, str(Path(__file__).parent), str(port), place]
    with tempfile.TemporaryDirectory() as temporary:
        env = {**os.environ, "TMPDIR": temporary}
        lives = [subprocess.Popen(words, env=env) for _ in range(kills)]  # noqa: S603 - of this file
        for life in lives:
            time.sleep(draw.uniform(0.5, 4))
            life.kill()
            life.wait()
        left = {path for path in Path(temporary).rglob("*") if path.is_file()}
        code = f"from object_store_threads import *; LocalQueue.open({place!r}, "
        code += f"storage=DelayedStore({port}, 0.0)).enqueue([{{'k': 'last'}}])"
        path = os.pathsep.join([str(Path(__file__).parent), env.get("PYTHONPATH", "")])
        again = [sys.executable, "-c", code]
        subprocess.run(again, env={**env, "PYTHONPATH": path}, check=True)  # noqa: S603 - as above
        return len(left), sum(1 for _ in Path(temporary).rglob("*"))


@app.command()
def main(
    delay: Annotated[int, typer.Option(help="Milliseconds that a request takes longer.")] = 30,
    seconds: Annotated[float, typer.Option(help="Seconds of each rate.")] = 8.0,
    rounds: Annotated[int, typer.Option(help="Steps of each verb.")] = 30,
    kills: Annotated[int, typer.Option(help="Processes that are killed.")] = 4,
) -> None:
    """Print the figures."""
    for name in LATER:
        import_module(name)
    with tempfile.TemporaryDirectory() as told, served(told) as port:
        one, many, all_ = (
            _rate(port, processes, threads, seconds, delay / 1000)
            for processes, threads in ((1, 1), (1, 16), (8, 16))
        )
        typer.echo(f"over one thread: {many / one:.1f} x and {all_ / one:.1f} x")
        typer.echo(f"8 processes over 1: {all_ / many:.2f}")
        left, kept = _count_left(port, kills)
        typer.echo(f"{kills} kills left {left} files, of which the next process keeps {kept}")
        _time_verbs(port, delay / 1000, rounds)


if __name__ == "__main__":
    app()
