"""What a log on an object store asks of the store, and what it makes of the answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from obstore.store import LocalStore

from spark_queue.errors import FileAccessError, QueueExistsError, SetupError
from spark_queue.log import maintenance
from spark_queue.log.heads import following
from tests.logs.logs import TestedLog, object_log, rows
from tests.logs.stores import ShakyStore


@pytest.fixture
def store() -> ShakyStore:
    """Return a store that answers everything."""
    return ShakyStore()


@pytest.fixture
def log(store: ShakyStore) -> TestedLog:
    """Return an empty log."""
    made = object_log(store)
    made.create()
    return made


def test_a_step_is_two_requests(log: TestedLog, store: ShakyStore) -> None:
    """One writes all rows, of whatever partitions, and one the commit."""
    head = log.add(1)
    store.asked.clear()
    assert log.append(following(head), rows(2))
    assert store.asked == {"PUT": 2}


def test_a_look_is_one_request(log: TestedLog, store: ShakyStore) -> None:
    """It asks for the commit that would come next."""
    log.add(1)
    version = log.version()
    store.asked.clear()
    assert log.version(version) == version
    assert store.asked == {"GET": 1}


def test_an_answer_that_is_lost_is_asked_for_again(log: TestedLog, store: ShakyStore) -> None:
    """The step is told once, and is there once, though its commit was sent twice."""
    head = following(log.head())
    store.fail_next("PUT q/status/_delta_log", _lose)
    assert log.append(head, rows(1))
    assert (
        len([name for name in store.names if name == f"PUT q/status/_delta_log/{1:020}.json"]) == 2
    )
    assert (log.open_again().head(), log.seqs()) == (head, [1])


def test_a_request_that_was_not_done_may_come_second(log: TestedLog, store: ShakyStore) -> None:
    """Another has the number when it is sent again: the step is lost, and its file goes later."""
    head, other = following(log.head()), log.open_again()

    def refuse(_: Callable[[], Any]) -> None:
        assert other.append(following(other.head()), rows(7))
        _fail()

    store.fail_next("PUT q/status/_delta_log", refuse)
    assert not log.append(head, rows(1))
    assert log.open_again().seqs() == [7]
    vars(log.rows_here._table())["interval"] = 1
    assert log.rows_here.sum_up()
    assert len([name for name in store.found() if "step-" in name]) == 1


def test_a_store_that_does_not_answer_is_named(
    log: TestedLog, store: ShakyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After minutes a step is given up, and what became of it is seen later."""
    monkeypatch.setattr("spark_queue.log.object.remote_storage._PATIENCE", 0.0)
    head = following(log.head())
    store.fail_next("PUT q/status/_delta_log", _lose)
    with pytest.raises(FileAccessError, match="timed out"):
        log.append(head, rows(1))
    assert log.open_again().head() == head
    assert log.add(2).step == 2


def test_a_store_that_writes_over_an_object_is_refused() -> None:
    """A queue is not made where two may have one number, and nothing stays of it."""

    class Overwriting(ShakyStore):
        def put(self, path: str, content: bytes, **_: Any) -> Any:
            return super().put(path, content)

    store = Overwriting()
    with pytest.raises(SetupError, match="If-None-Match"):
        object_log(store).create()
    assert not store.found()


def test_a_creation_that_was_cut_is_finished_with_the_same_columns(log: TestedLog) -> None:
    """One with other columns is refused: their maker may be under way."""
    log.open_again().create()
    with pytest.raises(QueueExistsError, match="other columns"):
        log.open_again().log.create('{"type":"struct","fields":[]}')
    assert log.add(1).step == 1


def test_a_follower_that_is_behind_asks_for_many_at_once(log: TestedLog, store: ShakyStore) -> None:
    """It waits for a few rounds of answers, not for one a commit; and for one when up to date."""
    other = log.open_again()
    assert other.head().step == 0
    for seq in range(1, 30):
        log.add(seq)
    store.delay, store.at_once = 0.02, 0
    assert other.version(other.log.newest(None)) == log.version()
    assert store.at_once > 1
    assert (other.head().step, other.seqs()) == (29, list(range(1, 30)))
    other.version()
    store.asked.clear()
    other.version()
    assert store.asked == {"GET": 1}


def test_a_log_is_read_from_its_checkpoint(log: TestedLog, store: ShakyStore) -> None:
    """One who opens it reads that, and the commits behind it; those before may be gone."""
    other = log.open_again()
    assert other.add(1).step == 1
    vars(log.rows_here._table())["interval"] = 20
    while not log.rows_here.sum_up():
        log.add(log.head().step + 1)
    head = log.add(100)

    store.remove(name for name in store.found() if name.endswith(f"{3:020}.json"))
    store.names.clear()
    again = log.open_again()
    assert (again.head(), again.seqs()) == (head, [*range(1, head.step), 100])
    assert f"GET q/status/_delta_log/{5:020}.json" not in store.names
    assert again.add(101).step == head.step + 1


def test_merged_files_stay_for_others(log: TestedLog) -> None:
    """Who looks back reads them, and all who look now find the same rows."""
    log.sum_up()
    known = log.seqs()
    assert sum(maintenance.merging(log.rows_here)) > 1
    assert (log.seqs(), log.open_again().seqs()) == (known, known)


def test_files_are_merged_beside_a_writer(log: TestedLog) -> None:
    """A merger that loses its number to a step takes the next one."""
    for seq in (1, 2, 3):
        log.add(seq)
    other, here = log.open_again(), log.rows_here
    old = [file for file in log.files() if file.gen == 0]
    add = here.written(0, here.rows_of(old, here.columns()))
    assert other.add(4).step == 4

    assert here.replace(old, [add], takes_away=False)
    assert log.seqs() == other.open_again().seqs() == [1, 2, 3, 4]
    assert other.add(5).step == 5


def test_a_step_that_loses_its_number_to_a_merger_takes_the_next(
    log: TestedLog, store: ShakyStore
) -> None:
    """Nobody has the step: to be lost to upkeep is not to be lost."""
    log.add(1)
    log.add(2)
    head, other = following(log.head()), log.open_again()

    def merge(ask: Callable[[], Any]) -> Any:
        assert sum(maintenance.merging(other.rows_here)) > 1
        return ask()

    store.fail_next("PUT q/status/_delta_log", merge)
    assert log.append(head, rows(3))
    assert (log.seqs(), log.open_again().head()) == ([1, 2, 3], head)


def test_other_programs_read_the_table_and_do_not_write_it(tmp_path: Path) -> None:
    """They are told the feature that they do not know; rows are where Delta looks for them."""
    log = object_log(LocalStore(tmp_path))
    log.create()
    log.add(1, 2)
    table = tmp_path / "q" / "status"

    found = DeltaTable(table).to_pyarrow_table()
    assert sorted(seq for seq in found["_seq"].to_pylist() if seq is not None) == [1, 2]
    with pytest.raises(DeltaError, match="sparkQueueConditionalCommits"):
        write_deltalake(table, found, mode="append")
    assert log.add(3).step == 2


def _lose(ask: Callable[[], Any]) -> None:
    ask()
    _fail()


def _fail() -> None:
    raise TimeoutError("operation timed out")
