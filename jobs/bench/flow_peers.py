"""Limits by key and rates of other queues, with several clients of each at once.

``python flow_peers.py`` runs pg-boss, River and PgQueuer on a PostgreSQL of its own, and BullMQ on
a Redis of its own. It installs them into a temporary folder, each pinned to a version, and prints
one table: items of a key in flight beside its limit, and starts beside the rate.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from statistics import linear_regression
from typing import IO, Annotated

import typer
from rich.console import Console
from rich.table import Table

import postgres

#: What is installed; the Node of a machine may be older than 22.12, which pg-boss asks for.
_NPM = {"pg-boss": "12.38.0", "bullmq": "6.7.0", "ioredis": "5.11.1", "node": "24.21.0"}
_GO = {
    "github.com/riverqueue/river": "v0.51.2",
    "github.com/riverqueue/river/riverdriver/riverpgxv5": "v0.51.2",
    "github.com/jackc/pgx/v5": "v5.11.0",
}
_PIP = {"pgqueuer": "1.6.0", "asyncpg": "0.32.0"}

_RIVER = _GO["github.com/riverqueue/river"].removeprefix("v")

_HERE = Path(__file__).parent

#: Seconds for a server to come up.
_PATIENCE = 60.0

app = typer.Typer(add_completion=False)


@dataclass(frozen=True, slots=True)
class Trial:
    """What clients are asked to do, all at once, with a backlog that does not end."""

    keys: tuple[str, ...]
    """What the items are put under, by turns."""
    limit: int = 0
    """Items of a key that may be in flight; 0 without a limit."""
    rate: float = 0.0
    """Items that may start in a second; 0 without a rate."""
    per: float = 1.0
    """The length of the rate's window in seconds."""
    handling: float = 0.1
    """Seconds that a handler takes."""
    items: int = 4_000
    """Items to put before it begins."""
    clients: int = 4
    """Processes."""
    hands: int = 4
    """Items that a process may work on at a time."""
    seconds: float = 10.0
    """How long it lasts."""


@dataclass(frozen=True, slots=True)
class Run:
    """The call of a handler, from its first line to its last."""

    key: str
    start: float
    end: float


#: Does a trial: puts its items, lets its clients work, returns every run.
Work = Callable[[Trial], Iterable[Run]]

LIMIT = Trial(("a", "b"), limit=2)
RATE = Trial(("queue",), rate=10.0, handling=0.001)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a trial of a queue came to."""

    queue: str
    setting: str
    trial: Trial
    most: int
    """The most items of a key in flight at a time."""
    mean: float
    """Items of a key in flight, on average."""
    per_second: float
    """Starts in a second, in the long run."""
    window: int
    """The most starts in any window of the rate's length."""

    def cells(self) -> tuple[str, ...]:
        """Return the row of the table."""
        trial = self.trial
        limit = (str(trial.limit), str(self.most), f"{self.mean:.1f}", f"{self.over:+d}")
        allowed = f"{trial.rate * trial.per:g}"
        rate = (f"{self.per_second:.1f}", f"{self.per_second / (trial.rate or 1):.2f}")
        return (
            self.queue,
            self.setting,
            *(limit if trial.limit else ("-",) * 4),
            *((allowed, str(self.window), *rate) if trial.rate else ("-", "-", rate[0], "-")),
        )

    @property
    def over(self) -> int:
        """Items over the limit of a key, at the worst time."""
        return max(self.most - self.trial.limit, 0)


def play(queue: str, setting: str, trial: Trial, work: Work) -> Outcome:
    """Let a callable do a trial, and measure its runs."""
    runs = sorted(work(trial), key=lambda run: run.start)
    if not runs:
        raise AssertionError(f"{queue}: no item was handled in {trial.seconds} s")
    return Outcome(
        queue,
        setting,
        trial,
        max(most_in_flight(runs, key) for key in trial.keys),
        mean_in_flight(runs) / len(trial.keys),
        starts_per_second(runs),
        most_starts(runs, trial.per),
    )


def most_in_flight(runs: Iterable[Run], key: str) -> int:
    """Return how many runs of a key there were at a time; one that ends makes room at once."""
    own = [run for run in runs if run.key == key]
    changes = sorted([*((run.end, -1) for run in own), *((run.start, 1) for run in own)])
    most = now = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most


