from __future__ import annotations

import pytest

from spark_queue.clock import ManualClock
from spark_queue.log.addresses import QueueAddress
from spark_queue.log.heads import StatusHead
from spark_queue.log.session_options import PlainSession
from spark_queue.log.step_events import StepFacts
from spark_queue.state import steps
from spark_queue.state.store import Store


def test_a_listener_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A step that is committed is not undone by whoever is told of it, and its caller goes on."""
    told: list[StepFacts] = []

    def listener(facts: StepFacts) -> None:
        told.append(facts)
        raise RuntimeError("no disk for metrics")

    store = Store.of(PlainSession(), QueueAddress("/tables/q"), ManualClock(), listener)

    claimed = steps.Step(head=StatusHead(step=3), counts={"claimed": 2}, answer=None)
    steps.report(store, "status", "claim", claimed, 0.0)

    assert (told[0].step, told[0].counts) == (3, {"claimed": 2})
    assert "/tables/q: the listener failed" in caplog.text
    assert "no disk for metrics" in caplog.text
