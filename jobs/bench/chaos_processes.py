"""Kill processes that share one queue without Spark, and check what they were told.

Some processes put, claim, settle and tidy up at the same time. One after the other is killed by
SIGKILL, at a drawn moment or at a named one (:mod:`chaos_moments`), and another takes its place;
the last works off what is left. What all of them wrote down is held against the tables
(:mod:`chaos_laws`). They are forked from a process that has imported everything and opened nothing,
so that a life takes milliseconds to begin. The seed decides every delay and moment. With
``--drivers`` a driver with Spark (:mod:`chaos_driver`) works beside them, and is killed like them.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from importlib import import_module
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Annotated, Any

import typer
from deltalake import DeltaTable

import chaos_flow
import chaos_laws
import chaos_moments
import chaos_worker
from chaos_drivers import DriverProcess
from chaos_moments import Doom
from spark_queue import LocalQueue, QueueConfig, RetryPolicy

app = typer.Typer(add_completion=False)

#: Of all lives, those that kill themselves; of the others, those that may not come to work at all.
_DOOMED, _SHORT = 0.5, 0.2

#: How many times as long as others somebody may live who is to kill itself, or begins to work.
_PATIENCE = 4

#: Of all drivers, those that are killed without their JVM; and the seconds in which one begins.
_ALONE, _START = 0.3, 180.0

#: The table's own checkpoints, and how long it names files that were merged: often, and briefly.
_PROPERTIES = {
    "delta.checkpointInterval": "20",
    "delta.deletedFileRetentionDuration": "interval 1 minutes",
}

#: What the libraries import when they are first used: once, before the first life.
_LATER = ("deltalake.fs.fs_handler", "pandas", "pyarrow.acero", "pyarrow.dataset", "zoneinfo")

_fork = multiprocessing.get_context("fork")

#: How one ends that was killed, by others or by itself.
_KILLED = {-signal.SIGKILL, -signal.SIGALRM}


@dataclass(slots=True, kw_only=True)
class Life:
    """One process."""

    process: multiprocessing.process.BaseProcess | DriverProcess
    doom: Doom | None
    ready: Connection
    """Says when it begins to work."""
    after: float
    """Seconds after that until it is killed at the latest."""
    until: float
    """When it is killed at the latest, whatever it does."""
    is_struck: bool = False
    """Whether it was killed from here."""

    def look(self) -> None:
        """Note that it has begun to work, and kill it when it is time."""
        now = time.monotonic()
        if not self.ready.closed and self.ready.poll():
            self.ready.close()
            self.until = min(self.until, now + self.after)
        if self.process.is_alive() and self.until <= now:
            self.is_struck = True
            self.process.kill()
            self.process.join()


@dataclass(slots=True, kw_only=True)
class Killer:
    """Starts processes, kills them, and knows when each was dead."""

    place: Path
    rng: random.Random
    within: float
    """Seconds within which a process is killed."""
    drivers: int = 0
    """How many drivers with Spark live, one after the other, beside the processes."""
    driver_within: float = 20.0
    """Seconds within which a driver is killed, once it works."""
    started: list[DriverProcess] = field(default_factory=list)
    """All drivers that there were."""
    born: Counter[str] = field(default_factory=Counter)
    """How many lives of each kind have begun."""
    deaths: dict[int, int] = field(default_factory=dict)
    """By the number of a life, when it was known to be over, on the clock that never goes back."""
    kills: Counter[str] = field(default_factory=Counter)
    """By moment."""
    odd: list[str] = field(default_factory=list)
    """Lives that have ended otherwise."""

    def kill(self, kills: int, workers: int, progress: Callable[[int], None]) -> None:
        """Have so many lives, so many at a time, all of which are killed.

        Beside the drivers there are more of them, if need be.
        """
        living: dict[int, Life] = {}
        while True:
            self._replenish(living, kills, workers)
            if not living:
                break
            self._await(living)
            progress(len(self.deaths))
        for driver in self.started:
            driver.end()

    def _replenish(self, living: dict[int, Life], kills: int, workers: int) -> None:
        """Let as many live as there should be."""
        driving = sum(isinstance(life.process, DriverProcess) for life in living.values())
        if not driving and self.born["driver"] < self.drivers:
            number = self._numbered("driver")
            living[number] = self._driver(number)
            driving = 1
        while len(living) - driving < workers and (self.born["process"] < kills or driving):
            number = self._numbered("process")
            living[number] = self._born(number)

    def _numbered(self, kind: str) -> int:
        self.born[kind] += 1
        return self.born.total()

    def _driver(self, number: int) -> Life:
        alone = self.rng.random() < _ALONE
        process = DriverProcess(self.place, number, self.rng.randrange(1 << 31), alone)
        after = self.rng.uniform(0, self.driver_within)
        process.start()
        self.started.append(process)
        until = time.monotonic() + _START + after
        return Life(process=process, doom=None, ready=process.ready, after=after, until=until)

    def _born(self, number: int) -> Life:
        doom = chaos_moments.drawn(self.rng) if self.rng.random() < _DOOMED else None
        patience = self.within * _PATIENCE
        after = self.rng.uniform(0, self.within) if doom is None else patience
        is_short = doom is None and self.rng.random() < _SHORT
        ready, says = _fork.Pipe(duplex=False)
        arguments = (self.place, number, self.rng.randrange(1 << 31), doom, says)
        process = _fork.Process(target=chaos_worker.live, args=arguments)
        process.start()
        says.close()
        until = time.monotonic() + (after if is_short else patience + after)
        return Life(process=process, doom=doom, ready=ready, after=after, until=until)

    def _await(self, living: dict[int, Life]) -> None:
        """Wait for the next death, and bring it about when it is time."""
        next_ = min(life.until for life in living.values())
        news = [it for life in living.values() for it in (life.process.sentinel, life.ready)]
        news = [it for it in news if not isinstance(it, Connection) or not it.closed]
        wait(news, timeout=max(next_ - time.monotonic(), 0.0))
        for number, life in list(living.items()):
            life.look()
            if not life.process.is_alive():
                self._buried(number, life)
                del living[number]

    def _buried(self, number: int, life: Life) -> None:
        self.deaths[number] = time.monotonic_ns()
        if life.process.exitcode in _KILLED:
            self.kills[_moment(life)] += 1
        else:
            self.odd.append(f"life {number} ended with {life.process.exitcode}")
        life.process.close()
        life.ready.close()


def _moment(life: Life) -> str:
    """Return when somebody was killed: at a moment of their own, or at any."""
    if isinstance(life.process, DriverProcess):
        return "driver, not its JVM" if life.process.is_alone else "driver"
    return life.doom.moment if life.doom is not None and not life.is_struck else "any"


@app.command()
def run(
    kills: Annotated[int, typer.Option(min=1, help="How many processes to kill.")] = 1000,
    workers: Annotated[int, typer.Option(min=1, help="How many work at a time.")] = 4,
    seed: Annotated[int, typer.Option(help="Decides when; 0 draws one.")] = 0,
    within: Annotated[float, typer.Option(help="Seconds that a process lives at most.")] = 1.5,
    drivers: Annotated[int, typer.Option(min=0, help="Drivers with Spark to kill beside.")] = 0,
    driver_within: Annotated[float, typer.Option(help="Seconds that a driver works.")] = 20.0,
    place: Annotated[Path | None, typer.Option(help="Keep everything here.")] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Kill and restart processes, then verify."""
    drawn = seed or random.SystemRandom().randrange(1, 1 << 31)
    with tempfile.TemporaryDirectory(prefix="chaos-processes-") as folder:
        killer = Killer(
            place=place or Path(folder),
            rng=random.Random(drawn),  # noqa: S311 - it has to be repeatable, not secret
            within=within,
            drivers=drivers,
            driver_within=driver_within,
        )
        facts = {"seed": drawn, **chaos(killer, kills, workers)}
    details = facts.pop("details")
    for detail in details:
        typer.echo(detail, err=True)
    lines = json.dumps(facts) if as_json else "\n".join(_table(facts))
    typer.echo(lines)
    raise typer.Exit(0 if facts["holds"] else 1)


