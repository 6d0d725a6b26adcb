"""Queues of every format, without Spark: they open, work and are upgraded, or are refused."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_queue import Limit, LocalQueue
from spark_queue.clock import ManualClock
from spark_queue.commands import admin
from spark_queue.errors import (
    FormatVersionError,
    InvalidConfigError,
    LogDamagedError,
    QueueExistsError,
    SchemaMismatchError,
)
from spark_queue.log import delta_log, heads
from spark_queue.log.schema import FORMAT_VERSION, LIMITED, TRACE
from spark_queue.log.step_events import StepFacts
from tests.conftest import CommandLine
from tests.unit.local.conftest import Make

DATA = Path(__file__).parents[2] / "data"

#: The column that came last.
LIMIT = "_max_attempts"

#: Each format that a release has written before this one's.
OLDER = range(1, FORMAT_VERSION)

Opened = Callable[[int, str], LocalQueue]


@pytest.fixture
def golden(place: str, clock: ManualClock) -> Opened:
    """Unpack a queue of a format (see ``tests/data/make_golden.py``), and open it."""

    def opened(version: int, name: str) -> LocalQueue:
        with zipfile.ZipFile(DATA / f"queues-of-format-{version}.zip") as packed:
            packed.extractall(place)
        return LocalQueue.open(Path(place) / name, durability="process", clock=clock)

    return opened


def _format(queue: LocalQueue) -> int:
    store = queue._store
    return store.settings(store.status_head()).format


def _works(queue: LocalQueue, clock: ManualClock) -> None:
    """Go on with the texts of a golden queue: an item of each state, a claim that is out."""
    stats = queue.stats()
    assert (stats.ready, stats.claimed, stats.acked, stats.dead, stats.cancelled) == (1, 1, 1, 1, 1)
    rows = [("a3", "ann", "y"), ("a1", "ann", "x"), ("b1", "bob", "z")]
    done = queue.enqueue(
        [dict(zip(("path", "tenant", "folder"), row, strict=True)) for row in rows]
    )
    assert (done.inserted, done.duplicates) == (1, 2)
    clock.advance(timedelta(hours=1))
    with queue.claim(10) as claim:
        assert sorted(row["path"] for row in claim.rows) == ["a1", "a3", "b1"]
    assert queue.redrive({"path": "a2"}) == 1
    assert queue.stats().acked == 4


@pytest.mark.parametrize("version", OLDER)
def test_a_dry_run_says_what_an_upgrade_would_do(
    golden: Opened, version: int, command_line: CommandLine
) -> None:
    """The formats are told, in the library and by the command; nothing is written."""
    queue = golden(version, "strings")
    files = sorted(Path(queue.name).rglob("*"))

    told = queue.upgrade(dry_run=True)
    ended = command_line("upgrade", queue.name, "--dry-run")

    assert not ended.code
    assert (told.step, told.was, told.now) == (0, version, FORMAT_VERSION)
    assert ended.out == f"format {version} would become {FORMAT_VERSION}; nothing was written\n"
    assert _format(queue) == version
    assert sorted(Path(queue.name).rglob("*")) == files
    queue.upgrade()
    assert queue.upgrade(dry_run=True).was == FORMAT_VERSION


@pytest.mark.parametrize("version", OLDER)
@pytest.mark.parametrize("upgraded", [False, True])
def test_an_older_queue_goes_on(
    golden: Opened, clock: ManualClock, version: int, *, upgraded: bool
) -> None:
    """Items, states, claims, keys and weights of an older format stay, upgraded or as they are."""
    queue = golden(version, "strings")

    if upgraded:
        assert queue.upgrade().was == version
    assert _format(queue) == (FORMAT_VERSION if upgraded else version)
    assert (LIMIT in queue._store.columns()) is (upgraded or version >= LIMITED)
    assert queue.config.weights == {"ann": 2.0}
    _works(queue, clock)
    assert _format(queue) == (FORMAT_VERSION if upgraded else version)


@pytest.mark.parametrize("version", OLDER)
def test_an_upgraded_queue_takes_limits_that_rule_its_backlog(
    golden: Opened, clock: ManualClock, version: int
) -> None:
    """By the fair key, whose text each item has; any other key its items have not stored."""
    queue = golden(version, "strings")
    limits = (Limit(by="tenant", default=0),)

    with pytest.raises(InvalidConfigError, match=r"limits.*format 6.*upgrade it"):
        queue.configure(limits=limits)
    queue.upgrade()
    with pytest.raises(InvalidConfigError, match="limits by 'path'"):
        queue.configure(limits=(Limit(by="path", default=1),))
    queue.configure(limits=limits)
    clock.advance(timedelta(days=1))
    lapsed = {row["_seq"] for row in queue.claim(9).rows}
    waiting = [seq for seq in range(1, 8) if queue.explain(seq).reason == "key limit"]
    assert (len(lapsed), len(waiting)) == (1, queue.counts()["ready"])
    queue.configure(limits=(Limit(by="tenant"),))
    assert {row["_seq"] for row in queue.claim(9).rows} == set(waiting)


def test_a_queue_that_was_made_without_spark_goes_on(golden: Opened, clock: ManualClock) -> None:
    """A named claim, a failed item that waits, and a dead letter of the format before are there."""
    queue = golden(2, "plain")

    queue.upgrade()
    assert queue.claim(1, claim_id="held").rows[0]["path"] == "b1"
    assert [row["_error"] for row in queue.dead().to_pylist()] == ["no such file"]
    assert queue.explain(2).reason == "held by group"
    clock.advance(timedelta(minutes=1))
    assert [row["path"] for row in queue.claim(5).rows] == ["a1"]


def test_an_upgrade_is_a_step_that_is_told_and_is_made_once(
    golden: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    """The format is a row of the log, each reader's log has it, and to repeat it writes nothing."""
    queue = golden(2, "readers")
    told: list[StepFacts] = []
    queue._main.handle.listener = told.append

    with caplog.at_level("INFO", "spark_queue"):
        done = queue.upgrade()
    heads_after = [queue.reader(name)._store.status_head() for name in ("first", "second")]

    assert (done.was, done.now) == (2, FORMAT_VERSION)
    assert [facts.action for facts in told] == ["upgrade", "upgrade"]
    assert f"upgrade status step {done.step}" in caplog.text
    assert [head.config_step for head in heads_after] == [head.step for head in heads_after]
    assert queue.reader("second")._store.settings(heads_after[1]).format == FORMAT_VERSION
    assert queue.upgrade() == replace(done, step=0, was=FORMAT_VERSION)
    assert len(told) == 2


