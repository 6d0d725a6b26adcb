"""Rates over random puts and claims: never more than allowed in a window, and never much less."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given, settings, strategies as st

from spark_queue.config import QueueConfig
from spark_queue.flow import Rate
from spark_queue.rules.rule_model import NewItem, Release
from spark_queue.rules.scheduler import Scheduler


def _most_within(starts: list[float], per: float) -> int:
    """Return the most starts in a window, which may begin at any of them."""
    return max(sum(begin <= at < begin + per for at in starts) for begin in starts)


@settings(max_examples=100, deadline=None)
@given(
    limit=st.integers(1, 12),
    per=st.sampled_from([1.0, 3.0, 7.0]),
    burst=st.integers(1, 6),
    steps=st.lists(st.tuples(st.integers(0, 900_000), st.integers(0, 4), st.integers(0, 5))),
)
def test_no_window_has_more_than_limit_and_burst(
    limit: int, per: float, burst: int, steps: list[tuple[int, int, int]]
) -> None:
    """Law 11, FC-16, FC-17: wherever it begins, however seldom and for how many one claims."""
    rate = Rate(limit=limit, per=timedelta(seconds=per), burst=burst)
    scheduler, now, starts = Scheduler(QueueConfig(rates=(rate,))), 0, [0.0]
    scheduler.admit([NewItem()], 0.0)
    scheduler.claim(0.0, 1)
    for later, puts, wanted in steps:
        now += later
        scheduler.admit([NewItem()] * puts, now / 1e6)
        starts += [now / 1e6] * len(scheduler.claim(now / 1e6, wanted).items)
    assert _most_within(starts, per) <= limit + burst


# rule: units that come back
@settings(max_examples=200, deadline=None)
@given(
    limit=st.integers(1, 4),
    burst=st.integers(1, 8),
    steps=st.lists(
        st.tuples(
            st.sampled_from([0, 1, 7, 70, 400]), st.sampled_from([0, 0, 1, 9]), st.integers(0, 3)
        ),
        min_size=5,
        max_size=60,
    ),
)
def test_units_that_come_back_let_no_more_start_than_are_outstanding(
    limit: int, burst: int, steps: list[tuple[int, int, int]]
) -> None:
    """Law 11: of each claim some items begin, and the others go back at once or later."""
    rate = Rate(limit=limit, per=timedelta(seconds=1), burst=burst)
    scheduler, now, starts = Scheduler(QueueConfig(rates=(rate,))), 0, [0.0]
    scheduler.admit([NewItem()] * 400, 0.0)
    scheduler.claim(0.0, 1)
    held: list[tuple[int, list[int]]] = []
    for later, begun, returns in steps:
        now += later * 10_000
        grant = scheduler.claim(now / 1e6, 9)
        starts += [now / 1e6] * len(grant.items[:begun])
        held.append((grant.lease, [item.seq for item in grant.items[begun:]]))
        for lease, seqs in held[:returns]:
            scheduler.settle(lease, dict.fromkeys(seqs, Release(is_begun=False)), now / 1e6)
        del held[:returns]
    assert _most_within(starts, 1.0) <= limit + burst


@settings(max_examples=30, deadline=None)
@given(limit=st.integers(5, 60), burst=st.integers(2, 8), part=st.floats(0.3, 1.0))
def test_a_backlog_runs_at_the_rate_where_claims_come_in_time(
    limit: int, burst: int, part: float
) -> None:
    """Law 11: at least 0.98 of it, where a burst is one more than what comes between two claims."""
    rate = Rate(by="tenant", limit=limit, per=timedelta(seconds=1), burst=burst)
    scheduler = Scheduler(QueueConfig(fair_key="tenant", rates=(rate,)), keep_finished=False)
    scheduler.admit([NewItem(fair_key="a")] * (3 * limit), 0.0)
    each = int(1e6 * part * (burst - 1) / limit)
    instants = [n * each / 1e6 for n in range(int(2e6 / each))]
    started = sum(len(scheduler.claim(at, 100).items) for at in instants)
    assert started >= 0.98 * limit * instants[-1]
