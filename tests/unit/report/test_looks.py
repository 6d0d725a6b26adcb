"""What is kept from one look at a queue to the next."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_queue.clock import ManualClock
from spark_queue.local_queue import LocalQueue, LocalVerbs
from spark_queue.log.delta.commits import LogFile
from spark_queue.log.delta_log import DeltaLog
from spark_queue.queue_views import store_of
from spark_queue.reader_config import ReaderConfig
from spark_queue.report import following, reading
from spark_queue.retry_policy import RetryPolicy
from spark_queue.sql import database
from spark_queue.views import file_source
from tests.programs import run_python
from tests.unit.local.forked import in_child
from tests.unit.report.conftest import Make

_MINUTE = timedelta(minutes=1)


def _rows(first: int, count: int) -> list[dict[str, str]]:
    numbers = range(first, first + count)
    return [{"id": f"{n}", "tenant": f"t{n % 3}", "path": f"p{n % 4}"} for n in numbers]


def _enters(queue: LocalQueue) -> None:
    queue.enqueue(_rows(100, 2))


def _holds(queue: LocalQueue) -> None:
    queue.claim(3, worker_id="w")


def _fails(queue: LocalVerbs) -> None:
    queue.claim(2, worker_id="v").nack("ValueError: row 7 of /data/7.csv")


def _renews(queue: LocalVerbs) -> None:
    queue.claim(2, worker_id="u").renew(3 * _MINUTE)


def _acks(queue: LocalVerbs) -> None:
    queue.claim(2, worker_id="w").ack()


def _dies(queue: LocalQueue) -> None:
    queue.claim(1, worker_id="w").dead("KeyError: 'a'")


def _redrives(queue: LocalQueue) -> None:
    queue.redrive("_state = 'dead'")


def _cancels(queue: LocalQueue) -> None:
    queue.cancel("tenant = 't2'")


def _tidies(queue: LocalQueue) -> None:
    queue.maintain()


def _pauses(queue: LocalQueue) -> None:
    queue.pause()


def _resumes(queue: LocalQueue) -> None:
    queue.resume()


def _configures(queue: LocalQueue) -> None:
    queue.configure(max_in_flight=4)


#: What may happen between two looks.
_STEPS: tuple[Callable[[LocalQueue], None], ...] = (
    *(_enters, _fails, _holds, _acks, _dies, _redrives, _fails, _tidies, _enters, _cancels),
    *(_pauses, _acks, _resumes, _configures, _fails, _holds, _renews),
)


@pytest.fixture
def queue(make: Make) -> LocalQueue:
    """Make a queue with some items."""
    made = make(
        fair_key="tenant",
        group_key="path",
        on_failure="skip",
        retry=RetryPolicy(delay=timedelta(seconds=90)),
    )
    made.enqueue(_rows(0, 40))
    return made


def test_a_look_says_the_same_as_a_report_that_is_read_anew(
    queue: LocalQueue, clock: ManualClock
) -> None:
    """Whatever has happened since the last look, nothing of what was kept is out of date."""
    look = following.follow(store_of(queue))
    look()
    for step in _STEPS:
        step(queue)
        clock.advance(_MINUTE)

        assert look() == reading.read(store_of(queue))
        assert look.item(5) == reading.read_item(store_of(queue), 5)


def test_looks_by_readers_of_one_queue_do_not_mix(queue: LocalQueue, clock: ManualClock) -> None:
    """What is kept of a reader is its own, as are the ends of its items."""
    limits = ReaderConfig(max_age=timedelta(seconds=150))
    first, other = queue.reader("first"), queue.reader("other", start="beginning", config=limits)
    looks = [following.follow(store_of(one)) for one in (first, other)]
    for step in (lambda _: _enters(queue), _fails, _acks):
        step(first)
        step(other)
        clock.advance(_MINUTE)

        for one, look in zip((first, other), looks, strict=True):
            assert look() == reading.read(store_of(one))


def test_what_did_not_change_is_not_worked_out_again(
    queue: LocalQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a queue to which little happens an engine is made once."""
    made = 0
    real = file_source.FileSource._look

    def counted(looks: file_source.FileSource, *args: Any) -> file_source.KeptLook:
        nonlocal made
        before = {*looks._looks.values()}
        found = real(looks, *args)
        made += found not in before
        return found

    monkeypatch.setattr(file_source.FileSource, "_look", counted)
    look = following.follow(store_of(queue))
    for step in (_enters, _fails, _holds):
        step(queue)
        look()

    assert made == 1


def test_databases_share_no_place_for_what_they_spill(tmp_path: Path) -> None:
    """Each has a directory of its own, of a name that nobody guesses, and it is gone at the end."""
    program = (
        "import os, tempfile; from spark_queue.sql import database\n"
        "start = lambda spilled: database.connect(spilled, ())\n"
        "made = [database.OneDatabase(start).connect() for _ in range(2)]\n"
        "print(len(os.listdir(tempfile.gettempdir())))"
    )
    ended = run_python("-c", program, env={**os.environ, "TMPDIR": str(tmp_path)}, check=True)
    assert ended.stdout.strip() == "2"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_of_a_fork_leaves_its_parent_what_it_spilled(
    queue: LocalQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look that the child forgets is still the parent's, with its directory."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    start = partial(database.connect, statements=database.AS_SPARK)
    monkeypatch.setattr(database, "_ONE", database.OneDatabase(start))
    looks = [following.follow(store_of(queue))]
    seen = looks[0]()

    assert in_child(looks.clear) == "ok"
    assert len(list(tmp_path.iterdir())) == 1
    assert looks[0]() == seen


def test_whoever_looks_as_several_readers_reads_each_file_once(
    queue: LocalQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The item log is kept once for all readers, and of a reader that is dropped nothing is."""
    queue.reader("first")
    stores = [store_of(queue), store_of(queue.reader("other", start="beginning"))]
    kept = file_source.FileSource()
    looks = [following.follow(store, source=kept) for store in stores]
    read: list[str] = []
    real = DeltaLog.rows_of

    def counted(log: DeltaLog[Any], files: list[LogFile], columns: list[str]) -> pa.Table:
        if "_seq" in columns:
            read.extend(file.path for file in files)
        return real(log, files, columns)

    monkeypatch.setattr(DeltaLog, "rows_of", counted)
    for look in looks:
        look()
    assert len(read) == len(set(read))

    queue.drop_reader("other")
    looks[0]()
    assert set(kept._looks) == {0}
