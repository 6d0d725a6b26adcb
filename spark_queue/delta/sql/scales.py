"""Weights of keys, and pointers of priorities, as tables for the texts."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pyarrow as pa

from spark_queue.delta.tables.heads import Pointer
from spark_queue.delta.tables.settings import Settings

_WEIGHTS = pa.schema(
    [
        ("fair_key", pa.string()),
        ("priority", pa.int32()),
        ("weight", pa.float64()),
        ("pin_tag", pa.float64()),
        ("pin_turn", pa.float64()),
    ]
)

_POINTERS = pa.schema(
    [
        ("priority", pa.int32()),
        ("turn", pa.float64()),
        ("seq", pa.int64()),
        ("checkpoint_turn", pa.float64()),
        ("checkpoint_seq", pa.int64()),
    ]
)


def weights_of(settings: Settings, priorities: Collection[int]) -> pa.Table:
    """Return how the stored tags of weighted keys map to turns, at each priority."""
    rows = []
    for key, stretch in settings.stretches.items():
        for priority in priorities:
            tag, turn = stretch.pins.get(priority, (0.0, 0.0))
            pins = {"pin_tag": tag, "pin_turn": turn}
            rows.append({"fair_key": key, "priority": priority, "weight": stretch.weight, **pins})
    return pa.Table.from_pylist(rows, _WEIGHTS)


def pointers_of(
    known: Mapping[int, Pointer], before: Mapping[int, Pointer], priorities: Collection[int]
) -> pa.Table:
    """Return where the order of service stands at each priority, and where it stood before."""
    rows = [
        (p, *known.get(p, (0.0, 0)), *before.get(p, (0.0, 0)))
        for p in sorted({*priorities, *known, *before})
    ]
    return pa.Table.from_pylist(
        [dict(zip(_POINTERS.names, row, strict=True)) for row in rows], _POINTERS
    )