def mean_in_flight(runs: Sequence[Run]) -> float:
    """Return how many runs there were on average, from the first start to the last end."""
    span = max(run.end for run in runs) - runs[0].start
    return sum(run.end - run.start for run in runs) / span


def most_starts(runs: Sequence[Run], per: float) -> int:
    """Return the most starts in any window of a length, its end excluded."""
    most = first = 0
    for last, run in enumerate(runs):
        while run.start - runs[first].start >= per:
            first += 1
        most = max(most, last - first + 1)
    return most


def starts_per_second(runs: Sequence[Run]) -> float:
    """Return the slope of the starts: a burst at the beginning or the end weighs little."""
    if len(runs) < 2:  # noqa: PLR2004 - a slope needs two
        return 0.0
    return linear_regression([run.start for run in runs], range(len(runs))).slope


@app.command()
def main(
    *,
    only: Annotated[list[str] | None, typer.Option(help="Queues; all without.")] = None,
    clients: Annotated[int, typer.Option(min=1, help="Processes of each.")] = LIMIT.clients,
    seconds: Annotated[float, typer.Option(help="How long a trial lasts.")] = LIMIT.seconds,
) -> None:
    """Run each queue, and print one table."""
    limit = replace(LIMIT, clients=clients, seconds=seconds)
    rate = replace(RATE, clients=clients, seconds=seconds)
    title = f"{clients} clients, {limit.hands} hands each, {seconds:g} s"
    table = Table("queue", "set", "limit", "most", "mean", "over", title=title)
    for name in (f"a {rate.per:g} s", "most in any", "starts/s", "of the rate"):
        table.add_column(name)
    with tempfile.TemporaryDirectory(prefix="flow-") as place:
        for outcome in peers(Path(place), limit, rate, only):
            table.add_row(*outcome.cells())
    Console(width=150).print(table)


def peers(place: Path, limit: Trial, rate: Trial, only: Sequence[str] | None) -> Iterator[Outcome]:
    """Run the queues for which this machine has what they need."""
    sections: Mapping[str, Callable[[Path, Trial, Trial], Iterator[Outcome]]] = {
        "spark_queue": ours,
        "pg-boss": pg_boss,
        "River": river,
        "BullMQ": bullmq,
        "PgQueuer": pgqueuer,
    }
    for name in only or sections:
        if name not in sections:
            raise typer.BadParameter(f"{name}: not one of {', '.join(sections)}")
        missing = list(_missing(name))
        if missing:
            typer.echo(f"{name} is left out, without {', '.join(missing)}", err=True)
            continue
        folder = place / name
        folder.mkdir()
        yield from sections[name](folder, limit, rate)


def _missing(name: str) -> Iterator[str]:
    tool = {"pg-boss": "npm", "BullMQ": "npm", "River": "go"}.get(name)
    if tool is not None and shutil.which(tool) is None:
        yield tool
    if name == "BullMQ" and shutil.which("redis-server") is None:
        yield "Redis (Debian: apt-get install redis-server)"
    if name not in ("BullMQ", "spark_queue") and postgres.programs() is None:
        yield "PostgreSQL (Debian: apt-get install postgresql)"


def ours(place: Path, limit: Trial, rate: Trial) -> Iterator[Outcome]:
    """Run this queue with a limit by key, and with a rate of the queue."""
    program = [sys.executable, str(_HERE / "flow_spark_queue.py")]
    more = {"place": str(place)}
    yield play("spark_queue", "a limit by key", limit, partial(_run, program, more))
    yield play("spark_queue", "a rate of the queue", rate, partial(_run, program, more))


def pg_boss(place: Path, limit: Trial, _: Trial) -> Iterator[Outcome]:
    """Run groups with a limit, by its worker and by fetches; it has no rate of starts."""
    program = _install_npm(place, "flow_pgboss.mjs")
    name = f"pg-boss {_NPM['pg-boss']}"
    with postgres.server(place) as socket:
        for how in ("work", "fetch"):
            more = {"socket": str(socket), "how": how}
            yield play(name, f"groupConcurrency, {how}()", limit, partial(_run, program, more))


def river(place: Path, limit: Trial, _: Trial) -> Iterator[Outcome]:
    """Run a queue for each key, with as many workers as its limit; it has no rate."""
    program = _install_go(place)
    with postgres.server(place) as socket:
        more = {"socket": str(socket)}
        yield play(f"River {_RIVER}", "MaxWorkers", limit, partial(_run, program, more))


