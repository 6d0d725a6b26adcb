"""Tags and turns are sums that are exact, so that nobody's way of adding them up shows."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from hypothesis import example, given, strategies as st

from spark_queue.checks import LARGEST
from spark_queue.config import QueueConfig
from spark_queue.rules.fairness import UNIT, round_to_unit, share
from spark_queue.rules.rule_model import NewItem, Release
from spark_queue.rules.scheduler import Scheduler

#: Such as have no end as binary fractions, and such as are less than a unit.
COSTS = st.one_of(st.sampled_from([0.1, 0.7, 1 / 3, 1e-9]), st.floats(1e-9, 1e6))
WEIGHTS = st.sampled_from([0.3, 3.0, 0.001, 7.0, 1.0])


@given(COSTS)
def test_a_cost_counts_what_it_is_to_half_a_unit(cost: float) -> None:
    """What is rounded is a whole number of units; what is less than one counts as one."""
    assert abs(round_to_unit(cost) - cost) <= UNIT / 2
    assert share(cost) == max(UNIT, round_to_unit(cost))
    assert (share(cost) / UNIT).is_integer()


@given(st.lists(COSTS, min_size=1, max_size=200), st.integers(0, 200), st.randoms())
def test_a_line_ends_at_the_sum_of_its_costs_whatever_their_order(
    costs: list[float], steps: int, draw: random.Random
) -> None:
    """Law 3: neither the order nor the steps in which items entered shows in its last tag."""
    units = sum(int(share(cost) / UNIT) for cost in costs)
    draw.shuffle(costs)
    scheduler = Scheduler(QueueConfig(fair_key="f"))
    for some in (costs[:steps], costs[steps:]):
        scheduler.admit([NewItem(fair_key="a", cost=cost) for cost in some], 0.0)
    assert scheduler.last_tag(0, "a") == units * UNIT


@example([0.1, 5.0, 0.7, 5.0, 0.1], 3.0, 0.1)
@example([1e6, 999_999.3, 1e6, 0.7] * 10, 1.0, 0.001)
@given(st.lists(COSTS, min_size=2, max_size=40), WEIGHTS, WEIGHTS)
def test_what_came_back_is_served_the_sum_of_increments_behind_the_first(
    costs: list[float], before: float, weight: float
) -> None:
    """Law 3: each overdue turn of a claim is the first, and the increments up to there.

    That is exact up to 2**53 units; from there on each sum is off by half a last digit.
    """
    scheduler = Scheduler(QueueConfig(fair_key="f", weights={"a": before}))
    scheduler.admit([NewItem(fair_key="a", cost=cost) for cost in costs], 0.0)
    grant = scheduler.claim(0.0, len(costs))
    scheduler.settle(grant.lease, {item.seq: Release() for item in grant.items}, 0.0)
    scheduler.configure(scheduler.config.changed(weights={"a": weight}))
    turns = [item.turn for item in scheduler.claim(0.0, len(costs)).items]
    units = [int(share(cost / weight) / UNIT) for cost in costs]
    for n, turn in enumerate(turns):
        behind = sum(units[1 : n + 1])
        exact = Fraction(turns[0]) + behind * Fraction(UNIT)
        sums = n if behind > 2**53 else 0
        assert turn == float(exact) or abs(Fraction(turn) - exact) <= sums * exact / 2**53


@pytest.mark.parametrize("weight", [5e-324, 1.0, LARGEST])
def test_the_least_and_the_largest_cost_and_weight_are_served_in_order(weight: float) -> None:
    """A sum that is more than whole units can be is a number still, and no turn goes back."""
    scheduler = Scheduler(QueueConfig(fair_key="f", weights={"a": weight}))
    costs = [5e-324, LARGEST / 4, 1.0, LARGEST / 4]
    for _ in range(2):
        scheduler.admit([NewItem(fair_key="a", cost=cost) for cost in costs], 0.0)
        grant = scheduler.claim(0.0, 3)
        scheduler.settle(grant.lease, {item.seq: Release() for item in grant.items}, 0.0)
    served = scheduler.claim(0.0, 8).items
    turns = [item.turn for item in served]
    assert [item.seq for item in served] == list(range(1, 9))
    assert turns == sorted(turns)


def test_what_a_step_adds_to_a_line_is_one_sum() -> None:
    """Law 3: where a tag is so high that a unit is lost, those of a step are not lost together."""
    scheduler = Scheduler(QueueConfig(fair_key="f"))
    scheduler.admit([NewItem(fair_key="a", cost=2.0**35)], 0.0)
    scheduler.admit([NewItem(fair_key="a", cost=UNIT)] * 64, 0.0)
    assert scheduler.last_tag(0, "a") == 2.0**35 + 64 * UNIT
