"""The seven calls of each storage, and how a storage without an exclusive create is refused."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from obstore.store import MemoryStore

from spark_queue import LocalQueue
from spark_queue.errors import FileAccessError, InvalidArgumentError, SetupError
from spark_queue.log.object import remote_storage
from spark_queue.log.object.object_storage import FileSystemStorage, ObjectStorage
from spark_queue.log.storage import UPKEEP, Storage
from tests.logs.disk_objects import DiskObjects
from tests.logs.logs import file_system, storage_log
from tests.logs.memory_storage import MemoryStorage
from tests.logs.s3_server import faulty_s3

KINDS: dict[str, Callable[[Path], Storage]] = {
    "disk": DiskObjects,
    "memory": lambda place: MemoryStorage(f"memory:{place}"),
    "object": lambda place: ObjectStorage(MemoryStore(), f"memory://{place}", "q/queue"),
}


@pytest.fixture(params=[*KINDS, "fsspec"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    """Return an empty storage of a kind."""
    if request.param in KINDS:
        yield KINDS[request.param](tmp_path)
        return
    with faulty_s3() as (_, options):
        yield FileSystemStorage(file_system(options), "s3://bucket/q/queue")


def test_objects_are_found_by_their_names(storage: Storage) -> None:
    """They are whole, replaced as a whole, and gone when they are deleted, there or not."""
    before = storage.now() - timedelta(seconds=2)
    storage.put("a", b"1")
    storage.put("_delta_log/b", b"2")
    storage.put("a", b"3")

    assert (storage.read("a"), storage.read("_delta_log/b")) == (b"3", b"2")
    assert storage.read("c") is None
    found = storage.list()
    assert set(found) == {"a", "_delta_log/b"}
    assert all(before <= at <= storage.now() + timedelta(seconds=2) for at in found.values())

    storage.delete(["a", "c"])
    assert set(storage.list()) == {"_delta_log/b"}


def test_of_all_who_create_a_name_one_does(storage: Storage) -> None:
    """All of them get its bytes, and so does one who comes later, or again."""
    contents = [f"of {n}".encode() for n in range(8)]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda one: storage.put_if_absent("log/1", one), contents))

    assert len({*found}) == 1
    assert found[0] in contents
    assert storage.put_if_absent("log/1", b"late") == storage.read("log/1") == found[0]


def test_a_lock_has_one_holder(storage: Storage) -> None:
    """Another thread is told that its time is up; then it is free."""
    storage.put("a", b"1")

    def take(timeout: float) -> bool:
        with storage.lock(UPKEEP, timeout) as is_mine:
            return is_mine

    with ThreadPoolExecutor(1) as other:
        with storage.lock(UPKEEP, 0) as is_mine:
            assert is_mine
            assert not other.submit(take, 0.0).result()
        assert other.submit(take, 60.0).result()


def test_a_storage_that_writes_over_an_object_is_refused_by_its_name() -> None:
    """Two could have one number there: no log is made, and nothing stays of it."""
    made: list[Storage] = []

    class Overwriting(MemoryStorage):
        def put_if_absent(self, name: str, content: bytes) -> bytes:
            self.put(name, content)
            return content

    def make(url: str) -> Storage:
        made.append(Overwriting(url))
        return made[-1]

    with pytest.raises(SetupError, match="memory:///q/status"):
        storage_log(make).create()
    assert not any(storage.list() for storage in made)


def test_a_file_system_without_an_exclusive_create_is_refused_by_its_name() -> None:
    """Its create looks first and writes then, which a probe by one process cannot tell."""
    with pytest.raises(InvalidArgumentError, match=r"implementations\.memory\.MemoryFileSystem"):
        LocalQueue.create("memory://bucket/q", "id string", storage=MemoryFileSystem())


def test_a_listing_of_before_hides_no_object() -> None:
    """The file system keeps listings; what another process wrote since is read and listed."""
    with faulty_s3() as (server, options):
        files = file_system(options)
        storage = FileSystemStorage(files, "s3://bucket/q/queue")
        storage.put("a", b"1")
        files.ls("bucket/q/queue")
        server.objects["q/queue/b"] = b"2"

        assert storage.read("b") == b"2"
        assert set(storage.list()) == {"a", "b"}


def test_an_invalid_request_is_told_in_the_words_of_the_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The file system has one error for it and for a name that is taken: no object is there."""
    monkeypatch.setattr(remote_storage, "_PATIENCE", 0.0)
    with faulty_s3() as (_, options):
        files = file_system(options)
        storage = FileSystemStorage(files, "s3://bucket/q/queue")

        def refuse(*_: object, **__: object) -> None:
            raise OSError(errno.EINVAL, "the key is too odd")

        monkeypatch.setattr(files, "pipe_file", refuse)
        with pytest.raises(FileAccessError) as found:
            storage.put_if_absent("log/1", b"1")
        assert "the key is too odd" in str(found.value.__cause__)
        monkeypatch.undo()
        assert storage.put_if_absent("log/1", b"1") == b"1"
