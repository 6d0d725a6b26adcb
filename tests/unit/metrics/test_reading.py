"""A look at a queue as samples, and as a file that Prometheus reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from spark_queue import Limit, LocalQueue, QueueConfig, Rate
from spark_queue.clock import ManualClock
from spark_queue.commands import readers
from spark_queue.doctor.examine import CHECKS
from spark_queue.errors import InvalidArgumentError, SetupError
from spark_queue.log.schema import FORMAT_VERSION
from spark_queue.metrics import instruments, metric_samples
from spark_queue.metrics.metric_samples import EXAMINED, Looker, Sample, samples
from tests.conftest import CommandLine

Key = tuple[tuple[str, str], ...]


@pytest.fixture
def queue(queue_path: str, clock: ManualClock) -> LocalQueue:
    """Make a queue with items of six tenants in all states, one of them without a name."""
    config = QueueConfig(fair_key="t", dedup_key="id", max_attempts=1)
    made = LocalQueue.create(
        queue_path, "id string, t string", config, durability="process", clock=clock
    )
    tenants = ["a", "b", "b", "c", "c", "c", "d", 'e"\\', None]
    made.enqueue([{"id": str(at), "t": tenant} for at, tenant in enumerate(tenants)])
    made.enqueue({"id": "0", "t": "a"})
    clock.advance(timedelta(seconds=10))
    made.claim(1).ack()
    made.claim(1).nack("broken")
    made.claim(1)
    made.pause()
    return made


def _by_name(found: list[Sample]) -> dict[str, dict[Key, float]]:
    names: dict[str, dict[Key, float]] = {}
    for one in found:
        key = tuple((name, one.labels[name]) for name in one.metric.labels if name != "queue")
        names.setdefault(one.metric.name.removeprefix("spark_queue."), {})[key] = one.value
    return names


def test_a_look_tells_what_is_where(queue: LocalQueue) -> None:
    """States, ages, what ever was, and each fair key; with the labels that the metric has."""
    found = samples(queue)

    assert all(set(one.labels) == set(one.metric.labels) for one in found)
    assert {one.labels["queue"] for one in found} == {queue.name}
    told = _by_name(found)
    states = {dict(key)["state"]: value for key, value in told["depth"].items()}
    assert states == {
        "ready": 6,
        "claimed": 1,
        "acked": 1,
        "dead": 1,
        "expired": 0,
        "redriven": 0,
        "cancelled": 0,
    }
    assert told["oldest_age"] == {(("reader", ""),): 10.0}
    assert told["lag"] == {(("reader", ""),): 7}
    assert told["paused"] == {(("reader", ""),): 1}
    assert told["accepted"] == {(): 9}
    assert told["refused"] == {(): 1}
    assert told["format"] == {(): FORMAT_VERSION}
    assert told["finished"] == {
        (("reader", ""), ("state", "acked")): 1,
        (("reader", ""), ("state", "dead")): 1,
    }
    steps = {dict(key)["log"]: value for key, value in told["log.steps"].items()}
    assert steps == {"queue": 2, "status": queue._store.status_head().step}
    waiting = {dict(key)["reason"]: value for key, value in told["waiting"].items()}
    assert waiting["paused"] == 6
    recent = {dict(key)["event"]: value for key, value in told["recent"].items()}
    assert recent == {
        "enqueued": 9,
        "acked": 1,
        "claimed": 3,
        "claimed again": 0,
        "failed": 1,
        "dead": 1,
        "lost": 0,
        "replaced": 0,
    }
    waits = [value for key, value in told["key.wait"].items() if dict(key)["quantile"] == "1"]
    assert waits == [10.0] * 3


def test_keys_beyond_the_first_are_told_together(queue: LocalQueue) -> None:
    """Those that a report names first by their names, the rest as one; no key has a name, too."""
    told = _by_name(samples(queue, keys=2))

    ready = {
        dict(key)["key"]: value
        for key, value in told["key.depth"].items()
        if dict(key)["state"] == "ready"
    }
    assert len(ready) == 3
    first = {tenant.fair_key or instruments.NO_KEY for tenant in queue.report().tenants[:2]}
    assert set(ready) == {*first, instruments.REST}
    assert sum(ready.values()) == 6
    assert {dict(key)["key"] for key in told["key.depth"]} == set(ready)
    assert sum(told["key.failures"].values()) == 1
    everyone = {dict(key)["key"] for key in _by_name(samples(queue))["key.depth"]}
    assert instruments.NO_KEY in everyone
    assert instruments.REST not in everyone
    with pytest.raises(InvalidArgumentError, match="keys is 0"):
        samples(queue, keys=0)


def test_what_flow_control_starts_and_keeps_back_is_told(
    queue_path: str, clock: ManualClock
) -> None:
    """Units of each rate that started in the window, and the items that each kind keeps back."""
    second = timedelta(seconds=1)
    config = QueueConfig(
        fair_key="t",
        limits=(Limit(by="t", default=2),),
        rates=(Rate(by="h", limit=3, per=second, burst=3, units="n"), Rate(limit=9, per=second)),
    )
    columns = "t string, h string, n int"
    queue = LocalQueue.create(queue_path, columns, config, durability="process", clock=clock)
    queue.enqueue([{"t": t, "h": h, "n": 3} for t, h in ("ax", "ay", "az", "bx", "by")])
    for _ in range(2):
        queue.claim(9)

    told = _by_name(samples(queue))

    kept = {dict(key)["reason"]: value for key, value in told["waiting"].items() if value}
    assert kept == {"key limit": 1, "over a rate": 2}
    assert {dict(key)["by"]: value for key, value in told["units_started"].items()} == {
        "h": 6,
        "": 2,
    }
    clock.advance(timedelta(hours=2))
    assert set(_by_name(samples(queue))["units_started"].values()) == {0}


def test_what_was_replaced_is_counted_where_it_is_shown(
    queue_path: str, clock: ManualClock, command_line: CommandLine
) -> None:
    """By upkeep, on the terminal and in a notebook, in a report, and in its metric."""
    config = QueueConfig(dedup_key="id", on_duplicate="replace")
    queue = LocalQueue.create(queue_path, "id string", config, durability="process", clock=clock)
    for _ in range(4):
        queue.enqueue({"id": "a"})
    assert "0 dead, 3 replaced" in queue.maintain()._repr_html_()
    assert sum(point.replaced for point in queue.report().retries) == 3
    recent = {dict(key)["event"]: n for key, n in _by_name(samples(queue))["recent"].items()}
    assert (recent["replaced"], recent["dead"]) == (3, 0)
    queue.enqueue({"id": "a"})
    said = command_line("maintain", queue_path, "--engine", "local").out
    assert "0 items died, 0 expired, 1 replaced" in said


def test_keys_that_are_called_as_ours_are_told_apart(queue_path: str, clock: ManualClock) -> None:
    """Whatever a key is called, no two samples have the same labels, which no file may have."""
    config = QueueConfig(fair_key="t")
    queue = LocalQueue.create(queue_path, "t string", config, durability="process", clock=clock)
    names = [None, "(none)", "\\(none)", "(rest)", "x"]
    queue.enqueue([{"t": name} for name in names for _ in range(2)])
    queue.enqueue({"t": "last"})

    for keys in (5, 20):
        found = samples(queue, keys=keys)

        named = [(one.metric, *sorted(one.labels.items())) for one in found]
        assert len(named) == len(set(named))
    told = {one.labels["key"] for one in found if one.metric is instruments.KEY_DEPTH}
    assert told == {"(none)", "\\(none)", "\\\\(none)", "\\(rest)", "x", "last"}


def test_each_reader_is_lines(queue_path: str, clock: ManualClock) -> None:
    """Its depth and lag are its own; one that reads a stream has a lag, and no states."""
    queue = LocalQueue.create(queue_path, "id string", durability="process", clock=clock)
    queue.enqueue([{"id": "a"}, {"id": "b"}])
    queue.reader("mail").claim(1).ack()
    queue.reader("audit", start="beginning")
    readers.register(queue._main, "stream", None, "beginning", streams=True)

    told = _by_name(samples(queue))

    assert told["lag"] == {
        (("reader", "mail"),): 1,
        (("reader", "audit"),): 2,
        (("reader", "stream"),): 2,
    }
    assert {dict(key)["reader"] for key in told["depth"]} == {"mail", "audit"}


def test_the_file_is_what_prometheus_reads(queue: LocalQueue, tmp_path: Path) -> None:
    """Each sample is in it once, with its labels escaped, and the old file gives way at once."""
    file = tmp_path / "queue.prom"
    file.write_text("old")
    found = samples(queue)

    assert metric_samples.write(found, file) == len(found)
    families = list(text_string_to_metric_families(file.read_text()))
    read = {
        (one.name, *sorted(one.labels.items())): one.value for f in families for one in f.samples
    }
    given = {(one.metric.prometheus, *sorted(one.labels.items())): one.value for one in found}
    assert read == given
    assert [path.name for path in tmp_path.iterdir() if path != file] in ([], ["queue"])
    assert file.stat().st_size > 1_000
    with pytest.raises(InvalidArgumentError, match=r"textfile is .*No such file"):
        metric_samples.write(found, tmp_path / "none" / "queue.prom")


def test_texts_that_differ_are_two_series(queue_path: str) -> None:
    """A control sign is escaped in a label, and no other text is taken for its escape."""
    tenants = ["\x1b", r"\x1b", "\\\x1b", r"\\x1b", r"a\b", "a\nb", r"a\nb"]
    queue = LocalQueue.create(queue_path, "t string", QueueConfig(fair_key="t"))
    queue.enqueue([{"t": tenant} for tenant in tenants for _ in range(3)])

    families = text_string_to_metric_families(metric_samples.text(samples(queue)))

    lines = [one for f in families for one in f.samples if one.labels.get("key")]
    told = {one.labels["key"]: one.value for one in lines}
    assert len(told) == len(tenants)
    assert {r"\x1b", r"a\b"} <= set(told)
    assert all(label.isprintable() for label in told)


def test_without_the_library_its_name_is_told(
    queue: LocalQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is to be installed stands in the error."""
    found = samples(queue)
    monkeypatch.setitem(__import__("sys").modules, "prometheus_client", None)

    with pytest.raises(SetupError, match=r"spark-queue\[prometheus\]"):
        metric_samples.text(found)


