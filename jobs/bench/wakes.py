"""Measure how soon somebody who waits for items knows of what another process has put.

Another process waits, by a claim or by a front, on a queue without Spark, and this one puts an item
from time to time. ``woken`` is from the moment at which everybody can see the step until who waits
has seen it, ``idle`` how much of a processor it takes to wait. No JVM runs.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any

import typer

from report import Figure, at_most, measure
from spark_queue.local_queue import LocalQueue

app = typer.Typer(add_completion=False)

#: Waits for an item as often as it is told to, and says when it knew of it and when it had it.
_TAKER = """
import json, sys, time
from datetime import timedelta
from spark_queue import DurableQueue, FrontOptions, LocalQueue
from spark_queue.state.step_waits import Look

kind, path, idle = sys.argv[1], sys.argv[2], float(sys.argv[3])
seen, asked = [], Look.is_outdated

def noted(look):
    is_outdated = asked(look)
    if is_outdated:
        seen.append(time.monotonic())
    return is_outdated

def by_claim(seconds):
    with queue.claim(wait=timedelta(seconds=seconds)) as claim:
        return claim.count

def by_front(seconds):
    try:
        front.ack(front.get(seconds)).result()
    except Exception:
        pass

Look.is_outdated = noted
queue = LocalQueue.open(path)
if kind == "front":
    front = DurableQueue(queue, options=FrontOptions(poll_every=timedelta(hours=1)))
take = by_front if kind == "front" else by_claim
take(0.1)
before = time.process_time()
take(idle)
print(json.dumps((time.process_time() - before) / idle), flush=True)
for line in sys.stdin:
    seen.clear()
    print("0", flush=True)
    take(60)
    print(json.dumps(seen[0]), flush=True)
"""


class Taker:
    """The process that waits."""

    def __init__(self, kind: str, path: str, idle: float) -> None:
        program = [sys.executable, "-c", _TAKER, kind, path, str(idle)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = subprocess.Popen(program, text=True, **pipes)  # type: ignore[call-overload]  # noqa: S603 - ours

    def told(self) -> Any:
        """Return what it says next."""
        return json.loads(self._process.stdout.readline())

    def wait_again(self) -> None:
        """Let it wait for the next item, and return when it is about to."""
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self.told()

    def kill(self) -> None:
        """Let it end."""
        self._process.kill()
        self._process.communicate()


def _woken(taker: Taker, queue: LocalQueue, visible: list[float]) -> float:
    """Put an item for who waits, and return the seconds after which that was known."""
    taker.wait_again()
    time.sleep(random.uniform(0.3, 0.4))  # noqa: S311 - at any moment between two questions
    visible.clear()
    queue.enqueue({"id": "a"})
    return float(taker.told()) - visible[0]


@contextmanager
def _noting_links() -> Iterator[list[float]]:
    """Note when each commit of this process became visible."""
    visible: list[float] = []
    link = os.link

    def linked(*args: Any, **options: Any) -> None:
        link(*args, **options)
        visible.append(time.monotonic())

    os.link = linked
    try:
        yield visible
    finally:
        os.link = link


def waiting(kind: str, count: int, idle: float) -> Iterable[Figure]:
    """Measure one way to wait."""
    with tempfile.TemporaryDirectory() as root, _noting_links() as visible:
        queue = LocalQueue.create(f"{root}/queue", "id string")
        taker = Taker(kind, queue.name, idle)
        try:
            cpu = taker.told()
            times = sorted(_woken(taker, queue, visible) * 1000 for _ in range(count))
        finally:
            taker.kill()
    detail = f"{count} items put by another process"
    last = times[min(count - 1, round(count * 0.99))]
    yield Figure(f"{kind}.woken.p50", statistics.median(times), at_most(50), "ms", detail)
    yield Figure(f"{kind}.woken.p99", last, at_most(50), "ms", detail)
    yield Figure(f"{kind}.idle", cpu * 100, at_most(2), "%", f"of a processor, over {idle:g} s")


@app.command(help=__doc__)
def main(
    only: Annotated[list[str] | None, typer.Option(help="Sections to run; all of them.")] = None,
    count: Annotated[int, typer.Option(min=2, help="Items that are put.")] = 100,
    idle: Annotated[float, typer.Option(help="Seconds for which nothing is put.")] = 10.0,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="No table at the end.")] = False,
    strict: Annotated[bool, typer.Option(help="Fail when a target is missed.")] = False,
) -> None:
    """Measure the sections that were asked for."""
    sections = {kind: partial(waiting, kind, count, idle) for kind in ("claim", "front")}
    raise typer.Exit(measure(sections, only, as_json=as_json, strict=strict))


if __name__ == "__main__":
    app()
