"""What lies far behind in the order by its tag, and comes up early all the same.

A claim looks so far ahead that it finds what was asked for; the frames here are deeper than that.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.conformance.conftest import Make
from tests.conformance.engines import Row

needs = pytest.mark.needs

#: Further than a first claim of a few items looks.
DEEP = 70


def _singles(tenant: str, count: int) -> Sequence[Row]:
    return [Row(id=f"{tenant}{number:02}", tenant=tenant) for number in range(count)]


@needs("composed", "predicates", "returns", "weights")
def test_a_group_of_two_keys_keeps_its_order_at_any_depth(make: Make) -> None:
    """Law 4: what a weight or a free slot brings forward passes no earlier one of its group."""
    engine = make("fair_key", "group_key")
    engine.enqueue(
        [
            *_singles("A", DEEP),
            Row(id="Ahead", tenant="A", group="g"),
            Row(id="Bnext", tenant="B", group="g"),
            *_singles("C", DEEP),
        ]
    )
    engine.configure(weights={"B": 1000.0, "C": 100.0})
    assert engine.claim(3).ids == ["C00", "C01", "C02"]
    engine.cancel("Ahead")
    assert engine.claim(6).ids == ["C03", "C04", "C05", "C06", "Bnext", "C07"]


# Of claims of one item each, the turns are counted anew: B2 waits for its own tag.
@needs("composed", "predicates", "returns", "runs")
def test_a_key_takes_its_turns_in_order_at_any_depth(make: Make) -> None:
    """Law 6: an item whose tag its group raised takes a returned key's turn before later ones."""
    engine = make("fair_key", "group_key")
    engine.enqueue(
        [
            *_singles("A", DEEP),
            Row(id="Ahead", tenant="A", group="g"),
            Row(id="B1", tenant="B"),
            Row(id="B2", tenant="B", group="g"),
            Row(id="B3", tenant="B"),
        ]
    )
    held = engine.claim(2)
    assert held.ids == ["A00", "B1"]
    engine.cancel("Ahead")
    held.settle("release")
    assert engine.claim(6).ids == ["A00", "B1", "A01", "A02", "B2", "A03"]


@needs("composed", "priority")
def test_a_priority_is_served_out_before_the_next_at_any_depth(make: Make) -> None:
    """Law 21: a lower priority waits for the last item of a higher one that may run."""
    engine = make("group_key", "priority")
    blocked = [Row(id=f"{number:02}", group="g", priority=1) for number in range(30)]
    free = [Row(id="last", priority=1), Row(id="low")]
    engine.enqueue([*blocked, *free])
    assert engine.claim(2).ids == ["00", "last"]
    assert engine.claim(2).ids == ["low"]
