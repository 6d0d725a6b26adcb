"""Play small histories of two and three processes in every order in which they can meet.

Nothing is left to luck: what a process does is cut where others may notice it, every order of the
pieces that matters is played once (:mod:`orders_search`), and after each the laws are checked
(:mod:`orders_laws`). The right to write is waited for, or, in half of the histories, is not: then
only the link of a commit keeps two writers apart, and who has lost decides again.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Annotated

import typer

from orders_played import History, Played, Stage
from orders_world import MOMENTS, Doom

app = typer.Typer(add_completion=False)

_SETTLING = ("ack", "nack", "release", "renew")

#: What one process does; a key is put that is new, or that is there.
_VERBS = ("put n", "put a", "claim", *_SETTLING, "pause")

_LONGER = (
    ("claim, ack", "claim, ack"),
    ("claim, nack", "claim, release"),
    ("put n, claim", "put n, claim"),
    ("put n, put m", "claim 9, ack"),
    ("again, claim", "put n, claim"),
    ("pause, resume", "claim, ack"),
    ("claim, renew, ack", "claim 2, ack"),
)

_THREE = (
    ("put n", "put n", "claim"),
    ("claim", "claim", "claim"),
    ("put n", "claim", "pause"),
)

#: What somebody does who is killed, and what another does at the same time.
_KILLED = (("claim", "claim"), ("put n", "put n"), ("ack", "claim"), ("put n", "claim"))


def histories() -> Iterator[History]:
    """Return all that are played."""
    for verbs in (*combinations_with_replacement(_VERBS, 2), *_LONGER, *_THREE):
        yield played_by(*verbs)
    yield from special()
    yield from killed()
    for verbs in (*combinations_with_replacement(_VERBS, 2), *_LONGER[:3]):
        yield replace(played_by(*verbs), is_honoured=False)


def played_by(*verbs: str) -> History:
    """Return a history in which those who settle hold an item."""
    holds = [int(words.split(", ")[0] in _SETTLING) for words in verbs]
    return History(verbs=verbs, holds=holds)


def special() -> Iterator[History]:
    """Return those of leases that are over, of shared claims, and of keys that are free again."""
    for verb in _SETTLING:
        yield replace(played_by(verb, "claim"), lapses=True)
    yield played_by("claim 1 same", "claim 1 same")
    for honoured in (True, False):
        yield History(verbs=("ack", "put a"), holds=(1,), scope="live", is_honoured=honoured)


def killed() -> Iterator[History]:
    """Return those in which somebody is killed, at each moment of a step."""
    for verbs, moment, first in product(_KILLED, MOMENTS, (False, True)):
        # Once it has given back the right to write there is only its life.
        if not first or moment in MOMENTS[:3]:
            doom = Doom(number=1, moment=moment, is_life_first=first)
            yield replace(played_by(*verbs), doom=doom)


@app.command()
def run(
    most: Annotated[int, typer.Option(min=1, help="Orders of a history at most.")] = 500,
    place: Annotated[Path, typer.Option(help="A fast directory.")] = Path("/dev/shm"),  # noqa: S108
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Play all histories, and say how many orders there were."""
    started, done = time.monotonic(), list[Played]()
    with tempfile.TemporaryDirectory(prefix="orders-", dir=place) as folder:
        stage = Stage(Path(folder))
        for history in histories():
            done.append(stage.play(history, most=most))
            if not as_json:
                typer.echo(_line(done[-1]))
    facts = {
        "histories": len(done),
        "orders": sum(played.orders for played in done),
        "whole": sum(played.orders < most for played in done),
        "killed": sum(played.killed for played in done),
        "faults": sum(len(played.faults) for played in done),
        "seconds": round(time.monotonic() - started, 1),
    }
    typer.echo(json.dumps(facts) if as_json else "\n".join(f"{n}: {v}" for n, v in facts.items()))
    raise typer.Exit(1 if facts["faults"] else 0)


def _line(played: Played) -> str:
    found = "".join(f"\n  {kind}: {text}" for kind, text in played.faults.items())
    return f"{played.orders:5} orders, {played.outcomes} outcomes: {played.history}{found}"


if __name__ == "__main__":
    app()