@pytest.fixture
def said(command_line: CommandLine) -> Callable[..., str]:
    """Run a command without Spark, and return what it prints."""

    def run(*argv: str) -> str:
        ended = command_line(*argv, "--engine", "local")
        assert not ended.code, ended.err
        return ended.out

    return run


def test_the_command_writes_or_prints(
    queue: LocalQueue, tmp_path: Path, said: Callable[..., str]
) -> None:
    """The same samples go to a file, to standard output, and into JSON."""
    file = tmp_path / "queue.prom"
    plain: list[dict[str, Any]] = json.loads(said("metrics", queue.name, "--json"))["samples"]
    count = len(plain)

    assert {"name", "labels", "value"} == set(plain[0])
    assert f"{count} samples written" in said("metrics", queue.name, "--textfile", str(file))
    assert 'spark_queue_depth{queue="' in file.read_text()
    two = said("metrics", queue.name, "--keys", "2", "--window", "1")
    assert "# TYPE spark_queue_depth gauge" in two
    assert f'key="{instruments.REST}"' in two


@pytest.fixture
def grouped(queue_path: str, clock: ManualClock) -> LocalQueue:
    """Make a queue of one group."""
    config = QueueConfig(group_key="g", lease=timedelta(minutes=1))
    made = LocalQueue.create(queue_path, "g string", config, durability="process", clock=clock)
    made.enqueue([{"g": "x"}] * 3)
    return made


