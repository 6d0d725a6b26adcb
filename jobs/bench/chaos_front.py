"""Kill a driver whose front has four producers and four consumers, and check what it promised.

A child opens a front over the queue, with Spark or without, puts and takes, and writes down what
it was told: which puts are durable, what was delivered and when, which outcomes are durable. The
parent kills it, with its JVM where it has one, by SIGKILL after a drawn delay, and starts the
next. The last one drains the queue in peace, and what all were told is held against what was
delivered. The seed decides every delay.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import random
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from chaos_fronts import KINDS, Front, group_of
from kills import command, kill_often, run as run_child

app = typer.Typer(add_completion=False, no_args_is_help=False)

PEOPLE = 4

#: Seconds between the puts of one producer. What is serial for each group is drained slowly.
PAUSE = {
    "journaled": 0.02,
    "native": 0.02,
    "durable": 0.5,
    "journaled-alone": 0.02,
    "durable-alone": 0.05,
}

#: Seconds in which a child is killed: a few commits, of which some take longer than others.
WITHIN = {
    "journaled": 10.0,
    "native": 5.0,
    "durable": 15.0,
    "journaled-alone": 2.0,
    "durable-alone": 3.0,
}

#: Put behind the name of a front that has no session.
ALONE = "-alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What was promised, and what came of it."""

    promised: int
    """Puts that were told to be durable."""
    delivered: int
    """Different items that were delivered."""
    lost: int
    """Promised, and never delivered."""
    twice_held: int
    """Delivered while somebody else held them, in one life of the driver."""
    again: int
    """Delivered after their ack was told to be durable."""
    out_of_order: int
    """Delivered before one of their group that comes first; 0 where there are no groups."""

    def holds(self) -> bool:
        """Tell whether every promise was kept."""
        return not (self.lost or self.twice_held or self.again or self.out_of_order)


class Tells:
    """Writes down, at once and for good, what a child was told."""

    def __init__(self, place: str) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._file = os.open(f"{place}/told", flags)
        self._life = f"{os.getpid()}-{time.time_ns()}"

    def tell(self, what: str, item: str, **more: object) -> None:
        """Add a line."""
        line = json.dumps({"what": what, "item": item, "life": self._life, **more})
        os.write(self._file, f"{line}\n".encode())


