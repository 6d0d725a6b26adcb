"""Instruments of OpenTelemetry: what steps and looks tell them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from spark_queue import LocalQueue, Metrics, QueueConfig
from spark_queue.clock import ManualClock
from spark_queue.errors import InvalidArgumentError, SetupError
from spark_queue.log.step_events import StepFacts
from spark_queue.metrics import instruments, listening

#: Returns the points of each instrument: labels without the queue, and a value.
Read = Callable[[], dict[str, dict[tuple[str, ...], Any]]]


class _Monotonic:
    """Seconds that are moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> _Monotonic:
    """Return a clock of seconds."""
    return _Monotonic()


@pytest.fixture
def reader() -> InMemoryMetricReader:
    """Return who collects."""
    return InMemoryMetricReader()


@pytest.fixture
def metrics(reader: InMemoryMetricReader, seconds: _Monotonic) -> Metrics:
    """Make instruments that are collected by hand."""
    return Metrics(MeterProvider([reader]), clock=seconds)


@pytest.fixture
def read(reader: InMemoryMetricReader) -> Read:
    """Collect."""

    def collected() -> dict[str, dict[tuple[str, ...], Any]]:
        data = reader.get_metrics_data()
        found: dict[str, dict[tuple[str, ...], Any]] = {}
        for metric in data.resource_metrics[0].scope_metrics[0].metrics if data else ():
            known = next(one for one in instruments.ALL if one.name == metric.name)
            assert (metric.unit, metric.description) == (known.unit, known.help)
            for point in metric.data.data_points:
                about = dict(point.attributes or {})
                assert set(about) == set(known.labels)
                key = tuple(str(about[name]) for name in known.labels if name != "queue")
                value = point.value if hasattr(point, "value") else (point.count, point.sum)
                found.setdefault(metric.name.removeprefix("spark_queue."), {})[key] = value
        return found

    return collected


@pytest.fixture
def queue(queue_path: str, clock: ManualClock, metrics: Metrics) -> LocalQueue:
    """Make a queue whose steps are listened to."""
    config = QueueConfig(dedup_key="id", max_attempts=2, fair_key="id")
    return LocalQueue.create(
        queue_path, "id string", config, durability="process", clock=clock, listener=metrics
    )


def test_steps_are_counted_as_they_are_made(
    queue: LocalQueue, seconds: _Monotonic, read: Read
) -> None:
    """How many of which kind, what became of items, why they are ready again, and the work."""
    queue.enqueue([{"id": "a"}, {"id": "b"}, {"id": "c"}, {"id": "a"}])
    claim = queue.claim(3)
    seconds.now = 4.0
    claim.renew()
    claim.settle_each({1: "ack", 2: ("nack", "broken"), 3: "release"})
    queue.claim(1).dead("never")

    told = read()
    steps = {action: count for (action,), (count, _) in told["step.duration"].items()}
    assert steps == {"enqueue": 1, "claim": 2, "renew": 1, "settle": 2}
    assert told["items"] == {
        ("enqueue", "inserted"): 3,
        ("enqueue", "duplicates"): 1,
        ("claim", "claimed"): 4,
        ("renew", "claimed"): 3,
        ("settle", "acked"): 1,
        ("settle", "failed"): 1,
        ("settle", "released"): 1,
        ("settle", "dead"): 1,
    }
    assert told["work.duration"] == {(): (2, 4.0)}
    assert "step.lost" not in told


def test_readers_have_work_of_their_own(queue: LocalQueue, seconds: _Monotonic, read: Read) -> None:
    """Claims of two readers may have one number, and are not taken for each other."""
    readers = [queue.reader(name, start="beginning") for name in ("first", "second")]
    queue.enqueue({"id": "a"})
    claims = []
    for reader in readers:
        claims.append(reader.claim(1))
        seconds.now += 1.0
    for claim in claims:
        seconds.now += 2.0
        claim.ack()

    assert claims[0].lease == claims[1].lease
    assert read()["work.duration"] == {(): (2, 4.0 + 5.0)}


