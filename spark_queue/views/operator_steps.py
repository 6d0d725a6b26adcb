"""Steps of operators whose rows were purged, as the purging step noted them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

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