@app.callback(invoke_without_command=True)
def run(
    context: typer.Context,
    kind: Annotated[str, typer.Option(help=f"{', '.join(WITHIN)}.")] = "journaled",
    kills: Annotated[int, typer.Option(min=0, help="How often to kill the driver.")] = 30,
    seed: Annotated[int, typer.Option(help="Decides when; 0 draws one.")] = 0,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Kill and restart a driver, then verify."""
    if context.invoked_subcommand is not None:
        return
    if kind not in KINDS:
        raise typer.BadParameter(f"{kind!r} is none of {', '.join(KINDS)}")
    drawn = seed or random.SystemRandom().randrange(1, 1 << 31)
    rng = random.Random(drawn)  # noqa: S311 - it has to be repeatable, not secret
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="chaos-front-") as place:
        child = command(__file__, "work", kind, place)
        killed = kill_often(child, kills, rng, lambda: None, within=WITHIN[kind])
        run_child(command(__file__, "drain", kind, place))
        verdict = judged(told(place), grouped=kind.startswith("durable"))
    facts = {
        "kind": kind,
        "seed": drawn,
        "kills": killed,
        "holds": verdict.holds(),
        "seconds": round(time.monotonic() - started, 1),
        **asdict(verdict),
    }
    typer.echo(
        json.dumps(facts) if as_json else " ".join(f"{name}={v}" for name, v in facts.items())
    )
    raise typer.Exit(0 if verdict.holds() else 1)


@app.command(hidden=True)
def work(kind: str, place: str) -> None:
    """Put and take until killed."""
    front, tells = _opened(kind, place)
    life = f"{time.time_ns()}"
    # From the first promise on: a driver takes long to start, in which there is nothing to break.
    _promised(front, tells, f"{life}-first/0").add_done_callback(_say_ready)
    threads = [
        threading.Thread(target=_produce, args=(front, tells, f"{life}-{k}", PAUSE[kind]))
        for k in range(PEOPLE)
    ]
    threads += [threading.Thread(target=_consume, args=(front, tells)) for _ in range(PEOPLE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@app.command(hidden=True)
def drain(kind: str, place: str) -> None:
    """Take what is left, in peace, until there is nothing once every ack is durable."""
    front, tells = _opened(kind, place)
    while acks := list(_ready(front, tells)):
        wait(acks)
    front.close()


def _ready(front: Front, tells: Tells) -> Iterator[Future[Any]]:
    """Work off what may be taken now."""
    with contextlib.suppress(queue.Empty):
        while True:
            yield _worked_off(front, tells, timeout=0)


def _opened(kind: str, place: str) -> tuple[Front, Tells]:
    if kind.endswith(ALONE):
        return KINDS[kind](None, place), Tells(place)
    # Only a child has a session.
    from spark_queue.session import SMALL_STEPS_CONF, local_session  # noqa: PLC0415

    session = local_session("chaos", quiet=True, **SMALL_STEPS_CONF)
    return KINDS[kind](session, place), Tells(place)


def _produce(front: Front, tells: Tells, name: str, pause: float) -> None:
    number = 0
    while True:
        _promised(front, tells, f"{name}/{number}")
        number += 1
        time.sleep(pause)


def _promised(front: Front, tells: Tells, item: str) -> Future[Any]:
    """Put an item, and have it told when it is durable."""
    future = front.put(item)
    future.add_done_callback(_teller(tells, "durable", item))
    return future


def _say_ready(_: Future[Any]) -> None:
    typer.echo("ready")
    sys.stdout.flush()


def _consume(front: Front, tells: Tells) -> None:
    while True:
        with contextlib.suppress(queue.Empty):
            _worked_off(front, tells, timeout=60)


def _worked_off(front: Front, tells: Tells, timeout: float) -> Future[Any]:
    """Take an item and settle it; return what is done when that is durable."""
    item, token = front.get(timeout)
    tells.tell("taken", item)
    time.sleep(0.002)
    tells.tell("settled", item)
    acked = front.ack(token)
    acked.add_done_callback(_teller(tells, "acked", item))
    return acked


def _teller(tells: Tells, what: str, item: str) -> Callable[[Future[Any]], None]:
    def tell(future: Future[Any]) -> None:
        if future.exception() is None:
            tells.tell(what, item)

    return tell


def told(place: str) -> Iterator[dict[str, str]]:
    """Return what the children wrote down; the last line of a life may be torn."""
    lines = map(_parsed, Path(f"{place}/told").read_text().splitlines())
    return (line for line in lines if line is not None)


def _parsed(line: str) -> dict[str, str] | None:
    try:
        parsed: dict[str, str] = json.loads(line)
    except json.JSONDecodeError:
        return None
    return parsed


def judged(lines: Iterator[dict[str, str]], *, grouped: bool) -> Verdict:
    """Hold what was told against what was delivered."""
    durable: set[str] = set()
    delivered: set[str] = set()
    acked: set[str] = set()
    held: dict[str, str] = {}
    last: dict[str, int] = defaultdict(lambda: -1)
    twice = again = disorder = 0
    for line in lines:
        item, what = line["item"], line["what"]
        if what == "durable":
            durable.add(item)
        elif what == "acked":
            acked.add(item)
        elif what == "settled":
            held.pop(item, None)
        else:
            twice += held.get(item) == line["life"]
            again += item in acked
            held[item] = line["life"]
            if grouped and item not in delivered:
                number = int(item.rsplit("/", 1)[1])
                disorder += number < last[group_of(item)]
                last[group_of(item)] = number
            delivered.add(item)
    return Verdict(
        promised=len(durable),
        delivered=len(delivered),
        lost=len(durable - delivered),
        twice_held=twice,
        again=again,
        out_of_order=disorder,
    )


if __name__ == "__main__":
    app()
