"""Holders of items, with whether they live."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from spark_queue.config_changes import each_change
from spark_queue.log.disk.liveness import judge
from spark_queue.log.settings import Settings
from spark_queue.report.commands import undo_command
from spark_queue.report.lines import HeldGroup, ItemLine, OperatorStep, WorkerLine
from spark_queue.results import ItemProgress, Liveness
from spark_queue.sql.look import instant_of
from spark_queue.state.store import Store
from spark_queue.views.answers import Answer, Answers, Ends
from spark_queue.views.operator_steps import hidden_steps
from spark_queue.wording import instant

#: Items in flight that are asked for their progress.
_HELD = 100

#: The ones to look at first.
_ORDER = (Liveness.GONE, Liveness.LATE)


def directory_at(store: Store, ends: Ends) -> Path | None:
    """Return where life locks are; ``None`` where a report goes by leases, as one of then does."""
    return store.handle.place.directory() if ends.at is None else None


def workers(
    rows: Iterable[Answer], directory: Path | None, now: datetime
) -> tuple[WorkerLine, ...]:
    """Return the panel of workers: gone ones with items first, then late ones."""
    found = [worker(row, directory, now) for row in rows]
    return tuple(sorted(found, key=_place))


def groups(rows: Iterable[Answer], directory: Path | None, now: datetime) -> tuple[HeldGroup, ...]:
    """Return the panel of held groups."""
    return tuple(held_group(row, directory, now) for row in rows)


def held_group(row: dict[str, Any], directory: Path | None, now: datetime) -> HeldGroup:
    """Return a line of the panel of held groups; its holder is judged where the head is leased."""
    is_held = row["worker_id"] is not None or row["why"] == "leased"
    liveness = judge(directory, row["worker_id"], row["until"], now) if is_held else None
    return HeldGroup(**row, liveness=liveness)


def item_line(
    row: dict[str, Any],
    columns: Mapping[str, Any],
    progress: ItemProgress | None,
    directory: Path | None,
    now: datetime,
) -> ItemLine:
    """Return an item of a list; its holder is judged where it has one."""
    until = row["held_until"]
    liveness = None if until is None else judge(directory, row["worker_id"], until, now)
    row = {**row, "liveness": liveness, "progress": progress, "columns": columns}
    return ItemLine(**{one.name: row[one.name] for one in fields(ItemLine)})


def worker(row: dict[str, Any], directory: Path | None, now: datetime) -> WorkerLine:
    """Return a line of the panel of workers."""
    # One whose other leases are in force is late, however long ago the first of them ran out.
    until = now if 0 < row["late"] < row["items"] else row["until"]
    return WorkerLine(**row, liveness=judge(directory, row["worker_id"], until, now))


def with_progress(
    workers: Iterable[WorkerLine],
    answers: Answers,
    find: Callable[[Mapping[int, int]], Mapping[int, ItemProgress]],
) -> tuple[WorkerLine, ...]:
    """Return workers with what each said last of one of the first items in flight.

    Parameters
    ----------
    find : callable
        Returns how far the work on items is, by ``seq``, given their leases.
    """
    held = {row["seq"]: row for row in answers.rows("reasons", "reason = 'leased'", _HELD)}
    said = find({seq: row["lease"] for seq, row in held.items()}) if held else {}
    newest = {held[seq]["worker_id"]: seq for seq in sorted(said, key=lambda seq: said[seq].at)}
    return tuple(
        replace(one, progress=said[seq], progress_of=seq) if seq in said else one
        for one, seq in ((one, newest.get(one.worker_id, 0)) for one in workers)
    )


def _place(worker: WorkerLine) -> int:
    if not worker.items or worker.liveness not in _ORDER:
        return len(_ORDER)
    return _ORDER.index(worker.liveness)


#: Actions that can be undone, where they are steps of the status log.
_TAKEN_BACK = frozenset({"paused", "resumed", "configured", "cancelled"})


def steps(rows: Sequence[Answer], queue: str, reader: str) -> tuple[OperatorStep, ...]:
    """Return the steps of operators, newest first, given their rows in that order."""
    undone = {row["undone"] for row in rows}
    found = [step for row in rows for step in _steps_of(row, queue, reader, undone)]
    found += map(_hidden, hidden_steps(rows))
    return tuple(sorted(found, key=lambda step: step.at, reverse=True))


def _hidden(noted: Answer) -> OperatorStep:
    """Return a step whose items were purged since."""
    plain = {name: value for name, value in noted.items() if name != "moment"}
    return OperatorStep(**plain, at=instant_of(noted["moment"]), detail="its items are gone")


def _steps_of(
    row: Answer, queue: str, reader: str, undone: Collection[int | None]
) -> Iterator[OperatorStep]:
    plain = {name: row[name] for name in ("log", "step", "at", "action", "who", "items", "undone")}
    changes: Iterable[tuple[str, str]] = [("", "")]
    if row["settings"] is not None and row["record"] is None:
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
    were, are = (Settings.from_json("", one).key_ends() for one in (before, text))
    for by, key in {**were, **are}:
        if (by, key) not in are:
            yield "resumed", f"{by} {key!r}"
        elif are[by, key] != were.get((by, key), 0):
            end = are[by, key]
            is_open = end == math.inf
            until = (
                "it is resumed" if is_open else instant(datetime.fromtimestamp(end, timezone.utc))
            )
            yield "paused", f"{by} {key!r} until {until}"
    changes = sorted(each_change(old["config"], new["config"]))
    if changes:
        yield "configured", ", ".join(f"{what} {was} -> {now}" for what, was, now in changes)
