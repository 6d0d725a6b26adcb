"""Queues over journals in memory, with time that the test drives by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from spark_queue.journal import MemoryJournal
from tests.unit.journal.stage import Stage


@pytest.fixture
def stage() -> Iterator[Stage]:
    """Return what makes queues; all of them are given up at the end."""
    stage = Stage()
    yield stage
    stage.end()


@pytest.fixture
def journal(stage: Stage) -> MemoryJournal[str]:
    """Return an empty journal."""
    return stage.journal()


Fill = Callable[..., MemoryJournal[str]]


@pytest.fixture
def fill(stage: Stage) -> Fill:
    """Return what makes a journal with items of 1 KiB, and a reader at a head."""
    return stage.filled
