"""Turns of many rows at once, and which of them the order of service has yet to reach."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from spark_queue.config import QueueConfig
from spark_queue.log.heads import Checkpoint
from spark_queue.log.settings import Settings, are_ahead, are_unpassed, turns_of

_POINTERS = {0: (5.0, 40), 1: (2.5, 7)}


def _rows(draw: random.Random, count: int) -> pa.Table:
    rows = [
        {
            "_step": draw.randint(1, 20),
            "_seq": seq,
            "_priority": draw.choice([0, 1, 2]),
            "_round": draw.choice([2.5, 5.0, 10.0, draw.uniform(0.1, 20.0)]),
            "_fair_key": draw.choice(["a", "b", "c", None]),
        }
        for seq in range(1, count + 1)
    ]
    return pa.Table.from_pylist(rows)


# rule: untouched item
@pytest.mark.parametrize("weights", [{}, {"a": 3.0, "b": 0.7}])
def test_many_rows_have_the_turns_and_places_of_each(weights: dict[str, float]) -> None:
    """To the last digit; a priority that was not begun is ahead, and so is what came later."""
    draw = random.Random(5)  # noqa: S311 - rows to compare
    config = QueueConfig(fair_key="tenant", weights={"a": 2.0})
    settings = Settings.initial(config)
    settings = settings.reconfigured(config.changed(weights=weights), {0: (4.0, 1), 1: (1.1, 2)})
    rows = _rows(draw, 200)
    checkpoint = Checkpoint(step=3, queue_step=10, pointers=_POINTERS)

    turns = turns_of(rows, settings)

    expected = [
        settings.turn(row["_priority"], row["_fair_key"], row["_round"]) for row in rows.to_pylist()
    ]
    assert turns.to_pylist() == expected
    ahead = [
        (turn, row["_seq"]) > _POINTERS.get(row["_priority"], (0.0, 0))
        for turn, row in zip(expected, rows.to_pylist(), strict=True)
    ]
    assert are_ahead(rows, turns, _POINTERS).to_pylist() == ahead
    later = [row["_step"] > 10 for row in rows.to_pylist()]
    assert are_unpassed(rows, turns, checkpoint).to_pylist() == [
        one or other for one, other in zip(ahead, later, strict=True)
    ]
    assert {*ahead} == {True, False}
