"""How far processing is: what is said of it, and where."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from spark_queue.cli.commands.stream_commands import BatchTotals
from spark_queue.cli.progress import SETTLED, standing
from spark_queue.processing.loop import ProcessResult

_STEPS = (
    ProcessResult(claims=1, acked=90, failed=5, released=4, dead=1, seconds=2.0),
    ProcessResult(claims=2, acked=100, failed=5, released=4, dead=1, seconds=3.0),
)


def _process(*_: object, on_claim: Callable[[ProcessResult], None], **__: object) -> ProcessResult:
    for step in _STEPS:
        on_claim(step)
    return _STEPS[-1]


def test_progress_says_how_fast_what_failed_and_when_it_ends() -> None:
    """Items, items a second, the time left, what went wrong and claims fit a line."""
    said = standing(_STEPS[0], 1_001, 10.0)

    assert said == "91/1,001 items, 9.1 items/s, 100.0 s left, 1 dead, 5 failed, 1 claim"
    assert len(said) <= 70  # beside what turns and the clock


@pytest.mark.parametrize(
    ("result", "total", "seconds", "said"),
    [
        (None, 0, 0.0, "0 items to do"),
        (ProcessResult(claims=1), 5, 1.0, "0/5 items, 0.0 items/s, 1 claim"),
        (ProcessResult(claims=2, acked=5_000), 5, 1.0, "5,000/5 items, 5,000 items/s, 2 claims"),
        (ProcessResult(claims=1, acked=5), 5, 1.0, "5/5 items, 5.0 items/s, 1 claim"),
    ],
)
def test_progress_promises_no_time_that_it_does_not_know(
    result: ProcessResult | None, total: int, seconds: float, said: str
) -> None:
    """Before the first item is settled, and after the last, no time is left to be told."""
    assert standing(result, total, seconds) == said


def test_each_claim_is_a_json_line_on_request(run: Any, fake: Any) -> None:
    """With ``--each-claim`` every claim has a line with what it alone did, before the total."""
    fake(process=_process)

    ended = run("process", "./q", "json:loads", "--each-claim", "--json")

    first, second, total = map(json.loads, ended.out.splitlines())
    counts = {"acked": 90, "failed": 5, "deferred": 0, "released": 4, "dead": 1}
    assert first == {"claim": 1, **counts, "seconds": 2.0}
    assert second == {"claim": 2, **dict.fromkeys(counts, 0), "acked": 10, "seconds": 3.0}
    assert (total["claims"], total["acked"], ended.err) == (2, 100, "")


def test_each_claim_is_a_line_for_people_too(run: Any, fake: Any) -> None:
    """Without ``--json`` the same is said in words, also in a file."""
    fake(process=_process)

    lines = run("process", "./q", "json:loads", "--each-claim").out.splitlines()

    assert lines[:2] == [
        "claim 1: 1 dead, 5 failed, 4 released, 90 acked, after 2.0 s",
        "claim 2: 10 acked, after 3.0 s",
    ]
    assert lines[-1] == "ended: nothing is left"


def test_one_json_object_unless_more_are_asked_for(run: Any, fake: Any) -> None:
    """``--json`` alone stays one object."""
    fake(process=_process)

    assert run("process", "./q", "json:loads", "--json").out.count("\n") == 1


def test_micro_batches_are_added_up() -> None:
    """Each micro-batch counts from nothing; the whole query is the sum of their last results."""
    totals = BatchTotals()
    assert totals.total() == dict.fromkeys(SETTLED, 0)

    for step in (*_STEPS, ProcessResult(claims=1, acked=7, dead=2)):
        totals(step)

    assert totals.total() == {"acked": 107, "failed": 5, "deferred": 0, "released": 4, "dead": 3}
