"""Measure how many items a durable front should claim at a time; no JVM runs.

``alone`` is the rate of one front whose handler does nothing. ``share`` is the part of 300 items
that the slower of two processes got, with a handler of ten milliseconds. ``wait`` is the longest
time from put to handler at thirty puts a second, beside a worker that holds a slow item.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any

import typer

from report import Figure, at_least, at_most, measure, median_figure, ratio_figure, rounds
from spark_queue.front.durable import DurableQueue, FrontOptions
from spark_queue.local_queue import LocalQueue

app = typer.Typer(add_completion=False)

#: Sizes of a claim that are compared.
SIZES: tuple[Any, ...] = ("auto", 1, 100, 1_000)

#: Takes items until there is none for a second, and says when it had each.
_WORKER = """
import json, queue, sys, time
from spark_queue import DurableQueue, FrontOptions, LocalQueue

path, size, first, each = sys.argv[1], json.loads(sys.argv[2]), *map(float, sys.argv[3:])
front = DurableQueue(LocalQueue.open(path), options=FrontOptions(prefetch=size))
print("ready", flush=True)
sys.stdin.readline()
had, pause = [], first
try:
    while True:
        delivery = front.get(2)
        had.append((delivery.item["n"], time.time()))
        time.sleep(pause)
        front.ack(delivery)
        pause = each
except queue.Empty:
    pass
front.close()
print(json.dumps(had), flush=True)
"""


@contextmanager
def _queue(count: int) -> Iterator[LocalQueue]:
    with tempfile.TemporaryDirectory() as root:
        made = LocalQueue.create(f"{root}/queue", "n long")
        if count:
            made.enqueue([{"n": n} for n in range(count)])
        yield made


def alone(size: Any, count: int) -> float:
    """Return the items a second that one front takes and settles."""
    with _queue(count) as made:
        began = time.perf_counter()
        with DurableQueue(made, options=FrontOptions(prefetch=size)) as front:
            for _ in range(count):
                front.ack(front.get())
            front.sync()
        return count / (time.perf_counter() - began)


class Worker:
    """Another process that takes items."""

    def __init__(self, made: LocalQueue, size: Any, first: float, each: float) -> None:
        program = [sys.executable, "-c", _WORKER, made.name, json.dumps(size)]
        program += [str(first), str(each)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen(program, text=True, **pipes)  # type: ignore[call-overload]  # noqa: S603 - ours
        self.process.stdout.readline()

    def begin(self) -> None:
        """Let it take items."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def had(self) -> list[tuple[int, float]]:
        """Return its items, and when it had each."""
        return list(map(tuple, json.loads(self.process.communicate()[0])))


def share(size: Any) -> float:
    """Return the part of 300 items that the slower of two processes got."""
    with _queue(300) as made:
        workers = [Worker(made, size, 0.01, 0.01) for _ in range(2)]
        for worker in workers:
            worker.begin()
        return min(len(worker.had()) for worker in workers) / 300


def waits(size: Any) -> float:
    """Return the longest wait for a worker, in milliseconds, beside one that has a slow item."""
    with _queue(0) as made:
        slow, quick = Worker(made, size, 5, 0), Worker(made, size, 0, 0)
        put: dict[int, float] = {}
        with DurableQueue(made, options=FrontOptions(prefetch=size)) as front:
            slow.begin()
            put[-1] = time.time()
            front.put({"n": -1}).result()
            time.sleep(0.5)
            quick.begin()
            for n in range(90):
                put[n] = time.time()
                front.put({"n": n})
                time.sleep(1 / 30)
            front.sync()
            had = slow.had() + quick.had()
    times = sorted(at - put[n] for n, at in had if n >= 0)
    return times[-1] * 1_000 if len(times) == len(put) - 1 else float("inf")


def rates(count: int, repeats: int) -> Iterable[Figure]:
    """Compare the rates of one front."""
    found = rounds({str(size): partial(alone, size, count) for size in SIZES if size != 1}, repeats)
    detail = f"{count} items, get and ack, a handler that does nothing"
    for name, values in found.items():
        yield median_figure(f"alone.{name}", values, None, detail, "items/s")
    yield ratio_figure("alone.auto.1000", found["auto"], found["1000"], at_least(0.8), detail)


def _each(name: str, measured: Callable[[Any], float], repeats: int, unit: str) -> Iterable[Figure]:
    found = rounds({str(size): partial(measured, size) for size in SIZES}, repeats)
    for size, values in found.items():
        target = at_least(0.3) if name == "share" else at_most(500)
        yield median_figure(f"{name}.{size}", values, target if size == "auto" else None, "", unit)


@app.command(help=__doc__)
def main(
    only: Annotated[list[str] | None, typer.Option(help="Sections to run; all of them.")] = None,
    count: Annotated[int, typer.Option(min=100, help="Items of one front.")] = 10_000,
    repeats: Annotated[int, typer.Option(min=1, help="Rounds of each figure.")] = 3,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="No table at the end.")] = False,
    strict: Annotated[bool, typer.Option(help="Fail when a target is missed.")] = False,
) -> None:
    """Measure the sections that were asked for."""
    sections: dict[str, Callable[[], Iterable[Figure]]] = {
        "alone": partial(rates, count, repeats),
        "share": partial(_each, "share", share, repeats, "of the items"),
        "wait": partial(_each, "wait", waits, repeats, "ms"),
    }
    raise typer.Exit(measure(sections, only, as_json=as_json, strict=strict))


if __name__ == "__main__":
    app()
