"""What is left of a ``create`` that was cut: another one finishes it, unless it may hold a step."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

import spark_queue
from spark_queue.errors import LogDamagedError, QueueExistsError, QueueNotFoundError
from spark_queue.local_queue import LocalQueue
from spark_queue.log.disk import removal, write_lock
from spark_queue.log.schema import STATUS_COLUMNS
from spark_queue.queue_views import store_of
from tests.programs import run_python

#: Makes queues, each in a child that is killed at the n-th call that names or forces something.
_KILLED = """
import os, signal, sys
import deltalake, spark_queue, spark_queue.local_queue
def counting(real):
    def call(*given, **named):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*given, **named)
    return call
for nth in range(1, 30):
    child = os.fork()
    if child:
        if os.waitpid(child, 0)[1] == 0:
            break
        continue
    left = nth
    for name in ("mkdir", "fsync", "link", "unlink"):
        setattr(os, name, counting(getattr(os, name)))
    spark_queue.LocalQueue.create(f"{sys.argv[1]}/{nth}/queue", "id string, more int")
    os._exit(0)
"""

#: Leaves in the place of a log what a power cut, or a kill, may leave of its making.
LEFT: dict[str, Callable[[Path], object]] = {
    "no commit": lambda log: (log / "_delta_log").mkdir(parents=True),
    "commit empty": lambda log: _first(log, lambda text: text[:0]),
    "commit cut": lambda log: _first(log, lambda text: text[:-30]),
    "commit of zeros": lambda log: _first(log, lambda text: "\0" * len(text)),
    "whole": lambda log: _first(log, lambda text: text),
    "commit not named": lambda log: _first(log, lambda text: text).rename(
        log / "_delta_log" / f"{0:020}.json#1"
    ),
}


def _first(log: Path, change: Callable[[str], str]) -> Path:
    """Leave the first commit of a table that is like a log."""
    made = log.with_name("elsewhere")
    LocalQueue.create(made, "id string", durability="process")
    commit = log / "_delta_log" / f"{0:020}.json"
    commit.parent.mkdir(parents=True)
    commit.write_text(change((made / log.name / "_delta_log" / commit.name).read_text()))
    shutil.rmtree(made)
    return commit


def _works(path: str) -> None:
    """Check that a queue takes an item, and gives it out."""
    queue = spark_queue.open(path)
    queue.enqueue({"id": "a", "more": 1})
    assert [row["id"] for row in queue.claim(9).rows] == ["a"]


@pytest.mark.parametrize("logs", [("queue",), ("status",), ("queue", "status")])
@pytest.mark.parametrize("left", LEFT)
def test_what_a_cut_create_left_is_replaced(
    queue_path: str, left: str, logs: tuple[str, ...]
) -> None:
    """Nothing of it was told, and it holds no step: the queue is made with other columns, too."""
    for log in logs:
        LEFT[left](Path(queue_path, log))
    with pytest.raises(QueueNotFoundError):
        spark_queue.open(queue_path)

    LocalQueue.create(queue_path, "id string, more int")

    _works(queue_path)


def test_a_create_that_is_killed_anywhere_can_be_repeated(place: str) -> None:
    """Either the queue is there, or it is made by the next call."""
    run_python("-c", _KILLED, place, check=True)
    begun = sorted(Path(place).iterdir(), key=lambda path: int(path.name))
    assert len(begun) > 15
    for at, made in enumerate(begun):
        try:
            LocalQueue.create(made / "queue", "id string, more int")
        except QueueExistsError:
            assert at > len(begun) - 4
        _works(str(made / "queue"))


#: What may be left of steps where a power cut took the status log.
HELD: dict[str, Callable[[Path], object]] = {
    "a commit": lambda queue: _note(queue).unlink(),
    "a commit that is empty": lambda queue: _commit(queue, 1).write_bytes(b""),
    "rows": lambda queue: _remove(_commit(queue, 1), _note(queue)),
    "rows and no commit": lambda queue: shutil.rmtree(_commit(queue, 1).parent),
    "a note": lambda queue: _remove(_commit(queue, 1), *queue.glob("queue/_gen=*/*")),
}


def _commit(queue: Path, version: int) -> Path:
    return queue / "queue" / "_delta_log" / f"{version:020}.json"


def _remove(*files: Path) -> None:
    for file in files:
        file.unlink()


def _note(queue: Path) -> Path:
    return queue / "queue" / "_newest_commit"


@pytest.mark.parametrize("held", HELD)
def test_what_may_hold_a_step_is_left_alone(queue_path: str, held: str) -> None:
    """Each file is there afterwards as it was, and an error says why."""
    LocalQueue.create(queue_path, "id string", durability="process").enqueue({"id": "a"})
    shutil.rmtree(Path(queue_path, "status"))
    HELD[held](Path(queue_path))
    before = _files(queue_path)

    with pytest.raises((QueueExistsError, LogDamagedError)):
        LocalQueue.create(queue_path, "id string")

    assert _files(queue_path) == before


def _files(path: str) -> dict[Path, bytes]:
    files = [file for file in Path(path).rglob("*") if file.is_file()]
    return {file: file.read_bytes() for file in files if not file.name.startswith("_writer")}


def test_a_queue_that_is_being_made_is_waited_for(queue_path: str) -> None:
    """Another process may be in the middle of what looks like a left-over: it has the right to."""
    LEFT["no commit"](Path(queue_path, "queue"))
    ended: list[Any] = []

    def create() -> None:
        try:
            ended.append(LocalQueue.create(queue_path, "id string"))
        except QueueExistsError as exc:
            ended.append(exc)

    with write_lock.holding("the other", Path(queue_path)):
        other = threading.Thread(target=create)
        other.start()
        other.join(0.2)
        assert not ended
        assert not list(Path(queue_path, "queue", "_delta_log").iterdir())
    other.join()
    assert isinstance(ended[0], LocalQueue)


def test_a_reader_whose_log_was_begun_is_served(queue_path: str) -> None:
    """Its log is made at the next use, whatever is left of the first try."""
    queue = LocalQueue.create(queue_path, "id string")
    queue.reader("first")
    queue.reader("audit")
    queue._main.forget()
    (log,) = Path(queue_path).glob("reader_*")
    shutil.rmtree(log)
    (log / "_delta_log").mkdir(parents=True)
    again = spark_queue.open(queue_path)
    again.enqueue({"id": "a"})

    assert [row["id"] for row in again.reader("audit").claim().rows] == ["a"]


def test_a_log_whose_first_step_is_under_way_is_not_replaced(queue_path: str) -> None:
    """Two processes that use a new reader first make one log: neither takes the other's away."""
    queue = LocalQueue.create(queue_path, "id string")
    queue.reader("first")
    queue.reader("audit")
    queue._main.forget()
    (log,) = Path(queue_path).glob("reader_*")
    for made in (*log.glob("_gen=*"), log / "_newest_commit"):
        shutil.rmtree(made) if made.is_dir() else made.unlink()
    (log / "_delta_log" / f"{1:020}.json").unlink()
    before = (log / "_delta_log").stat().st_ino

    again = spark_queue.open(queue_path)
    again.enqueue({"id": "a"})

    assert [row["id"] for row in again.reader("audit").claim().rows] == ["a"]
    assert (log / "_delta_log").stat().st_ino == before


