"""What an item waits for, told in one sentence."""

from __future__ import annotations

from datetime import timedelta

from spark_queue import Limit, LocalQueue, QueueConfig, RetryPolicy
from spark_queue.clock import ManualClock, SystemClock
from tests.programs import run_python

#: Claims an item, and is killed with it.
_KILLED = """
import os, signal, sys
from spark_queue import LocalQueue

claim = LocalQueue.open(sys.argv[1]).claim(1)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_loss_is_no_failure(queue_path: str) -> None:
    """The error is that of the last failure, and losses are counted beside."""
    clock = ManualClock(SystemClock().now() - timedelta(hours=1))
    config = QueueConfig(group_key="run", retry=RetryPolicy(delay=timedelta(minutes=1)))
    queue = LocalQueue.create(queue_path, "run string", config, durability="process", clock=clock)
    queue.enqueue([{"run": "a"}, {"run": "a"}, {"run": "b"}])
    for _ in range(2):
        queue.claim(1).nack("TimeoutError: no answer")
        clock.advance(timedelta(minutes=10))
    for _ in range(2):
        run_python("-c", _KILLED, queue_path)
        with queue.claim(1) as claim:
            claim.release()

    told = queue.report_item(2).text

    assert told == (
        "item 2 waits for item 1, which failed twice with 'TimeoutError: no answer', was lost "
        "twice, was given back twice and may run at the next claim"
    )
    assert queue.report_item(3).text == "item 3 may run at the next claim"


def test_who_has_the_slots_of_a_full_key_is_named(queue_path: str) -> None:
    """The key, its numbers, the first item in flight, and in whose hands that is; in both faces."""
    clock = ManualClock(SystemClock().now())
    config = QueueConfig(fair_key="t", limits=(Limit(by="t", default=2, overrides={"shut": 0}),))
    queue = LocalQueue.create(queue_path, "t string", config, durability="process", clock=clock)
    queue.enqueue([{"t": name} for name in ("a", "a", "a", "shut")])
    assert queue.claim(9, worker_id="w").count == 2

    told = {seq: queue.report_item(seq) for seq in (3, 4)}

    full = "t 'a' has 2 of 2 allowed items in flight"
    assert told[3].text == (
        f"item 3 waits for room: {full}, the first of them item 1, which is in the hands of w, "
        "and may be taken over in 5 min"
    )
    assert told[4].text == "item 4 waits for room: t 'shut' has 0 of 0 allowed items in flight"
    for seq, report in told.items():
        why = queue.explain(seq)
        assert (why.reason, why.detail) == ("key limit", report.chain[0].detail)
