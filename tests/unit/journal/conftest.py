"""Queues over journals in memory, with time that the test drives by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from spark_queue.journal import JournaledQueue, JournalReader, MemoryJournal
from tests.unit.journal.stage import Stage

Journal = MemoryJournal[str]
Queue = JournaledQueue[str]
Reader = JournalReader[str]


@pytest.fixture
def stage() -> Iterator[Stage]:
    """Return what makes queues; all of them are given up at the end."""
    stage = Stage()
    yield stage
    stage.end()


@pytest.fixture
def journal(stage: Stage) -> Journal:
    """Return an empty journal."""
    return stage.journal()


@pytest.fixture
def queue(stage: Stage, journal: Journal) -> Queue:
    """Open a queue over the empty journal, of which nobody waits for durability."""
    return stage.queue(journal)


@pytest.fixture
def reader(queue: Queue) -> Reader:
    """Return the default reader of the queue."""
    return queue.reader()


Fill = Callable[..., MemoryJournal[str]]


@pytest.fixture
def fill(stage: Stage) -> Fill:
    """Return what makes a journal with items of 1 KiB, and a reader at a head."""
    return stage.filled
