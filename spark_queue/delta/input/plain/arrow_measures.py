"""Sizes of the values of items, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spark_queue.delta.input.kinds import WIDTHS, Field
from spark_queue.delta.input.measures import Measure, length, of_bytes, of_text
from spark_queue.delta.input.plain import arrow_items
from spark_queue.delta.tables import instants


def measures(columns: Sequence[Field]) -> dict[str, Measure]:
    """Return what measures a value of each column, and refuses what does not fit it."""
    return {column.name: _measure_of(column) for column in columns}


def _measure_of(column: Field) -> Measure:
    simple, form = column.kind.simple, column.kind.form
    if form == "binary":
        return of_bytes(column.name, simple)
    if form == "string":
        return of_text(column.name, simple)
    width = WIDTHS.get(form)

    def size(value: Any) -> int:
        if not instants.are_named(arrow_items.column([value], column)):
            raise instants.outside(column.name)
        if value is None:
            return 0
        return width or length(value)

    return size
