"""The alerts: each of their rules is valid, fires on a queue made for it, and on no healthy one."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import promql_parser
import pyarrow as pa
import pytest
import yaml
from deltalake import write_deltalake

from spark_queue import LocalQueue, QueueConfig, RetryPolicy
from spark_queue.clock import ManualClock, SystemClock
from spark_queue.doctor.examine import CHECKS, examine
from spark_queue.metrics import metric_samples
from spark_queue.report.finding import Thresholds
from tests.programs import run_python
from tests.unit.metrics.promql import Scrapes, scraped

_ROOT = Path(__file__).parents[3]
_GROUPS: list[dict[str, Any]] = yaml.safe_load((_ROOT / "conf" / "alerts.yaml").read_text())[
    "groups"
]
_RULES: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for group in _GROUPS for rule in group["rules"]
}

_MINUTE, _HOUR = timedelta(minutes=1), timedelta(hours=1)

#: What Prometheus takes in a rule that alerts, and as a duration.
_FIELDS = {"alert", "expr", "for", "labels", "annotations"}
_DURATION = re.compile(r"([0-9]+(ms|[smhdwy]))+")

#: Makes a queue on which something is wrong.
Wrong = Callable[[LocalQueue, ManualClock], None]


def _worked(queue: LocalQueue, clock: ManualClock) -> None:
    """Have items of each kind, and a worker that goes on: nothing is wrong."""
    queue.claim(2).ack()
    clock.advance(_MINUTE)
    queue.claim(1)


def _foreign(queue: LocalQueue, _: ManualClock) -> None:
    rows = pa.table({"id": ["x"]})
    write_deltalake(Path(queue.name, "queue"), rows, mode="append", schema_mode="merge")


def _idle(queue: LocalQueue, clock: ManualClock) -> None:
    queue.claim(1).ack()
    clock.advance(_HOUR)


def _gone(queue: LocalQueue, clock: ManualClock) -> None:
    program = "import os, sys; from spark_queue import LocalQueue as Q\n"
    program += "Q.open(sys.argv[1]).claim(1); os._exit(1)"
    run_python("-c", program, queue.name)
    clock.advance(_MINUTE)


def _overdue(queue: LocalQueue, clock: ManualClock) -> None:
    queue.claim(1, lease=_MINUTE)
    clock.advance(3 * _MINUTE)


def _stuck(queue: LocalQueue, clock: ManualClock) -> None:
    queue.claim(1).ack()
    queue.claim(1, lease=9 * _HOUR)
    clock.advance(3 * _HOUR)


def _paused(queue: LocalQueue, _: ManualClock) -> None:
    queue.pause()


def _starved(queue: LocalQueue, clock: ManualClock) -> None:
    queue.enqueue({"id": "x", "t": "slow"})
    queue.configure(weights={"slow": 0.001})
    clock.advance(2 * _HOUR)
    queue.claim(3).ack()


def _failed(queue: LocalQueue, _: ManualClock) -> None:
    claim = queue.claim(1)
    claim.settle_each({claim.rows[0]["_seq"]: ("dead", "no such file")})


def _old(queue: LocalQueue, clock: ManualClock) -> None:
    clock.advance(24 * _HOUR + _MINUTE)
    queue.claim(1)


def _unkept(queue: LocalQueue, _: ManualClock) -> None:
    for _at in range(3):
        queue.claim(1).release()


#: By alert, a queue on which it fires.
_WRONG: dict[str, Wrong] = {
    "SparkQueueUnsound": _foreign,
    "SparkQueueNobodyClaims": _idle,
    "SparkQueueWorkersGone": _gone,
    "SparkQueueLeasesOverdue": _overdue,
    "SparkQueueNothingDone": _stuck,
    "SparkQueuePaused": _paused,
    "SparkQueueStarves": _starved,
    "SparkQueueFails": _failed,
    "SparkQueueOld": _old,
    "SparkQueueDiskFills": _worked,
    "SparkQueueUpkeepDue": _unkept,
}

#: Where something takes hours or gigabytes to go wrong, from where on it is.
_LIMITS = {
    "SparkQueueDiskFills": Thresholds(free=2**62),
    "SparkQueueUpkeepDue": Thresholds(checkpoint_rows=1),
}


@pytest.fixture
def firing(
    queue_path: str, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Wrong, Thresholds | None], set[str]]:
    """Make a queue, let something happen to it, and return the alerts that fire."""

    def run(wrong: Wrong, limits: Thresholds | None) -> set[str]:
        clock = ManualClock(SystemClock().now() - timedelta(days=100))
        config = QueueConfig(fair_key="t", retry=RetryPolicy(delay=_MINUTE), lease=_HOUR / 2)
        queue = LocalQueue.create(queue_path, "id string, t string", config, clock=clock)
        queue.enqueue([{"id": str(at), "t": "ab"[at % 2]} for at in range(6)])
        queue.claim(1).ack()
        wrong(queue, clock)
        if limits is not None:
            with_limits = partial(examine, thresholds=limits)
            monkeypatch.setattr("spark_queue.metrics.metric_samples.examine", with_limits)
        now = scraped(metric_samples.text(metric_samples.samples(queue)))
        scrapes = Scrapes(now, now, 60.0)
        return {name for name, rule in _RULES.items() if scrapes.asked(rule["expr"])}

    return run


def test_a_healthy_queue_raises_no_alert(
    firing: Callable[[Wrong, Thresholds | None], set[str]],
) -> None:
    """All metrics and labels of the rules are exported, and none of them fires."""
    assert firing(_worked, None) == set()


@pytest.mark.parametrize("alert", _RULES)
def test_an_alert_fires_on_a_queue_made_for_it(
    firing: Callable[[Wrong, Thresholds | None], set[str]], alert: str
) -> None:
    """What the rule is about is done to a queue."""
    assert alert in firing(_WRONG[alert], _LIMITS.get(alert))


def test_the_file_is_one_that_prometheus_takes() -> None:
    """Groups have names, rules the fields of an alert, and expressions that a parser reads."""
    assert len({group["name"] for group in _GROUPS}) == len(_GROUPS)
    assert all(group.keys() == {"name", "rules"} for group in _GROUPS)
    assert len(_RULES) == sum(len(group["rules"]) for group in _GROUPS)
    for name, rule in _RULES.items():
        assert rule.keys() <= _FIELDS
        assert re.fullmatch(r"[A-Za-z_]\w*", name)
        assert promql_parser.parse(rule["expr"]) is not None
        assert _DURATION.fullmatch(rule.get("for", "1m"))
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"].keys() == {"summary", "action"}


def test_an_alert_names_only_what_there_is() -> None:
    """Findings in an expression are the doctor's, labels in a text those of the metric."""
    for rule in _RULES.values():
        for ids in re.findall(r'id=~?"([^"]+)"', rule["expr"]):
            assert set(ids.split("|")) <= set(CHECKS)
        texts = " ".join(rule["annotations"].values())
        labels = {"queue", "id"} if "findings" in rule["expr"] else {"queue", "reader"}
        assert set(re.findall(r"\$labels\.(\w+)", texts)) <= labels


def test_the_document_names_each_alert_with_its_severity() -> None:
    """Its table has a row of each rule."""
    page = (_ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(SparkQueue\w+)` \| (\w+) \|", page, re.MULTILINE))

    assert rows == {name: rule["labels"]["severity"] for name, rule in _RULES.items()}
