"""What a change would be about is told before it is made, and nothing is written for that."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from spark_queue.clock import ManualClock
from spark_queue.commands import readers
from spark_queue.errors import InvalidArgumentError
from spark_queue.local_queue import LocalQueue
from spark_queue.metrics.metric_samples import samples
from spark_queue.report.reading import open_report
from spark_queue.results import Affected
from spark_queue.state import catch_up
from tests.conftest import CommandLine
from tests.unit.local.conftest import Make


@pytest.fixture
def mixed(make: Make, clock: ManualClock) -> LocalQueue:
    """Make a queue with two items that wait, one in flight, one dead, one cancelled, one acked."""
    queue = make("id string, t string", max_losses=1)
    queue.enqueue([{"id": name, "t": "x"} for name in "abcd"])
    queue.claim(2).settle_each({1: ("dead", "bad"), 2: "ack"})
    queue.cancel({"id": "d"})
    queue.enqueue([{"id": "e", "t": "y", "expires_at": clock.now() + timedelta(seconds=9)}])
    queue.enqueue([{"id": "f", "t": "y"}])
    queue.claim(1)
    return queue


def _files(path: str) -> set[Path]:
    return set(Path(path).rglob("*"))


def _seqs(found: Affected) -> list[object]:
    return [row["_seq"] for row in found.sample]


def test_each_verb_tells_what_it_would_end(
    mixed: LocalQueue, queue_path: str, clock: ManualClock
) -> None:
    """By state, with what becomes of it and the first items; the queue stays as it is."""
    before = mixed.counts(), _files(queue_path)

    cancelled = mixed.cancel("t IN ('x', 'y')", dry_run=True)
    redriven = mixed.redrive("true", dry_run=True)
    purged = mixed.purge("t = 'x'", dry_run=True)
    dropped = LocalQueue.drop(mixed.name, dry_run=True)

    assert cancelled == 3
    assert (cancelled.states, cancelled.becomes) == ({"claimed": 1, "ready": 2}, {"cancelled": 3})
    assert _seqs(cancelled) == [3, 5, 6]
    assert cancelled.sample[0] == {
        "id": "c",
        "t": "x",
        "_seq": 3,
        "_state": "claimed",
        "_attempts": 0,
        "_error": None,
    }
    assert (redriven.states, redriven.becomes) == ({"cancelled": 1, "dead": 1}, {"ready": 2})
    assert redriven.sample[0]["_error"] == "bad"
    assert (purged.states, _seqs(purged)) == ({"acked": 1, "cancelled": 1, "dead": 1}, [1, 2, 4])
    assert dropped is not None
    assert (dropped, dropped.becomes, len(dropped.sample)) == (6, {"gone": 6}, 5)
    clock.advance(mixed.config.lease)
    ended = mixed.maintain(dry_run=True)
    assert (ended.becomes, ended.states) == ({"expired": 1, "dead": 1}, {"ready": 1, "claimed": 1})
    assert (mixed.counts(), _files(queue_path)) == before


def test_upkeep_does_what_it_foretold(mixed: LocalQueue, clock: ManualClock) -> None:
    """What is dropped after a retention is what the dry run counted, generations and all."""
    mixed.maintain()
    clock.advance(mixed.config.lease)
    assert mixed.maintain(dry_run=True).becomes == {"dead": 1, "expired": 1}
    mixed.claim(1).ack()
    mixed.maintain()
    day = timedelta(days=1)
    clock.advance(2 * day)

    foretold = mixed.maintain(retention=day, dry_run=True)

    assert foretold.becomes == {"gone": 6}
    assert mixed.maintain(retention=day).dropped_items == 6
    assert mixed.maintain(retention=day, dry_run=True) == 0


def test_what_a_verb_did_knows_its_step(mixed: LocalQueue) -> None:
    """That of the status log, which can be taken back; 0 where there was nothing to do there."""
    step = mixed.pause()

    assert mixed.cancel("id = 'f'").step == step + 1
    assert mixed.cancel("id = 'f'").step == 0
    redriven = mixed.redrive("id = 'f'")
    assert (redriven, redriven.step) == (1, 0)


def test_commands_show_it(mixed: LocalQueue, queue_path: str, command_line: CommandLine) -> None:
    """As tables, without Spark; what would be left is not asked about."""
    mixed.reader("mail")
    mixed.reader("audit")
    for argv in (
        ("drop",),
        ("drop-reader", "audit"),
        ("maintain", "--retention", "60"),
        ("cancel", "--where", "t = 'y'", "--reader", "mail"),
    ):
        ended = command_line(argv[0], queue_path, *argv[1:], "--dry-run", "--engine", "local")
        assert ended.code == 0
        said = ended.out
        assert re.search(r"items? would be", said), argv
    assert "2 items would be cancelled" in said
    assert "t=y" in said
    assert mixed.readers() == ("mail", "audit")


@pytest.fixture
def bereft(make: Make, again: Callable[[], LocalQueue]) -> LocalQueue:
    """Return a queue with three items that one reader has acked; the log of another is gone."""
    queue = make("id string")
    queue.enqueue([{"id": name} for name in "abc"])
    queue.reader("mail").claim(3).ack()
    queue.reader("audit", start="beginning")
    shutil.rmtree(Path(queue.name) / "reader_1")
    catch_up.forget(queue._main.handle.place.identity())
    return again()


def test_a_look_makes_no_log(bereft: LocalQueue, queue_path: str) -> None:
    """What has none, after a crash or a deletion, is told of as it is: done with nothing."""
    before = _files(queue_path)
    day = timedelta(days=1)

    gone = bereft.drop_reader("audit", dry_run=True)
    told = {
        (sample.metric.name, sample.labels["reader"]): sample.value
        for sample in samples(bereft)
        if "reader" in sample.labels
    }
    bereft.reader("mail")
    with pytest.raises(InvalidArgumentError, match="reader is 'audit': it has no log"):
        open_report(queue_path, reader="audit")

    assert gone == 3
    assert told["spark_queue.lag", "audit"] == 3
    assert told["spark_queue.lag", "mail"] == 0
    assert bereft.purge("true", dry_run=True) == 0
    assert bereft.maintain(retention=day, dry_run=True) == 0
    assert LocalQueue.drop(queue_path, dry_run=True) == 3
    assert _files(queue_path) == before


def test_a_purge_keeps_what_a_reader_without_a_log_needs(bereft: LocalQueue) -> None:
    """It makes the log, as every command does, and takes nothing that was not read by it."""
    assert bereft.purge("true") == 0
    assert bereft.reader("audit").claim(3).count == 3


def test_a_stream_is_told_of_without_a_log(mixed: LocalQueue, queue_path: str) -> None:
    """What it forgets when it is dropped is counted from where it said to be."""
    readers.register(mixed._main, "stream", None, "beginning", streams=True)
    before = _files(queue_path)

    assert mixed.drop_reader("stream", dry_run=True) == 6
    assert _files(queue_path) == before


def test_what_was_purged_is_in_no_count(mixed: LocalQueue) -> None:
    """Counts, statistics and status say the same of what is there, for each reader."""
    work, audit = mixed.reader("work"), mixed.reader("audit", start="beginning")
    audit.claim(9).ack()
    assert mixed.purge("t = 'x'") == 3
    for one in (work, audit):
        counts, stats = one.counts(), one.stats()
        states = one.status()["_state"].to_pylist()
        for state in ("ready", "claimed", "acked", "dead", "expired", "cancelled"):
            assert counts[state] == getattr(stats, state) == states.count(state)


def test_a_dry_redrive_says_whose_key_is_taken(make: Make) -> None:
    """Of several dead of a key the oldest would come back, and none whose key another holds."""
    queue = make("id string, n int", dedup_key="id")
    for n in range(2):
        queue.enqueue([{"id": name, "n": n} for name in "abc"])
        queue.claim(9).dead("no")
    queue.enqueue([{"id": "c", "n": 9}])
    foreseen = queue.redrive("true", dry_run=True)
    assert (foreseen, foreseen.becomes) == (2, {"ready": 2, "refused": 4})
    assert foreseen.states == {"dead": 6}
    done = queue.redrive("true")
    assert (done, done.becomes) == (foreseen, foreseen.becomes)
    ready = queue.status().filter(pc.field("_state") == "ready")
    assert ready.select(["id", "n"]).to_pylist() == [
        {"id": "c", "n": 9},
        {"id": "a", "n": 0},
        {"id": "b", "n": 0},
    ]


def test_upkeep_of_many_lost_items_is_foretold(make: Make, clock: ManualClock) -> None:
    """How many there are is no matter: they are meant by a table, and not by a text."""
    queue = make("id long", max_losses=1)
    queue.enqueue(pa.table({"id": range(20_000)}))
    queue.claim(20_000)
    clock.advance(queue.config.lease)
    assert queue.maintain(dry_run=True).becomes == {"dead": 20_000}