def chaos(killer: Killer, kills: int, workers: int) -> dict[str, Any]:
    """Kill processes over a new queue, and return what came of it."""
    for name in _LATER:
        import_module(name)
    place = killer.place
    (place / "told").mkdir(parents=True)
    _in_child(_make, place / "queue")
    started = time.monotonic()
    killer.kill(kills, workers, _progress(kills))
    seconds = time.monotonic() - started
    _in_child(chaos_worker.drain, place, 0)
    load = os.getloadavg()
    found = chaos_laws.judged(place, killer.deaths)
    found.note("ended otherwise", killer.odd)
    return {
        "kills": sum(killer.kills.values()),
        "workers": workers,
        "seconds": round(seconds, 1),
        "load": round(load[0], 1),
        "steps_per_second": round(found.counts["steps"] / seconds, 1),
        "holds": not any(found.faults.values()),
        **found.counts,
        "faults": {name: len(details) for name, details in found.faults.items()},
        "killed_at": dict(killer.kills.most_common()),
        "details": [f"{name}: {text}" for name, all_ in found.faults.items() for text in all_[:5]],
    }


def _make(path: Path) -> None:
    config = QueueConfig(
        dedup_key="k",
        dedup_scope="forever",
        fair_key="t",
        group_key="g",
        priority="p",
        limits=chaos_flow.limits(),
        rates=chaos_flow.rates(),
        max_losses=None,
        retry=RetryPolicy(delay=timedelta(0)),
    )
    schema = "k string, g string, t string, p int, h string"
    LocalQueue.create(path, schema, config, durability="process")
    for log in ("queue", "status"):
        DeltaTable(str(path / log)).alter.set_table_properties(_PROPERTIES)


def _in_child(target: Callable[..., None], *arguments: object) -> None:
    """Call in a process of its own: threads of a library that has worked do not survive a fork."""
    process = _fork.Process(target=target, args=arguments)
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"{target.__name__} ended with {process.exitcode}")


def _progress(kills: int) -> Callable[[int], None]:
    """Return what says how far it is, about twenty times."""
    each, said = max(kills // 20, 1), [0]

    def progress(killed: int) -> None:
        if killed // each > said[0]:
            said[0] = killed // each
            sys.stderr.write(f"{killed} of {kills}\n")

    return progress


def _table(facts: dict[str, Any]) -> list[str]:
    flat = {
        (f"{name}: {inner}" if inner else name): value
        for name, fact in facts.items()
        for inner, value in (fact.items() if isinstance(fact, dict) else [("", fact)])
    }
    width = max(map(len, flat))
    return [f"{name:<{width}}  {value}" for name, value in flat.items()]


if __name__ == "__main__":
    app()
