"""The dashboard: each of its queries, run against what a worked queue exports."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import REGISTRY, generate_latest

from spark_queue import LocalQueue, Metrics, QueueConfig, RetryAfter, RetryPolicy, StepFacts
from spark_queue.clock import ManualClock
from spark_queue.flow import Rate
from spark_queue.metrics import instruments, metric_samples
from spark_queue.metrics.metric_samples import samples
from tests.unit.metrics.promql import Scrapes, scraped

_FILE = Path(__file__).parents[3] / "conf" / "grafana-dashboard.json"
_DASHBOARD: dict[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))

#: Each panel's queries, with the queue that a viewer has chosen.
_QUERIES = {
    (panel["title"], target["refId"]): target["expr"].replace("$queue", ".*")
    for panel in _DASHBOARD["panels"]
    for target in panel["targets"]
}

#: Seconds between the scrapes.
_APART = 7200.0


@pytest.fixture(scope="module")
def scrapes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scrapes]:
    """Work a queue in all ways, and export it before and after, as OpenTelemetry has it."""
    clock = ManualClock()
    provider = MeterProvider([PrometheusMetricReader()])
    metrics = Metrics(provider, clock=lambda: clock.now().timestamp())
    config = QueueConfig(
        dedup_key="id",
        fair_key="t",
        max_attempts=2,
        rates=(Rate(by="t", limit=3, per=timedelta(seconds=1), burst=9),),
        retry=RetryPolicy(backoff="fixed", delay=timedelta(seconds=1)),
    )
    queue = LocalQueue.create(
        tmp_path_factory.mktemp("dashboard") / "q",
        "id int, t string",
        config,
        durability="process",
        clock=clock,
        listener=metrics,
    )
    metrics.watch(queue)
    _worked(queue, metrics, clock, range(12))
    older = generate_latest(REGISTRY).decode()
    clock.advance(timedelta(seconds=_APART))
    _worked(queue, metrics, clock, range(100, 101))
    queue.process(_defer, stop=(stop := threading.Event()), on_claim=lambda _: stop.set())
    yield Scrapes(scraped(older), scraped(generate_latest(REGISTRY).decode()), _APART)
    provider.shutdown()


def _defer(_: dict[str, Any]) -> None:
    raise RetryAfter(1)


def _worked(queue: LocalQueue, metrics: Metrics, clock: ManualClock, ids: range) -> None:
    """Leave items in each state, with a failure, a loss, a lost try, and a duplicate."""
    queue.enqueue([{"id": at, "t": "abc"[at % 3]} for at in ids])
    queue.enqueue({"id": ids[0], "t": "a"})
    claim = queue.claim(4)
    names = [row["_seq"] for row in claim.rows]
    said = ["ack", "ack", ("dead", "no"), ("nack", "later")]
    claim.settle_each(dict(zip(names, said, strict=True)))  # type: ignore[arg-type]
    queue.claim(2)
    clock.advance(timedelta(seconds=1))
    metrics(
        StepFacts(
            queue=queue.name,
            log="status",
            step=0,
            action="recover",
            counts={"ready": 1},
            seconds=0.01,
            tries=2,
            lease=99,
        )
    )


@pytest.mark.parametrize("panel", _QUERIES, ids="-".join)
def test_each_query_finds_what_is_exported(scrapes: Scrapes, panel: tuple[str, str]) -> None:
    """Its metrics and labels are there, and it answers with numbers."""
    answers = scrapes.asked(_QUERIES[panel])

    assert answers
    assert all(value == value and value >= 0 for value in answers.values())  # noqa: PLR0124 - no NaN


def test_the_queries_say_what_their_panels_promise(scrapes: Scrapes) -> None:
    """Between the scrapes: what was enqueued, done, failed, lost, is dead, and is left."""

    def answer(title: str, at: str = "A") -> float:
        (value,) = scrapes.asked(_QUERIES[title, at]).values()
        return value

    assert answer("Enqueued and done, a second") == pytest.approx(1 / _APART)
    assert answer("Enqueued and done, a second", "B") == pytest.approx(2 / _APART)
    assert answer("Time left at this pace") == pytest.approx(7 * _APART / 3)
    assert answer("Became dead, an hour") == 1
    assert answer("Failures that are tried again, a minute") == pytest.approx(60 / _APART)
    assert answer("Lost with their worker, a minute") == pytest.approx(60 / _APART)
    assert answer("Lag of readers") == 7
    assert answer("Refused as duplicates, a second") == pytest.approx(1 / _APART)
    assert answer("Tries lost to other writers, of all") == pytest.approx(1 / 8)
    states = scrapes.asked(_QUERIES["Items by state", "A"])
    assert sum(states.values()) == 9


def test_a_query_of_what_is_not_exported_is_found_out(scrapes: Scrapes) -> None:
    """A metric, a label that is matched and one that is grouped by, each by its name."""
    for query, missing in (
        ("spark_queue_deep", "spark_queue_deep"),
        ('spark_queue_depth{shade="red"}', "shade"),
        ("sum by (shade) (spark_queue_depth)", "shade"),
    ):
        with pytest.raises(LookupError, match=missing):
            scrapes.asked(query)


def test_the_dashboard_shows_every_metric() -> None:
    """None is left out; and those that a file has are named as OpenTelemetry exports them."""
    queries = " ".join(_QUERIES.values())

    for metric in instruments.ALL:
        assert metric.prometheus in queries, metric.name


def test_a_file_has_the_names_of_the_exporter(scrapes: Scrapes, queue_path: str) -> None:
    """What is seen by a look has one name, whichever way it comes to Prometheus."""
    queue = LocalQueue.create(queue_path, "id int", durability="process", clock=ManualClock())
    queue.enqueue({"id": 1})
    queue.claim(1).ack()

    names = {dict(labels)["__name__"] for labels in scraped(metric_samples.text(samples(queue)))}
    exported = {dict(labels)["__name__"] for labels in scrapes.newer}
    assert names - exported == set()


def test_the_dashboard_is_one_that_grafana_takes() -> None:
    """Panels have ids and places of their own, and the choice of a queue asks a metric."""
    panels = _DASHBOARD["panels"]
    places = {tuple(sorted(panel["gridPos"].items())) for panel in panels}

    assert len({panel["id"] for panel in panels}) == len(places) == len(panels)
    (chosen,) = (one for one in _DASHBOARD["templating"]["list"] if one["name"] == "queue")
    assert chosen["query"] == f"label_values({instruments.FORMAT.prometheus}, queue)"
    assert all("$queue" in target["expr"] for panel in panels for target in panel["targets"])