def test_an_upgrade_that_was_cut_short_goes_on(
    golden: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the format is logged and the tables are old, the queue works until it is mended."""
    queue = golden(2, "strings")
    with monkeypatch.context() as cut:
        cut.setattr(delta_log.DeltaLog, "add_columns", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            queue.upgrade()

    told = queue.upgrade(dry_run=True)
    assert (told.was, told.now) == (2, FORMAT_VERSION)
    assert "format-older" in queue.doctor().ids()
    assert queue.enqueue({"path": "n", "tenant": "t", "folder": "f"}).inserted == 1
    assert queue.upgrade().was == 2
    assert queue.upgrade().was == FORMAT_VERSION
    assert LIMIT in queue._store.columns()
    assert queue.enqueue({"path": "m", "tenant": "t", "folder": "f"}).inserted == 1


def test_of_two_upgrades_at_once_neither_fails(
    golden: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is told that the column is there, by another's upgrade, has what it wanted."""
    add = delta_log.DeltaLog.add_columns

    def second(log: delta_log.DeltaLog[Any], fields: Sequence[Mapping[str, Any]]) -> None:
        add(log, fields)
        raise ValueError("the column exists")

    queue = golden(2, "strings")
    monkeypatch.setattr(delta_log.DeltaLog, "add_columns", second)

    assert queue.upgrade().now == FORMAT_VERSION
    assert LIMIT in queue._store.columns()


@pytest.mark.parametrize("version", range(1, LIMITED))
def test_an_input_that_came_later_is_refused_until_the_upgrade(
    golden: Opened, clock: ManualClock, version: int
) -> None:
    """It is named with the way out, and nothing is written; then each reader judges by it."""
    queue = golden(version, "readers")
    step = queue._main.queue_head().step

    with pytest.raises(SchemaMismatchError, match=r"max_attempts.*format 4.*upgrade it"):
        queue.enqueue({"path": "d", "max_attempts": 1})
    assert queue._main.queue_head().step == step
    assert queue.enqueue({"path": "d"}).inserted == 1
    queue.upgrade()
    assert queue.enqueue({"path": "e", "max_attempts": 1}).inserted == 1
    clock.advance(timedelta(hours=1))
    for name in queue.readers():
        reader = queue.open_reader(name)
        reader.claim(10).nack("no")
        assert [row["path"] for row in reader.dead().to_pylist()] == ["e"]


@pytest.mark.parametrize(("name", "key"), [("times", "dedup_key 'at'"), ("structs", "struct")])
def test_a_text_that_was_not_safe_is_not_upgraded(golden: Opened, name: str, key: str) -> None:
    """A queue of format 1 whose keys had other texts stays what it is, and the error says why."""
    queue = golden(1, name)
    step = queue._store.status_head().step

    with pytest.raises(FormatVersionError, match=f"format version 1.*{key}.*into a new one"):
        queue.upgrade()
    assert queue._store.status_head().step == step
    assert queue.claim(1).ack().acked == 1


def test_a_queue_of_this_format_has_its_column(make: Make) -> None:
    """A new queue is of the newest format, and there is nothing to upgrade."""
    queue = make()

    assert _format(queue) == FORMAT_VERSION
    assert TRACE in queue._store.columns()
    assert LIMIT in queue._store.columns()
    assert queue.upgrade().step == 0


def _newer(queue: LocalQueue) -> None:
    """Do what a later release will do: log a format that is not known here."""
    admin.configure(queue._main, lambda old, _: replace(old, format=FORMAT_VERSION + 1))
    # Another process did it: this one has not read what it wrote.
    queue._main.position().settings.clear()


_NEWER = rf"format version {FORMAT_VERSION + 1}, this release reads up to {FORMAT_VERSION}"


def test_a_newer_format_is_refused_by_name_at_every_door(
    make: Make, queue_path: str, clock: ManualClock, command_line: CommandLine
) -> None:
    """Opened anew or open already, by verb or by command: refused, and nothing is written."""
    queue = make()
    queue.enqueue([{"id": "a"}, {"id": "b"}])
    queue.reader("mail")
    claim = queue.claim(1)
    _newer(queue)
    versions = sorted(str(path) for path in Path(queue_path).rglob("_delta_log/*.json"))

    doors: list[Callable[[], Any]] = [
        lambda: LocalQueue.open(queue_path, clock=clock),
        lambda: queue.enqueue({"id": "c"}),
        lambda: queue.claim(1),
        claim.ack,
        claim.renew,
        lambda: queue.cancel({"id": "b"}),
        lambda: queue.configure(max_attempts=2),
        queue.pause,
        queue.upgrade,
        queue.maintain,
        lambda: queue.reader("audit"),
        lambda: queue.process(lambda _: None),
        queue.stats,
        lambda: LocalQueue.drop(queue.name),
    ]
    for door in doors:
        with pytest.raises(FormatVersionError, match=_NEWER):
            door()
    for command in (["status"], ["pause"], ["upgrade"], ["maintain"], ["drop", "--yes"]):
        ended = command_line(command[0], queue_path, *command[1:], "--engine", "local")
        assert ended.code, command
        assert f"format version {FORMAT_VERSION + 1}" in ended.err
    assert sorted(str(path) for path in Path(queue_path).rglob("_delta_log/*.json")) == versions


def _with_more(queue: LocalQueue, log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a step whose head has more in it than this release writes."""
    kind, to_json = heads.QueueHead if log == "queue" else heads.StatusHead, heads.to_json

    def more(head: Any) -> str:
        text = to_json(head)
        return json.dumps({**json.loads(text), "more": 1}) if isinstance(head, kind) else text

    with monkeypatch.context() as later:
        later.setattr(heads, "to_json", more)
        for module in ("log.settings", "state.store"):
            later.setattr(f"spark_queue.{module}.FORMAT_VERSION", FORMAT_VERSION + 1)
        queue.enqueue({"id": "a"}) if log == "queue" else queue.pause()
    queue.close()


@pytest.mark.parametrize("log", ["queue", "status"])
def test_a_head_with_more_in_it_is_of_a_newer_release(
    make: Make, queue_path: str, monkeypatch: pytest.MonkeyPatch, log: str
) -> None:
    """What a later release writes into its heads is no accident here: its format is named."""
    queue = make()
    _newer(queue)
    _with_more(queue, log, monkeypatch)

    with pytest.raises(FormatVersionError, match=_NEWER):
        LocalQueue.open(queue_path)
    with pytest.raises(QueueExistsError):
        LocalQueue.create(queue_path, "id string")


def test_a_head_with_more_in_it_of_this_format_is_damaged(
    make: Make, queue_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no newer release is known to have written, nobody is told to upgrade."""
    queue = make()
    _with_more(queue, "status", monkeypatch)

    with pytest.raises(LogDamagedError, match=r"newest head cannot be read.*'more'"):
        LocalQueue.open(queue_path)
