"""Words of durability: checked wherever they are given, and kept."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from spark_queue import LocalQueue, journaled_queue
from spark_queue.errors import InvalidArgumentError, InvalidConfigError
from spark_queue.journal import MemoryJournal, QueueOptions
from spark_queue.log.session_options import PlainSession, kept_by
from spark_queue.session import DURABILITY
from spark_queue.testing import memory_queue
from tests.programs import run_python
from tests.unit.journal.conftest import Queue
from tests.unit.journal.stage import Stage

UNKNOWN = ["Disk", "fsync", "", 5, True, ["disk"]]

#: Puts an item with a word, and is killed when it was told.
_PUT = """
import os, signal, sys
from spark_queue import journaled_queue, open
front = journaled_queue(open(sys.argv[1]))
front.put(b"x", durability=sys.argv[2]).result()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("word", UNKNOWN)
def test_an_unknown_word_is_refused_by_every_put(queue: Queue, word: Any) -> None:
    """Neither a put nor a replacement takes a word that promises nothing, and nothing is put."""
    queue.put("open").result()
    read = queue.reader().get()
    for call in (
        lambda: queue.put("x", durability=word),
        lambda: queue.put_many("xy", durability=word),
        lambda: queue.reader().replace(read, "x", word),
        lambda: asyncio.run(queue.aio.put("x", durability=word)),
    ):
        with pytest.raises(InvalidArgumentError, match="durability is"):
            call()
    assert queue.items == 1


@pytest.mark.parametrize("word", [*UNKNOWN, "commit", "memory"])
def test_a_word_that_says_nothing_of_a_step_is_refused(tmp_path: Path, word: Any) -> None:
    """A queue is made and opened with what a step survives; nothing is made with another word."""
    place = tmp_path / "queue"
    with pytest.raises(InvalidArgumentError, match="durability is"):
        LocalQueue.create(place, "n int", durability=word)
    assert not place.exists()
    LocalQueue.create(place, "n int")
    with pytest.raises(InvalidArgumentError, match="durability is"):
        LocalQueue.open(place, durability=word)


def test_a_session_says_what_a_step_survives() -> None:
    """A mistake in the setting is named, and is no promise."""
    with pytest.raises(InvalidConfigError, match=r"sparkQueue.durability is 'dsik'.*'disk'"):
        kept_by(PlainSession({DURABILITY: "dsik"}))
    assert kept_by(PlainSession()) == "disk"


@pytest.mark.parametrize("word", ["disk", "process"])
def test_a_journal_in_memory_promises_nothing(stage: Stage, word: Any) -> None:
    """What ends with the process is not put with a promise, by a put or by the options."""
    with pytest.raises(InvalidArgumentError, match="survives nothing"):
        stage.queue().put("x", durability=word)
    journal = MemoryJournal[str]()
    with pytest.raises(InvalidArgumentError, match="survives nothing"):
        stage.queue(journal, options=QueueOptions(durability=word))
    assert journal.store.holder == 0
    with (
        journaled_queue(memory_queue("data binary")) as queue,
        pytest.raises(InvalidArgumentError, match="survives nothing"),
    ):
        queue.put(b"x", durability=word)


def test_a_queue_that_forces_nothing_promises_no_disk(tmp_path: Path) -> None:
    """A put cannot ask for more than a step of its queue survives."""
    plain = LocalQueue.create(tmp_path / "queue", "data binary", durability="process")
    with journaled_queue(plain) as queue:
        with pytest.raises(InvalidArgumentError, match=r"durability is 'disk'.*process alone"):
            queue.put(b"x", durability="disk")
        assert queue.put(b"x", durability="process").result(30) == 1


@pytest.mark.parametrize("word", ["disk", "process", "commit"])
def test_what_was_told_is_there_after_a_kill(tmp_path: Path, word: str) -> None:
    """A put with a promise is not told before its group is a step."""
    place = tmp_path / "queue"
    LocalQueue.create(place, "data binary")
    ended = run_python("-c", _PUT, place, word)
    assert ended.returncode == -signal.SIGKILL
    assert LocalQueue.open(place).counts()["ready"] == 1
