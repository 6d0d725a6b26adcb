from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import pytest

_BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)

Import = Callable[[str], Any]
Run = SimpleNamespace


def head(step: int, **facts: object) -> dict[str, Any]:
    """Return the head row of a step."""
    return {"_kind": "head", "_step": step, "_body": json.dumps(facts)}


def item(step: int, seq: int, key: str) -> dict[str, Any]:
    """Return the row of an item."""
    keys = {"k": key, "_group_key": "g", "t": "t0", "p": 0, "h": f"h{seq}"}
    return {"_kind": "item", "_step": step, "_seq": seq, **keys}


def move(step: int, seq: int, state: str, lease: int | None, worker: str) -> dict[str, Any]:
    """Return a transition of an item."""
    losses = 1 if lease is None else 0
    known = {"_kind": "item", "_step": step, "_seq": seq, "_state": state, "_group_key": "g"}
    return {**known, "_lease": lease, "_worker_id": worker, "_losses": losses, "_at": _BEGIN}


def line(at: int, what: str, life: int, **more: object) -> dict[str, Any]:
    """Return a line of the log of a life."""
    return {"what": what, "life": life, "at": at, **more}


def a_run() -> Run:
    """Return a run in which one life puts two items and serves one, and dies of the other."""
    return Run(
        items=[item(1, 1, "a"), item(1, 2, "b"), head(1, items=2, refused=0)],
        moves=[
            head(1),
            *(move(2, 1, "claimed", 2, "w1"), head(2)),
            *(move(3, 1, "acked", 2, "w1"), head(3)),
            *(move(4, 2, "claimed", 4, "w1"), head(4)),
            *(move(5, 2, "ready", None, "w1"), head(5)),
            *(move(6, 2, "claimed", 6, "w2"), head(6)),
            *(move(7, 2, "acked", 6, "w2"), head(7, finished={"acked": 2}, claimed=0)),
        ],
        lines=[
            line(0, "life", 1, name="w1"),
            line(1, "put?", 1, keys=["a", "b"]),
            line(2, "put", 1, keys=["a", "b"], step=1, inserted=2, duplicates=0),
            line(3, "claim?", 1),
            line(4, "claim", 1, lease=2, step=2, seqs=[1]),
            line(5, "settle?", 1, lease=2, said={"1": "ack"}),
            line(6, "settle", 1, lease=2, step=3, said={"1": "ack"}),
            line(7, "claim?", 1),
            line(8, "claim", 1, lease=4, step=4, seqs=[2]),
            line(10, "life", 2, name="w2"),
            line(11, "claim?", 2),
            line(12, "claim", 2, lease=6, step=6, seqs=[2]),
            line(13, "settle?", 2, lease=6, said={"2": "ack"}),
            line(14, "settle", 2, lease=6, step=7, said={"2": "ack"}),
        ],
        deaths={1: 9},
    )


def faults(script: Import, run: Run) -> set[str]:
    """Return the kinds of faults that are found in a run."""
    laws = script("chaos_laws")
    found = laws.Found()
    laws.check(laws.Evidence(**vars(run)), found)
    return {kind for kind, details in found.faults.items() if details}


def dropped(rows: list[dict[str, Any]], **facts: object) -> None:
    """Take away the rows of which something is so."""
    rows[:] = [row for row in rows if any(row.get(name) != it for name, it in facts.items())]


def swapped(run: Run) -> None:
    """Have the second item served first."""
    for row in run.moves:
        if row["_kind"] == "item":
            row["_seq"] = 3 - row["_seq"]


def hurried(run: Run) -> None:
    """Have an item start seven times at once."""
    again = [move(2, 1, state, 2, "w1") for state in ("claimed", "ready") * 7]
    run.moves[1:1] = again[:-1]


def overtaken(run: Run) -> None:
    """Have items of the same keys, and of no group, start in the wrong order."""
    swapped(run)
    for row in run.items:
        row |= {"_group_key": None, "h": "h0"}


def crowded(run: Run) -> None:
    """Have four items of a tenant served at once."""
    for seq in range(3, 7):
        run.items.append(item(1, seq, f"k{seq}"))
        run.moves.insert(1, move(2, seq, "claimed", 2, "w3"))


TAMPERED: dict[str, Callable[[Run], object]] = {
    "put and missing": lambda run: dropped(run.items, k="b"),
    "there twice": lambda run: run.items.append(item(1, 3, "a")),
    "put by nobody": lambda run: run.items.append(item(1, 3, "z")),
    "told otherwise": lambda run: run.lines[2].update(inserted=1),
    "acked twice": lambda run: run.moves.append(move(7, 1, "acked", 2, "w1")),
    "held twice": lambda run: dropped(run.moves, _state="ready"),
    "held twice at a time": lambda run: run.deaths.update({1: 20}),
    "settled by others": lambda run: run.moves[-2].update(_lease=5),
    "two of a group": lambda run: run.moves.insert(1, move(2, 2, "claimed", 1, "w3")),
    "above a limit": crowded,
    "above a rate": hurried,
    "overtaken": overtaken,
    "out of order": swapped,
    "steps with gaps": lambda run: dropped(run.moves, _kind="head", _step=3),
    "kept by the dead": lambda run: dropped(run.moves, _state="ready"),
    "never over": lambda run: dropped(run.moves, _state="acked", _seq=2),
    "heads wrong": lambda run: run.items[-1].update(head(1, items=3, refused=0)),
    "lost by the living": lambda run: run.lines.append(line(15, "lost", 2, lease=6, error="")),
    "raised": lambda run: run.lines.append(line(15, "raised", 2, error="")),
}


def test_a_lawful_run_has_no_faults(script: Import) -> None:
    """What came back from a process that has died, and was served again, is no fault."""
    assert faults(script, a_run()) == set()


@pytest.mark.parametrize("kind", TAMPERED)
def test_every_law_can_be_broken(script: Import, kind: str) -> None:
    """Evidence with a fault of each kind is found to have it."""
    run = a_run()
    TAMPERED[kind](run)
    assert kind in faults(script, run)


def test_every_kind_is_known(script: Import) -> None:
    """Nothing is counted that cannot be found, save what is wrong with files."""
    assert set(script("chaos_evidence").KINDS) == {
        *TAMPERED,
        "strange files",
        "files gone",
        "left behind",
    }
