"""What tenants and operators feel, beside two other queues: neighbours, kills, drains; and a trace.

``python compare.py`` runs every section on every side that is installed: ``spark_queue`` without
Spark, PgQueuer on a PostgreSQL of its own, and persist-queue's ``SQLiteAckQueue``. Each side is
asked for the same: what it tells is on the disk. A side works in processes of their own, so that
they can be killed. ``--plot DIR`` writes a picture for each section.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from queue import Empty, Queue
from typing import Annotated

import typer

import postgres
from compare_sides import SIDES, Side
from compare_trace import TRACE, trace
from report import Figure, at_most, measure, median_figure
from small_steps import Meter
from steps_bench import Row

_WORKER = Path(__file__).with_name("compare_worker.py")

#: What a side needs beyond this library.
_NEEDS = {"PgQueuer": ("pgqueuer", "asyncpg"), "SQLiteAckQueue": ("persistqueue",)}

#: Items that are put together, where a side can.
_TOGETHER = 10_000

#: Seconds that a drain may take.
_DRAINS = 7_200.0

#: Items of a claim.
_SIZE = 100

app = typer.Typer(add_completion=False)


@dataclass
class Bench:
    """Where to measure, and how much."""

    root: Path
    scale: float
    rounds: int
    patience: float

    def rows(self, full: int) -> int:
        """Return a number of rows at the scale of this run."""
        return max(1_000, int(full * self.scale))

    @contextmanager
    def place(self, side: str) -> Iterator[Path]:
        """Make an empty queue of a side, with the server that it needs."""
        with ExitStack() as stack:
            made = stack.enter_context(tempfile.TemporaryDirectory(prefix="side-", dir=self.root))
            place = Path(made)
            if side == "PgQueuer":
                socket = stack.enter_context(postgres.server(self.root))
                (place / "socket").write_text(str(socket))
            yield place


@app.command()
def main(
    *,
    only: Annotated[list[str] | None, typer.Option(help="Sections; all without.")] = None,
    scale: Annotated[float, typer.Option(help="How much of the full size.")] = 1.0,
    rounds: Annotated[int, typer.Option(min=1, help="Kills of each side.")] = 5,
    patience: Annotated[float, typer.Option(help="Seconds to wait for a quiet tenant.")] = 900.0,
    place: Annotated[Path | None, typer.Option(help="Where to put the queues.")] = None,
    swf: Annotated[Path, typer.Option(help="A trace of the Parallel Workloads Archive.")] = TRACE,
    json: Annotated[bool, typer.Option(help="No table at the end.")] = False,
    strict: Annotated[bool, typer.Option(help="Fail when a target is missed.")] = False,
) -> None:
    """Compare the sides."""
    bench = Bench(Path(tempfile.mkdtemp(prefix="compare-", dir=place)), scale, rounds, patience)
    sections: Mapping[str, Callable[[], Iterator[Figure]]] = {
        "neighbours": partial(neighbours, bench),
        "kill": partial(kill, bench),
        "drain": partial(drain, bench),
        "trace": partial(trace, swf),
    }
    try:
        code = measure(sections, only, as_json=json, strict=strict)
    finally:
        shutil.rmtree(bench.root, ignore_errors=True)
    raise typer.Exit(code)


def neighbours(bench: Bench) -> Iterator[Figure]:
    """Let one tenant flood the queue; another one puts an item, and waits for it."""
    flood = bench.rows(1_000_000)
    for side in _sides():
        with bench.place(side) as place:
            waits = _waits(bench, side, place, flood)
        detail = f"a quiet tenant's item put beside {flood:,} of another, claims of {_SIZE}"
        over = " (not handled by then)" if waits == [bench.patience] else ""
        target = at_most(1.0) if side == "spark_queue" else None
        yield median_figure(f"neighbours.{side}", waits, target, detail + over, "s")
        # As long as the flood is there; later ones find the queue empty where it was short.
        longest = f"{detail}, the longest of {len(waits)}{over}"
        yield Figure(f"neighbours.{side}.longest", max(waits), None, "s", longest)


def _waits(bench: Bench, side: str, place: Path, flood: int) -> list[float]:
    """Return how long items of a quiet tenant waited, one after the other."""
    queue = SIDES[side](place)
    queue.put([_row(-1, "loud", "begun")])
    _filled(queue, flood)
    waits: list[float] = []
    with _worker(side, place) as worker:
        until = time.time() + bench.patience
        worker.told("begun", until)
        while len(waits) < bench.rounds and time.time() < until:
            time.sleep(0.5)
            name, put = f"quiet-{len(waits)}", time.time()
            queue.put([_row(flood + len(waits), "quiet", name)])
            handled = worker.told(name, until)
            waits.append(bench.patience if handled is None else handled - put)
    return waits


def kill(bench: Bench) -> Iterator[Figure]:
    """Kill a worker that holds items; a supervisor starts the next one at once."""
    for side in _sides():
        with bench.place(side) as place:
            queue = SIDES[side](place)
            waits = [_recovered(bench, side, place, queue) for _ in range(bench.rounds)]
        detail = f"from SIGKILL of a worker to its first item handled by a new one, {_SIZE} a claim"
        yield median_figure(f"kill.{side}", waits, None, detail, "s")


_starts = count(10**9, _SIZE)


def _recovered(bench: Bench, side: str, place: Path, queue: Side) -> float:
    """Return the seconds until the item that a killed worker held was handled."""
    start = next(_starts)
    rest = [_row(number, "t") for number in range(start + 1, start + _SIZE)]
    queue.put([_row(start, "t", "hang"), *rest])
    until = time.time() + bench.patience
    with _worker(side, place) as first:
        if first.told("hang", until) is None:
            raise AssertionError(f"{side}: the first worker never got its item")
    killed = time.time()
    with _worker(side, place) as second:
        again = second.told("hang", until)
    return bench.patience if again is None else again - killed


def drain(bench: Bench) -> Iterator[Figure]:
    """Put many items, and work them off in one process."""
    items, size = bench.rows(100_000), 1_000
    for side in _sides():
        meter = Meter()
        with bench.place(side) as place:
            meter.time("put", partial(_filled, SIDES[side](place), items))
            with _worker(side, place, size, stay=False) as worker:
                done = meter.time("drain", partial(worker.done, time.time() + _DRAINS))
        if not done or done[0] != items:
            raise AssertionError(f"{side}: {done} of {items:,} items")
        _, took, worked = done
        detail = f"{items:,} items in one process, {size:,} a claim"
        yield Figure(f"put.{side}", items / meter.waits("put")[0], None, "items/s", detail)
        yield Figure(f"drain.{side}", items / took, None, "items/s", detail)
        core = items / (worked + meter.works("drain")[0])
        also = f"{detail}; the start of the process and the work of a server are in it"
        yield Figure(f"drain.{side}.core", core, None, "items/s of a core", also)


def _sides() -> Iterator[str]:
    for side in SIDES:
        missing = [name for name in _NEEDS.get(side, ()) if find_spec(name) is None]
        if side == "PgQueuer" and postgres.programs() is None:
            missing.append("PostgreSQL (Debian: apt-get install postgresql)")
        if missing:
            typer.echo(f"{side} is left out, without {', '.join(missing)}", err=True)
            continue
        yield side


def _filled(queue: Side, items: int) -> None:
    for start in range(0, items, _TOGETHER):
        end = min(start + _TOGETHER, items)
        queue.put([_row(number, "loud") for number in range(start, end)])


def _row(number: int, tenant: str, name: str = "") -> Row:
    return {"path": f"p{number}", "tenant": tenant, "folder": name}


@dataclass
class _Worker:
    """A process that works a queue off."""

    process: subprocess.Popen[str]
    lines: Queue[str]

    def told(self, name: str, until: float) -> float | None:
        """Return when it had handled the item of a name; None where it has not by then."""
        found = self._line(name, until)
        return None if found is None else float(found[0])

    def done(self, until: float) -> tuple[float, ...]:
        """Return how many items there were, in how many seconds, and how many it worked."""
        return tuple(map(float, self._line("DONE", until) or ()))

    def _line(self, first: str, until: float) -> list[str] | None:
        while True:
            try:
                words = self.lines.get(timeout=max(until - time.time(), 0.0)).split()
            except Empty:
                return None
            if words[0] == first:
                return words[1:]


@contextmanager
def _worker(side: str, place: Path, size: int = _SIZE, *, stay: bool = True) -> Iterator[_Worker]:
    """Start a worker; it is killed at the end."""
    words = [sys.executable, str(_WORKER), side, str(place), str(size), *(["stay"] * stay)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own
    lines: Queue[str] = Queue()
    reading = threading.Thread(target=_read, args=(process, lines), daemon=True)
    reading.start()
    try:
        yield _Worker(process, lines)
    finally:
        process.kill()
        process.wait()
        reading.join()


def _read(process: subprocess.Popen[str], lines: Queue[str]) -> None:
    for line in process.stdout or ():
        lines.put(line)


if __name__ == "__main__":
    app()
