"""Steps that a power cut takes from their own files, and that the redo file has."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from deltalake import DeltaTable

from spark_queue import FileAccessError, LocalQueue, QueueConfig
from spark_queue.log.delta_log import DeltaLog
from spark_queue.log.disk import disk_storage, redo_file
from spark_queue.log.disk.redo_file import REDO_FILE, RedoFile
from spark_queue.log.maintenance import sweep_replaced


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


def test_a_step_that_was_taken_back_is_not_made_again(
    queue: LocalQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that fails, or a name that cannot be given, leaves nothing that counts as safe."""
    table = Path(queue.name, "queue")
    redo = RedoFile(table)
    forced: list[bytes] = []
    known = redo.commits().keys()
    real = vars(redo_file)["_force"]

    def force(file: int) -> None:
        forced.append(os.pread(file, 2**20, 0))
        if len(forced) == 1:
            raise OSError(errno.EIO, "Input/output error")
        real(file)

    monkeypatch.setattr(redo_file, "_force", force)
    assert not redo.append(4, b'{"commitInfo":{}}\n', [])
    assert len(forced) == 2
    assert redo.commits().keys() == known
    assert redo.append(4, b'{"commitInfo":{}}\n', [])
    redo.take_back()
    # That it is gone is on the disk, too.
    assert forced[-1] == (table / REDO_FILE).read_bytes()
    assert redo.commits().keys() == RedoFile(table).commits().keys() == known
    _cut_power(monkeypatch)
    RedoFile(table).restore()
    assert not _commit(queue, 4).exists()


