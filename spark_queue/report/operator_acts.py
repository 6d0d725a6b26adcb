"""Acts of operators: changed settings, and ends that they made."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from spark_queue.report.engine import Answer, Removal
from spark_queue.report.model import OperatorStep
from spark_queue.report.predicates import undo_command

#: What is taken back, where it is a step of the status log.
_TAKEN_BACK = frozenset({"paused", "resumed", "configured", "cancelled"})


def steps(
    rows: Iterable[Answer], removals: Iterable[Removal], queue: str, reader: str
) -> tuple[OperatorStep, ...]:
    """Return what operators did, newest first, given rows of the panel in that order."""
    known = list(rows)
    undone = {row["undone"] for row in known}
    found = [step for row in known for step in _steps_of(row, queue, reader, undone)]
    found += [_purge(removal) for removal in removals]
    return tuple(sorted(found, key=lambda step: step.at, reverse=True))


def _purge(removal: Removal) -> OperatorStep:
    return OperatorStep(
        at=removal.at,
        log="queue",
        step=None,
        action="purged",
        items=0,
        detail="",
        who=removal.who,
    )


def _steps_of(
    row: Answer, queue: str, reader: str, undone: Collection[int | None]
) -> Iterator[OperatorStep]:
    plain = {name: value for name, value in row.items() if not name.startswith("settings")}
    changes: Iterable[tuple[str, str]] = [("", "")]
    if row["settings"] is not None:
        changes = _changes(row["settings"], row["settings_before"])
    for change, detail in changes:
        action, said = change or row["action"], detail
        can_undo = action in _TAKEN_BACK and row["step"] not in undone
        if row["undone"] is not None:
            what = f"{change} {detail}".strip()
            action, said = "undone", f"step {row['undone']}" + (f": {what}" if what else "")
        undo = undo_command(queue, reader, row["step"]) if can_undo else ""
        yield OperatorStep(**{**plain, "action": action}, detail=said, undo=undo)


def _changes(text: str, before: str | None) -> Iterator[tuple[str, str]]:
    """Return what a row of settings did, and how."""
    if before is None:
        yield "created", ""
        return
    new, old = json.loads(text), json.loads(before)
    if new["paused"] != old["paused"]:
        yield "paused" if new["paused"] else "resumed", ""
    changed = list(_differences(new["config"], old["config"]))
    if changed:
        yield "configured", ", ".join(changed)


def _differences(new: Mapping[str, Any], old: Mapping[str, Any], at: str = "") -> Iterator[str]:
    for name in sorted({*new, *old}):
        value, was = new.get(name), old.get(name)
        if isinstance(value, Mapping) and isinstance(was, Mapping):
            yield from _differences(value, was, f"{at}{name}.")
        elif value != was:
            yield f"{at}{name} {json.dumps(was)} -> {json.dumps(value)}"
