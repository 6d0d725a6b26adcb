"""Queues that cannot be read: the cause is told, and Spark is left what only Spark can do."""

from __future__ import annotations

from pathlib import Path

import pytest

import spark_queue
from spark_queue.errors import FileDamagedError, QueueNotFoundError, SparkQueueError
from spark_queue.local_queue import LocalQueue
from tests.programs import run_python

#: Opens a queue with few descriptors, once before that or not, and says how each verb ends.
_POOR = """
import resource, sys, spark_queue.local_queue
path, most, is_warm = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "True"
if is_warm:
    spark_queue.open(path).counts()
limit = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (most, limit[1]))
verbs = [
    lambda: spark_queue.open(path),
    lambda: spark_queue.open(path).enqueue({"id": "c"}),
    lambda: spark_queue.open(path).claim().rows,
    lambda: spark_queue.LocalQueue.create(path + "-new", "id string"),
]
for verb in verbs:
    try:
        verb()
        print("done")
    except BaseException as error:
        print(type(error).__name__, error)
resource.setrlimit(resource.RLIMIT_NOFILE, limit)
print(spark_queue.open(path).counts()["ready"] >= 2)
"""


@pytest.fixture
def queue(tmp_path: Path) -> LocalQueue:
    """Return a queue with two items."""
    made = LocalQueue.create(tmp_path / "queue", "id string", durability="process")
    made.enqueue([{"id": "a"}, {"id": "b"}])
    return made


@pytest.mark.parametrize("is_warm", [False, True])
@pytest.mark.parametrize("most", [6, 10, 12, 16])
def test_a_process_without_descriptors_is_told_so(
    queue: LocalQueue, *, most: int, is_warm: bool
) -> None:
    """It is no damage, nothing for Spark, and nothing that ``except Exception`` would let pass."""
    said = run_python("-c", _POOR, queue.name, most, is_warm, check=True)

    *verbs, last = said.stdout.splitlines()
    assert len(verbs) == 4
    for line in verbs:
        assert line == "done" or (
            line.startswith("FileAccessError") and "Too many open files; raise the limit" in line
        )
    assert any("Too many" in line for line in verbs)
    assert last == "True"


#: Loads a shared library without a descriptor, where its directory is known, and with some.
_LATE = """
import resource
from spark_queue.extras import import_late
limit = resource.getrlimit(resource.RLIMIT_NOFILE)
for most in (3, limit[0]):
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, limit[1]))
    try:
        print("loaded", import_late("_lsprof").__name__)
    except Exception as error:
        print(type(error).__name__, error)
"""


def test_a_shared_library_is_a_file_that_the_system_refuses() -> None:
    """The loader tells it by words alone, of which Python makes an error of imports."""
    poor, last = run_python("-c", _LATE, check=True).stdout.splitlines()
    assert poor.startswith("FileAccessError")
    assert "_lsprof" in poor
    assert "Too many open files; raise the limit" in poor
    assert last == "loaded _lsprof"


def test_a_queue_that_was_moved_is_not_found(queue: LocalQueue, tmp_path: Path) -> None:
    """Who has it open is told where it was; where it is now all goes on."""
    claim = queue.claim()
    (tmp_path / "queue").rename(tmp_path / "elsewhere")

    for verb in (queue.counts, queue.status, queue.claim, claim.ack, queue.maintain, queue.report):
        with pytest.raises((QueueNotFoundError, FileDamagedError), match="queue"):
            verb()
    assert spark_queue.open(tmp_path / "elsewhere").counts()["claimed"] == 1


@pytest.mark.parametrize("log", ["queue", "status"])
def test_a_commit_of_garbage_is_no_matter_for_spark(queue: LocalQueue, log: str) -> None:
    """The file is named, and the log that it belongs to."""
    commit = min(Path(queue.name, log, "_delta_log").glob("*.json"))
    commit.write_text("garbage\n")
    queue.close()

    with pytest.raises(FileDamagedError, match=commit.name) as told:
        spark_queue.open(queue.name).claim()
    assert (told.value.file, told.value.log) == (str(commit), log)
    assert isinstance(told.value, SparkQueueError)
    assert isinstance(told.value, OSError)