def bullmq(place: Path, limit: Trial, rate: Trial) -> Iterator[Outcome]:
    """Run its limits, which are of the whole queue."""
    program = _install_npm(place, "flow_bullmq.mjs")
    name = f"BullMQ {_NPM['bullmq']}"
    with _redis(place) as socket:
        work = partial(_run, program, {"redis": str(socket)})
        yield play(name, "global concurrency", replace(limit, keys=("queue",)), work)
        yield play(name, "limiter of the queue", rate, work)


def pgqueuer(place: Path, limit: Trial, _: Trial) -> Iterator[Outcome]:
    """Run an entrypoint for each key, with its limit; it has no rate any more."""
    program = _install_pip(place)
    name = f"PgQueuer {_PIP['pgqueuer']}"
    with postgres.server(place) as socket:
        more = {"socket": str(socket)}
        yield play(name, "concurrency_limit", limit, partial(_run, program, more))


def _install_npm(place: Path, program: str) -> list[str]:
    package = {"private": True, "type": "module", "dependencies": _NPM}
    (place / "package.json").write_text(json.dumps(package))
    shutil.copy(_HERE / program, place)
    _call(["npm", "install", "--silent", "--no-audit", "--no-fund"], place)
    return [str(place / "node_modules" / ".bin" / "node"), str(place / program)]


def _install_go(place: Path) -> list[str]:
    needs = "".join(f"require {module} {version}\n" for module, version in _GO.items())
    (place / "go.mod").write_text(f"module flow\n\ngo 1.26.0\n\n{needs}")
    shutil.copy(_HERE / "flow_river.go", place)
    folders = {name: str(place / name) for name in ("GOPATH", "GOCACHE")}
    _call(["go", "build", "-mod=mod", "-modcacherw", "-o", "flow_river", "."], place, folders)
    return [str(place / "flow_river")]


def _install_pip(place: Path) -> list[str]:
    venv.create(place / "env", with_pip=True)
    python = str(place / "env" / "bin" / "python")
    needs = [f"{package}=={version}" for package, version in _PIP.items()]
    _call([python, "-m", "pip", "install", "--quiet", *needs], place)
    return [python, str(_HERE / "flow_pgqueuer.py")]


def _call(words: Sequence[str], place: Path, more: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(  # noqa: S603 - what this file says
        words,
        cwd=place,
        env={**os.environ, **(more or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}:\n{done.stdout}{done.stderr}")


@contextmanager
def _redis(place: Path) -> Iterator[Path]:
    """Run a Redis that keeps nothing; what is given is its socket."""
    socket = place / "redis.sock"
    words = ["redis-server", "--port", "0", "--unixsocket", str(socket), "--save", ""]
    with (place / "redis.log").open("w") as log:
        running = subprocess.Popen(words, cwd=place, stdout=log, stderr=log)  # noqa: S603
    try:
        until = time.monotonic() + _PATIENCE
        while not socket.exists():
            if running.poll() is not None or time.monotonic() > until:
                raise RuntimeError((place / "redis.log").read_text())
            time.sleep(0.05)
        yield socket
    finally:
        running.terminate()
        running.wait()


_names = (f"flow{number}" for number in count())


def _run(program: Sequence[str], more: Mapping[str, str], trial: Trial) -> list[Run]:
    """Let a program put the items of a trial, and as many clients as it says work them off."""
    asked = {**asdict(trial), **more, "queue": next(_names)}
    _call([*program, json.dumps({**asked, "verb": "put"})], Path.cwd())
    words = [*program, json.dumps({**asked, "verb": "work"})]
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(trial.clients)]
        clients = [subprocess.Popen(words, stdout=file) for file in files]  # noqa: S603
        for client in clients:
            stack.callback(client.kill)
        codes = [client.wait(timeout=trial.seconds + _PATIENCE) for client in clients]
        if any(codes):
            raise RuntimeError(f"{program[-1]}: a client failed")
        return [run for file in files for run in _read(file)]


def _read(file: IO[str]) -> Iterator[Run]:
    file.seek(0)
    for line in file:
        key, start, end = line.split()
        yield Run(key, float(start), float(end))


if __name__ == "__main__":
    app()