def test_a_step_without_room_for_its_record_is_forced_where_it_belongs(
    queue: LocalQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The redo file grows by more than a step needs: that is no reason to fail."""
    redo = Path(queue.name, "queue", REDO_FILE)
    before, real = redo.read_bytes(), os.pwrite

    def pwrite(file: int, data: bytes, at: int) -> int:
        if len(data) > 1_000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(file, data, at)

    forced: list[str] = []
    sync = os.fsync

    def fsync(file: int) -> None:
        forced.append(str(Path(f"/proc/self/fd/{file}").readlink()))
        sync(file)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", pwrite)
        patch.setattr(os, "fsync", fsync)
        queue.enqueue({"id": "d"})
    assert redo.read_bytes() == before
    assert {str(path) for path in _rows_of(_commit(queue, 4))} <= set(forced)


def test_the_name_of_the_file_is_forced_before_it_has_a_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So whoever finds a beginning may rely on it, also after its maker was killed."""
    seen: list[tuple[Path, bytes]] = []

    def sync(directory: Path) -> None:
        seen.append((directory, (tmp_path / REDO_FILE).read_bytes()))

    monkeypatch.setattr(redo_file, "sync_directory", sync)
    (tmp_path / "_delta_log").mkdir()
    redo = RedoFile(tmp_path)
    assert redo.append(1, b"{}\n", [])
    assert seen == [(tmp_path, b"")]
    assert redo.append(2, b"{}\n", [])
    assert len(seen) == 1
    redo.empty()
    seen.clear()
    assert redo.append(3, b"{}\n", [])
    assert seen == [(tmp_path, b"")]


def _emptied(table: Path, monkeypatch: pytest.MonkeyPatch, others: Callable[[], None]) -> set[Path]:
    """Empty it, while others write before it keeps them out; return what is forced then."""
    forced: set[Path] = set()
    holding, sync = vars(redo_file)["holding"], vars(redo_file)["sync_file"]

    def hold(name: str, directory: Path) -> AbstractContextManager[None]:
        others()
        forced.clear()
        held: AbstractContextManager[None] = holding(name, directory)
        return held

    def note(path: Path) -> None:
        forced.add(path)
        sync(path)

    monkeypatch.setattr(redo_file, "holding", hold)
    monkeypatch.setattr(redo_file, "sync_file", note)
    RedoFile(table).empty()
    assert not (table / REDO_FILE).read_bytes()
    return forced


def test_what_others_write_while_it_is_emptied_is_forced(
    queue: LocalQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in the place of a step that was taken back."""
    table = Path(queue.name, "queue")
    writer = RedoFile(table)
    assert writer.append(4, b'{"commitInfo":{"by":"one that is taken back"}}\n', [])
    _commit(queue, 4).write_bytes(b"{}\n")

    def others() -> None:
        writer.take_back()
        for version in (4, 5):
            commit = b'{"commitInfo":{}}\n'
            assert writer.append(version, commit, [])
            _commit(queue, version).write_bytes(commit)

    assert _emptied(table, monkeypatch, others) == {_commit(queue, 4), _commit(queue, 5)}


def test_a_step_under_way_when_it_is_emptied_is_forced(
    queue: LocalQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record is there before its commit has a name."""
    table, commit = Path(queue.name, "queue"), b'{"commitInfo":{}}\n'
    assert RedoFile(table).append(4, commit, [])

    def others() -> None:
        _commit(queue, 4).write_bytes(commit)

    assert _emptied(table, monkeypatch, others) == {_commit(queue, 4)}


@pytest.mark.parametrize("left", [".queue-0123", "queue"])
def test_what_is_left_of_a_drop_that_was_killed_blocks_nothing(
    queue: LocalQueue, left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its redo file may be there, and its log not any more: a second drop ends what was begun."""
    table, gone = Path(queue.name, "queue"), Path(queue.name, left)
    table.rename(gone)
    for folder in gone.glob("_[!l]*/"):
        shutil.rmtree(folder)
    (gone / "_newest_commit").unlink()
    if left != "queue":
        (gone / "_delta_log").mkdir()
    _cut_power(monkeypatch)
    LocalQueue.drop(queue.name)
    LocalQueue.create(queue.name, "id string").enqueue({"id": "anew"})
    assert LocalQueue.open(queue.name).counts()["ready"] == 1
    assert left == "queue" or [*gone.glob("_delta_log/*")] == []


def test_who_may_only_read_is_told_what_is_missing(
    queue: LocalQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where all is there he reads it; else an error names the file, and who can help."""
    redo, access = Path(queue.name, "queue", REDO_FILE), os.access
    _cut_power(monkeypatch)
    with monkeypatch.context() as patch:
        # As root, which tests may run as, may write everywhere.
        patch.setattr(os, "access", lambda path, mode: mode != os.W_OK and access(path, mode))
        before = redo.read_bytes()
        assert LocalQueue.open(queue.name).counts()["ready"] == 2
        _commit(queue, 3).unlink()
        with pytest.raises(FileAccessError, match="open the queue once as a user who") as found:
            LocalQueue.open(queue.name)
        assert found.value.file == str(redo)
        assert redo.read_bytes() == before
    assert LocalQueue.open(queue.name).counts()["ready"] == 2


def test_nothing_is_made_again_that_upkeep_has_removed(
    queue: LocalQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither files of rows that were merged, nor commits that the log needs no more."""
    queue.maintain()
    sweep_replaced(DeltaLog.at(Path(queue.name, "queue")))
    there = set(Path(queue.name).rglob("*.parquet"))
    _cut_power(monkeypatch)
    LocalQueue.open(queue.name)
    assert set(Path(queue.name).rglob("*.parquet")) == there


def test_a_log_that_was_cleaned_up_stays_so(
    queue: LocalQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its checkpoint has what the older commits did."""
    table = Path(queue.name, "queue")
    DeltaTable(str(table)).create_checkpoint()
    for version in (1, 2):
        _commit(queue, version).unlink()
    _commit(queue, 0).unlink()
    _cut_power(monkeypatch)
    assert LocalQueue.open(queue.name).counts()["ready"] == 2
    assert [*table.glob("_delta_log/*.json")] == [_commit(queue, 3)]
