"""A trace in several orders: what is read, who waits, and what stays the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from spark_queue.errors import InvalidArgumentError
from spark_queue.replay import ORDERS, Job, play, read_swf, replay
from spark_queue.replay.summary import lighter_half, png, save

TRACE = Path(__file__).parents[2] / "data" / "NASA-iPSC-1993-3.1-cln.swf.gz"


def jobs(*rows: tuple[str, float, float]) -> list[Job]:
    """Make jobs from (user, submitted, runs for)."""
    return [Job(number, *row) for number, row in enumerate(rows, start=1)]


def test_the_published_trace_is_read() -> None:
    """All 18,239 jobs of 69 users are read, in the order of their submission."""
    found = read_swf(TRACE)
    assert len(found) == 18_239
    assert len({job.user for job in found}) == 69
    assert found[0] == Job(1, "1", 0.0, 1451.0)
    assert [job.submitted for job in found] == sorted(job.submitted for job in found)


def test_one_server_by_hand() -> None:
    """On one server, FIFO serves all of the first user, fair the late user in the next round."""
    trace = jobs(("a", 0, 10), ("a", 0, 10), ("a", 0, 10), ("b", 1, 5))
    fifo = [(run.job.user, run.began) for run in play(trace, 1, "fifo")]
    assert fifo == [("a", 0), ("a", 10), ("a", 20), ("b", 30)]
    fair = [(run.job.user, run.began) for run in play(trace, 1, "fair")]
    assert fair == [("a", 0), ("a", 10), ("b", 20), ("a", 25)]


def test_a_user_who_floods_does_not_make_others_wait() -> None:
    """Where one user floods, the waits of all others fall, and the same work is done."""
    flood = [("flood", 0.0, 60.0)] * 500
    others = [(f"user {n}", 60.0 * n, 60.0) for n in range(1, 20)]
    trace = sorted(jobs(*flood, *others), key=lambda job: job.submitted)
    done = replay(trace, 2)
    found = done.by_order()
    for n in range(1, 20):
        assert found["fair"][f"user {n}"].wait_max <= 240
        assert found["fifo"][f"user {n}"].wait_p95 > 10_000
    assert len({order.work for order in done.orders}) == 1


def test_the_real_trace_is_fairer_in_turns() -> None:
    """On the published trace, those who waited longest wait less in turns; the work is the same."""
    done = replay(read_swf(TRACE), 2, orders=("fifo", "fair"))
    fifo, fair = done.orders
    found = done.by_order()
    for user in done.worst_users(10):
        assert found["fair"][user].wait_p95 < found["fifo"][user].wait_p95
    assert fair.mean_slowdown < fifo.mean_slowdown / 2
    assert fair.median_p95 < fifo.median_p95
    assert fair.work == fifo.work


def test_a_weight_and_a_cost_move_users() -> None:
    """A user of weight 2 gets two jobs for each of the other; by cost, long jobs count more."""
    trace = jobs(*[("a", 0.0, 10.0)] * 6, *[("b", 0.0, 10.0)] * 6)
    weighted = play(trace, 1, "weighted", weights={"a": 2.0})
    assert [run.job.user for run in weighted][:6].count("a") == 4
    uneven = jobs(*[("long", 0.0, 30.0)] * 4, *[("short", 0.0, 10.0)] * 12)
    by_cost = [run.job.user for run in play(uneven, 1, "cost")][:8]
    assert by_cost.count("short") == 6


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 50), st.integers(0, 20)),
        min_size=1,
        max_size=30,
    ),
    st.integers(1, 3),
)
def test_every_order_runs_every_job_once(rows: list[tuple[str, int, int]], servers: int) -> None:
    """Whatever the order, each job runs once, not before it came, and never too many at a time."""
    trace = sorted(
        jobs(*[(user, float(at), float(runs)) for user, at, runs in rows]),
        key=lambda job: (job.submitted, job.number),
    )
    for order in ORDERS:
        runs = play(trace, servers, order)
        assert sorted(run.job.number for run in runs) == sorted(job.number for job in trace)
        assert all(run.waited >= 0 for run in runs)
        for run in runs:
            beside = [o for o in runs if o.began <= run.began < o.ended]
            assert len(beside) <= servers


def test_light_users_count_double_by_default() -> None:
    """Those who together asked for no more than half of the work have a weight of 2."""
    trace = jobs(("big", 0, 100), ("small", 0, 10), ("tiny", 0, 5))
    assert lighter_half(trace) == {"small": 2.0, "tiny": 2.0}


def test_a_picture_is_written(tmp_path: Path) -> None:
    """The picture is a PNG of some size."""
    done = replay(jobs(("a", 0, 10), ("b", 1, 10)), 1)
    save(done, tmp_path / "waits.png")
    assert (tmp_path / "waits.png").read_bytes().startswith(b"\x89PNG")
    assert png(done).startswith(b"\x89PNG")
    assert "<table>" in done._repr_html_()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 0 -1\n", "line 1 of trace"),
        ("; only a header\n", "has no job"),
        ("1 0 -1 x 1 1 1 1 1 1 1 u\n", "line 1 of trace"),
    ],
)
def test_a_file_that_is_no_trace_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """What is no trace is refused, and the line is named."""
    path = tmp_path / "trace.swf"
    path.write_text(text)
    with pytest.raises(InvalidArgumentError, match=message):
        read_swf(path)
    with pytest.raises(InvalidArgumentError, match="is no file"):
        read_swf(tmp_path / "missing.swf")


def test_bad_options_are_refused() -> None:
    """No server, or an order that is none, are errors."""
    trace = jobs(("a", 0, 1))
    with pytest.raises(InvalidArgumentError, match="servers is 0"):
        play(trace, 0, "fifo")
    with pytest.raises(InvalidArgumentError, match="order is 'lifo'"):
        play(trace, 1, "lifo")  # type: ignore[arg-type]
