"""Pauses of a queue, by the rows of settings that its status log has."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
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