def test_what_is_processed_has_work_for_each_claim(queue: LocalQueue, read: Read) -> None:
    """A step that settles one claim and grants the next ends the one and begins the other."""
    queue.enqueue([{"id": name} for name in "abcdef"])
    assert queue.process(lambda _: None, limit=2).claims == 3

    told = read()
    assert told["work.duration"][()][0] == 3
    assert sum(n for (_, outcome), n in told["items"].items() if outcome == "acked") == 6
    assert ("settle and claim",) in told["step.duration"]


def test_tries_that_were_lost_are_counted(metrics: Metrics, read: Read) -> None:
    """One less than there were; a claim that was granted long ago is forgotten."""
    facts = {"queue": "q", "log": "status", "seconds": 0.5, "action": "claim"}
    metrics(StepFacts(**facts, step=1, counts={"claimed": 1}, tries=3, lease=1))  # type: ignore[arg-type]
    for step in range(2, listening._MOST + 2):
        metrics._note_claims(
            StepFacts(**facts, step=step, counts={"claimed": 1}, tries=1, lease=step)  # type: ignore[arg-type]
        )

    assert len(metrics._claims) == listening._MOST
    assert ("q", 0, 1) not in metrics._claims
    assert read()["step.lost"] == {("claim",): 2}


def test_a_queue_is_looked_at_when_metrics_are_collected(
    queue: LocalQueue, metrics: Metrics, seconds: _Monotonic, read: Read
) -> None:
    """Not more often than was said, with keys that are bounded; what never was looked at is not."""
    queue.enqueue([{"id": "a"}, {"id": "b"}])
    assert "depth" not in read()
    metrics.watch(queue, keys=1, every=timedelta(seconds=30))

    told = read()
    assert told["depth"][("", "ready")] == 2
    assert told["accepted"] == {(): 2}
    assert {key[1] for key in told["key.depth"]} == {"a", instruments.REST}
    queue.enqueue({"id": "c"})
    assert read()["depth"][("", "ready")] == 2
    seconds.now = 30.0
    assert read()["depth"][("", "ready")] == 3


def test_a_queue_that_is_gone_keeps_no_others_from_being_collected(
    queue: LocalQueue,
    metrics: Metrics,
    read: Read,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is logged, and has no samples."""
    queue.enqueue({"id": "a"})
    metrics.watch(queue)
    LocalQueue.drop(queue.name)

    told = read()
    assert "depth" not in told
    assert told["items"] == {("enqueue", "inserted"): 1}
    assert f"{queue.name}: cannot be looked at" in caplog.text


def test_options_are_checked(metrics: Metrics, queue: LocalQueue) -> None:
    """How many keys, and how often."""
    with pytest.raises(InvalidArgumentError, match="keys is 0"):
        metrics.watch(queue, keys=0)
    with pytest.raises(InvalidArgumentError, match="every is"):
        metrics.watch(queue, every=timedelta(0))


def test_without_opentelemetry_its_name_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is to be installed stands in the error."""
    monkeypatch.delitem(__import__("sys").modules, "opentelemetry.metrics")
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry", None)

    with pytest.raises(SetupError, match=r"spark-queue\[otel\]"):
        Metrics()


def test_a_step_is_logged_with_its_queue_and_claim(
    queue: LocalQueue, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever reads the log sees which claim was granted, and which one was settled."""
    queue.enqueue({"id": "a"})
    with caplog.at_level("INFO", "spark_queue"):
        claim = queue.claim(1)
        claim.ack()

    claimed, settled = (record.getMessage() for record in caplog.records)
    assert claimed.startswith(f"{queue.name} claim status step {claim.lease}: claimed=1 in ")
    assert claimed.endswith(f"try 1, lease {claim.lease}")
    assert settled.endswith(f"lease {claim.lease}")