@pytest.mark.parametrize("left", ["", "{"])
def test_an_output_whose_making_was_cut_is_made(queue_path: str, tmp_path: Path, left: str) -> None:
    """A first commit that is not whole, and no rows, are no table."""
    out, queue = tmp_path / "out", LocalQueue.create(queue_path, "id string")
    (out / "_delta_log").mkdir(parents=True)
    (out / "_delta_log" / f"{0:020}.json").write_text(left)
    queue.enqueue({"id": "a"})

    queue.process(lambda item: {"who": item["id"]}, returns="who string", output=str(out))

    assert DeltaTable(str(out)).to_pyarrow_table()["who"].to_pylist() == ["a"]


def test_names_and_first_commits_are_forced_before_a_queue_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names of directories that were made, and the first commits of both logs."""
    forced, real = set(), os.fsync

    def fsync(file: int) -> None:
        real(file)
        forced.add(Path(f"/proc/self/fd/{file}").readlink())

    monkeypatch.setattr(os, "fsync", fsync)
    path = tmp_path / "made" / "above" / "queue"

    LocalQueue.create(path, "id string")

    folders = {tmp_path, tmp_path / "made", path.parent, path, path / "queue", path / "status"}
    logs = {path / name / "_delta_log" for name in ("queue", "status")}
    assert forced >= folders | logs | {log / f"{0:020}.json" for log in logs}


def test_an_output_is_forced_before_its_handlers_run(
    queue_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name, the names above it, and its first commit."""
    queue, out = LocalQueue.create(queue_path, "id string"), tmp_path / "above" / "out"
    queue.enqueue({"id": "a"})
    forced, seen, real = set(), set(), os.fsync

    def fsync(file: int) -> None:
        real(file)
        forced.add(Path(f"/proc/self/fd/{file}").readlink())

    def handler(item: Any) -> dict[str, str]:
        seen.update(forced)
        return {"who": item["id"]}

    monkeypatch.setattr(os, "fsync", fsync)
    queue.process(handler, returns="who string", output=str(out))

    log = out / "_delta_log"
    assert seen >= {tmp_path, out.parent, out, log, log / f"{0:020}.json"}


def test_table_that_is_made_meanwhile_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What looked like the rest of a cut creation is looked at again when it is out of the way."""
    queue = LocalQueue.create(tmp_path / "q", "n bigint")
    queue.enqueue([{"n": 1}])
    place, whole = tmp_path / "q" / "status", tmp_path / "whole"
    place.rename(whole)
    place.mkdir()

    @contextmanager
    def making(directory: Path) -> Iterator[bool]:
        shutil.copytree(whole, directory, dirs_exist_ok=True)
        yield True

    monkeypatch.setattr(removal, "resting", making)
    store_of(queue).status.create(STATUS_COLUMNS.json, replaces=False)

    assert {file.name for file in place.rglob("*.json")} == {f.name for f in whole.rglob("*.json")}
    assert spark_queue.open(tmp_path / "q").counts()["ready"] == 1
