"""Steps of operators: the pause in force, and steps whose rows were purged."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_queue.sql.planner_choice import planner_of
from spark_queue.state.store import Store

#: A row of the view ``configured``.
Configured = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """The rows of settings that paused a queue and resumed it."""

    paused: Configured | None
    """``None`` where it is not paused."""
    resumed: Configured | None
    """The newest; ``None`` where it never was."""

    @classmethod
    def of(cls, rows: Iterable[Configured]) -> Pauses:
        """Return the pause and the resume of rows in order."""
        paused, resumed = None, None
        for row in rows:
            is_paused = json.loads(row["settings"])["paused"]
            if paused is not None and not is_paused:
                resumed = row
            paused = (paused or row) if is_paused else None
        return cls(paused=paused, resumed=resumed)


def in_force_since(store: Store, *, paused: bool) -> int:
    """Return the step that paused or resumed a queue."""
    with planner_of(store).look(store, has_values=False) as at:
        rows = at.rows("settings_changes")
    found = Pauses.of(rows)
    row = found.paused if paused else found.resumed
    return int((row or rows[0])["step"])


#: Columns noted of a step; its time is in microseconds since 1970.
NOTED = ("log", "step", "moment", "action", "who", "items", "undone")


def note_of(why: str, items: int, rows: Sequence[dict[str, Any]]) -> str:
    """Return a purging step's note, with the earlier steps that it may hide.

    Parameters
    ----------
    why : "purge" or "retention"
        Why they go.
    items : int
        How many.
    rows : sequence of dict
        The rows of the view ``steps``.
    """
    own = [{name: row[name] for name in NOTED} for row in rows if row["settings"] is None]
    return f"{why} {items} {json.dumps([*own, *hidden_steps(rows)])}"


def hidden_steps(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the steps without rows, from the newest note."""
    note = next((row["record"] for row in rows if row["record"]), None)
    if note is None:
        return []
    there = {(row["log"], row["step"]) for row in rows}
    noted: list[dict[str, Any]] = json.loads(note.split(" ", 2)[2])
    return [one for one in noted if (one["log"], one["step"]) not in there]
