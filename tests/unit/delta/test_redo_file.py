"""Steps that a power cut takes from their own files, and that the redo file has."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from spark_queue import LocalQueue, QueueConfig
from spark_queue.log.disk import disk_storage, redo_file
from spark_queue.log.disk.redo_file import REDO_FILE, RedoFile


@pytest.fixture
def queue(tmp_path: Path) -> LocalQueue:
    """Return a queue with three steps in its item log, and a claim."""
    queue = LocalQueue.create(tmp_path / "queue", "id string", QueueConfig(dedup_key="id"))
    for name in "abc":
        queue.enqueue({"id": name})
    queue.claim(1)
    return queue


def _cut_power(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redo_file, "boot", lambda: "after the cut")


def _commit(queue: LocalQueue, version: int) -> Path:
    return Path(queue.name, "queue", "_delta_log", f"{version:020}.json")


def _rows_of(commit: Path) -> list[Path]:
    table = commit.parents[1]
    adds = [line for line in commit.read_text().splitlines() if line.startswith('{"add"')]
    return [table / one.split('"path":"')[1].split('"')[0] for one in adds]


#: What a power cut leaves of the newest step, by its commit and the files that it names.
_LEFT: dict[str, Callable[[Path, list[Path]], object]] = {
    "no commit": lambda commit, _: commit.rename(commit.with_suffix(".gone")),
    "an empty commit": lambda commit, _: commit.write_text(""),
    "a torn commit": lambda commit, _: commit.write_bytes(commit.read_bytes()[:-9]),
    "no rows": lambda _, files: [file.rename(file.with_suffix(".gone")) for file in files],
    "zeros": lambda _, files: [file.write_bytes(bytes(file.stat().st_size)) for file in files],
    "no directory": lambda _, files: shutil.rmtree(files[0].parent),
}


@pytest.mark.parametrize("left", _LEFT)
def test_what_a_power_cut_takes_is_made_again(
    queue: LocalQueue, left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who opens the queue has every step, and so has every other reader from then on."""
    commit = _commit(queue, 3)
    _LEFT[left](commit, _rows_of(commit))
    _cut_power(monkeypatch)

    again = LocalQueue.open(queue.name)
    rows = DeltaTable(str(commit.parents[1])).to_pyarrow_table()
    assert sorted(filter(None, rows["id"].to_pylist())) == ["a", "b", "c"]
    assert again.counts()["ready"] == 2
    assert again.counts()["claimed"] == 1
    assert (commit.parents[1] / REDO_FILE).stat().st_size == 0


def test_all_logs_of_a_queue_are_restored_when_it_is_opened(
    queue: LocalQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one of a reader that nobody has asked for yet."""
    queue.reader("first")
    queue.reader("second", start="beginning").claim(1)
    log = Path(queue.name, "reader_1", "_delta_log")
    newest = max(log.glob("*.json"))
    newest.write_text("")
    _cut_power(monkeypatch)
    LocalQueue.open(queue.name)
    assert newest.read_text()


def test_nothing_is_looked_at_where_the_system_has_run_on(queue: LocalQueue) -> None:
    """What is missing then was taken by another hand, and is named."""
    _commit(queue, 3).unlink()
    RedoFile(Path(queue.name, "queue")).restore()
    assert not _commit(queue, 3).exists()


def test_a_step_of_another_writer_stays_in_its_place(
    queue: LocalQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer who was killed before its commit had a name has lost the version."""
    table = Path(queue.name, "queue")
    _commit(queue, 3).rename(theirs := _commit(queue, 4))
    RedoFile(table).append(4, b'{"commitInfo":{}}\n', [])
    _cut_power(monkeypatch)
    RedoFile(table).restore()
    assert theirs.read_bytes() == _commit(queue, 3).read_bytes()


def test_a_torn_record_ends_the_file(queue: LocalQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """The step that was under way is gone, as nobody was told of it; those before it are there."""
    table = Path(queue.name, "queue")
    whole = (table / REDO_FILE).read_bytes().rstrip(b"\0")
    (table / REDO_FILE).write_bytes(whole[:-20])
    for version in (2, 3):
        _commit(queue, version).unlink()
    _cut_power(monkeypatch)
    RedoFile(table).restore()
    assert _commit(queue, 2).exists()
    assert not _commit(queue, 3).exists()


def test_two_processes_write_one_file_by_turns(queue: LocalQueue) -> None:
    """Each finds the end, also after the other has emptied it, and knows the other's steps."""
    table = Path(queue.name, "queue")
    one, other = RedoFile(table), RedoFile(table)
    known = set(one.commits())
    assert known >= {2, 3}
    assert other.append(7, b"{}\n", [])
    assert one.append(8, b"{}\n", [])
    assert other.commits().keys() == known | {7, 8}
    one.take_back()
    assert RedoFile(table).commits().keys() == known | {7}
    one.empty()
    assert other.append(9, b"{}\n", [])
    assert one.commits().keys() == {9}


def test_a_full_file_is_emptied_by_upkeep(
    queue: LocalQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then steps are forced where they belong; what was in it lies there, too."""
    redo = Path(queue.name, "queue", REDO_FILE)
    before = redo.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(redo_file, "_MOST", 0)
        queue.enqueue({"id": "d"})
    assert redo.read_bytes() == before
    monkeypatch.setattr(disk_storage, "ENOUGH", 1)
    queue.maintain()
    assert redo.stat().st_size == 0
    queue.enqueue({"id": "e"})
    _commit(queue, 5).unlink()
    _cut_power(monkeypatch)
    assert LocalQueue.open(queue.name).counts()["ready"] == 4


def test_rows_that_are_taken_out_have_no_copy(queue: LocalQueue) -> None:
    """A purge leaves them in no file that is kept for a power cut."""
    queue.enqueue({"id": "private"})
    redo = Path(queue.name, "queue", REDO_FILE)
    assert b"private" in redo.read_bytes()
    queue.claim(10).ack()
    # A process that forces nothing itself does not leave it to others.
    LocalQueue.open(queue.name, durability="process").purge({"id": "private"})
    assert b"private" not in redo.read_bytes()