def test_a_look_tells_since_when_nobody_works(grouped: LocalQueue, clock: ManualClock) -> None:
    """Of a queue that nobody ever claimed of, or finished an item of, the time counts, too."""

    def since(what: str) -> float | None:
        return _by_name(samples(grouped)).get(f"since_{what}", {}).get((("reader", ""),))

    clock.advance(timedelta(seconds=20))
    assert (since("claim"), since("ack")) == (20.0, None)
    claim = grouped.claim(1)
    clock.advance(timedelta(seconds=7))
    assert (since("claim"), since("ack")) == (7.0, 7.0)
    claim.ack()
    clock.advance(timedelta(seconds=30))
    grouped.claim(1)
    clock.advance(timedelta(seconds=70))
    assert (since("claim"), since("ack")) == (70.0, 100.0)


def test_a_look_tells_who_works_and_what_is_wrong(grouped: LocalQueue, clock: ManualClock) -> None:
    """Workers by whether they live, held groups, and findings, which are five minutes old."""
    looker = Looker(grouped)
    grouped.claim(1).ack()
    grouped.claim(1, worker_id="crew")
    clock.advance(timedelta(seconds=70))

    told = _by_name(looker.samples())
    workers = {dict(key)["state"]: value for key, value in told["workers"].items()}
    # The one that acked is this process, and lives.
    assert workers == {"alive": 1, "late": 1, "gone": 0, "ended": 0}
    assert told["held_groups"] == {(("reader", ""),): 1}
    grouped.pause()
    assert _by_name(looker.samples())["findings"][(("id", "paused"),)] == 0

    clock.advance(EXAMINED)

    findings = _by_name(looker.samples())["findings"]
    assert findings[(("id", "paused"),)] == findings[(("id", "leases-overdue"),)] == 1
    assert findings[(("id", "damaged"),)] == 0
    assert {dict(key)["id"] for key in findings} == set(CHECKS)
