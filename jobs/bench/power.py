"""Disks that a power cut may leave, each opened and held against what had been told.

The system calls of real histories are recorded by strace. After each of them disks are built as
POSIX permits: what was forced is there; of the rest nothing, the names only, everything, or what
is drawn, out of order and torn. Each is opened without Spark. The seed decides what is drawn.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn

import pyarrow as pa
import typer

from power_check import Finding, Told, judge
from power_disk import Disk, State, lay, mark_of
from power_trace import record
from power_work import HISTORIES, prepare

app = typer.Typer(add_completion=False)

#: Seconds that it may take to judge a disk.
_PATIENCE = 60

#: Losses of a history that are reported.
_SHOWN = 20

#: Signs of a line that is reported.
_LONGEST = 2_000

#: What a child needs, which imports it once for all.
_MODULES = (
    "deltalake",
    "pyarrow.acero",
    "pyarrow.dataset",
    "spark_queue.local_queue",
    "spark_queue.front.journaled",
    "spark_queue.stores.delta_journal",
    "spark_queue.processing.local_processing",
)


@dataclass
class Outcome:
    """What came of all disks of a history."""

    history: str
    calls: int = 0
    states: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    """The first disks on which something is lost, or that cannot be worked with."""
    losses: int = 0
    left: Counter[str] = field(default_factory=Counter)
    """Disks with files that nothing names, by what they are."""
    seconds: float = 0.0


def cut(history: str, place: Path, rng: random.Random, *, draws: int, every: int = 1) -> Outcome:
    """Record a history, and judge the disks that a power cut may leave of it.

    Parameters
    ----------
    history : str
        Its name.
    place : Path
        Where it happens: an empty directory.
    rng : random.Random
        Draws.
    draws : int
        How many disks are drawn after each call, beside the other kinds.
    every : int
        After each how many calls the power is cut.
    """
    begun, done = time.monotonic(), Outcome(history)
    root, told = place / "disk", place / "told"
    prepare(history, root)
    disk = Disk(root)
    words = [str(Path(__file__).with_name("power_work.py")), history, str(root), str(told)]
    effects = record([sys.executable, *words], root, told)
    lines: list[Told] = [json.loads(one.data) for one in effects if one.kind == "tell"]
    seen: set[tuple[int, bytes]] = set()
    count, done.calls = 0, len(effects)
    for at, effect in enumerate(effects):
        disk.apply(effect)
        count += effect.kind == "tell"
        if at % every:
            continue
        for kind, state in disk.states(rng, draws):
            mark = (count, mark_of(state))
            if mark not in seen:
                seen.add(mark)
                _note(done, kind, f"{at} {kind}", _judged(history, root, state, lines, count))
    done.seconds = time.monotonic() - begun
    return done


def _note(done: Outcome, kind: str, where: str, found: Finding) -> None:
    done.states += 1
    done.kinds[kind] += 1
    done.losses += bool(found.lost)
    done.left.update(dict.fromkeys(found.left, 1))
    if found.lost and len(done.lost) < _SHOWN:
        done.lost.append(f"{done.history}, after call {where}: {found.lost[0]}")


def _judged(history: str, root: Path, state: State, told: Sequence[Told], count: int) -> Finding:
    """Judge one disk in a child, which has seen none before."""
    lay(state, root)
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        _answer(writes, history, root, told[:count], told[count:])
    os.close(writes)
    with os.fdopen(reads, "rb") as answer:
        text = answer.read()
    _, status = os.waitpid(child, 0)
    if not text:
        return Finding(lost=[f"it ended with {status}, without an answer"])
    plain: dict[str, Any] = json.loads(text)
    return Finding(lost=plain["lost"], left=Counter(plain["left"]))


def _answer(
    writes: int, history: str, root: Path, told: Sequence[Told], coming: Sequence[Told]
) -> NoReturn:
    """Judge a disk, write down what was found, and end."""
    try:
        signal.alarm(_PATIENCE)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
        found = judge(history, root, told, coming)
        plain = {"lost": [line[:_LONGEST] for line in found.lost[:5]], "left": found.left}
        os.write(writes, json.dumps(plain).encode())
    finally:
        os._exit(0)


@app.command()
def run(
    seed: Annotated[int, typer.Option(help="Decides what is drawn; 0 draws one.")] = 0,
    draws: Annotated[int, typer.Option(min=0, help="Disks that are drawn after a call.")] = 2,
    every: Annotated[int, typer.Option(min=1, help="Cut after each how many calls.")] = 1,
    only: Annotated[str, typer.Option(help="One history, by its name.")] = "",
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Cut the power, and verify."""
    if shutil.which("strace") is None:
        typer.echo("strace is not installed: nothing can be recorded", err=True)
        raise typer.Exit(2)
    drawn = seed or random.SystemRandom().randrange(1, 1 << 31)
    rng = random.Random(drawn)  # noqa: S311 - it has to be repeatable, not secret
    found = list(outcomes(rng, draws=draws, every=every, only=only, is_quiet=as_json))
    if as_json:
        typer.echo(json.dumps({"seed": drawn, "histories": [vars(one) for one in found]}))
    else:
        states, losses = sum(one.states for one in found), sum(one.losses for one in found)
        typer.echo(f"{states} disks, {losses} with a loss, seed {drawn}")
    raise typer.Exit(1 if any(one.losses or one.left["unknown"] for one in found) else 0)


def outcomes(
    rng: random.Random, *, draws: int, every: int = 1, only: str = "", is_quiet: bool = True
) -> list[Outcome]:
    """Cut every history, or one, in memory where the system has such a place."""
    # Each child would begin threads of its own.
    os.environ["TOKIO_WORKER_THREADS"] = "1"
    pa.set_cpu_count(1)
    for module in _MODULES:
        import_module(module)
    found = []
    shared = Path("/dev/shm")  # noqa: S108 - a directory of our own is made in it
    for name in [only] if only else HISTORIES:
        with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as place:
            found.append(cut(name, Path(place), rng, draws=draws, every=every))
        if not is_quiet:
            _report(found[-1])
    return found


def _report(done: Outcome) -> None:
    left = ", ".join(f"{kind} {count}" for kind, count in sorted(done.left.items())) or "none"
    typer.echo(
        f"{done.history}: {done.calls} calls, {done.states} disks, {done.losses} with a loss, "
        f"{done.seconds:.0f} s; left over on disks: {left}"
    )
    for line in done.lost:
        typer.echo(f"  {line}")


if __name__ == "__main__":
    app()
