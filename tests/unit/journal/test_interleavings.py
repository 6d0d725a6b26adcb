"""Two threads that meet at the lock of a journaled queue, in every order."""

from __future__ import annotations

import pytest

from spark_queue.journal import JournaledQueue, MemoryJournal, QueueOptions
from tests.unit.waiting.tickets.stage import Meeting, schedules

_MODULE = "spark_queue.memory.journal.journal_state"


@pytest.mark.parametrize("turns", schedules(6))
def test_a_nack_meets_a_get(turns: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits gets what comes back, whenever it does (LB-11)."""
    meeting = Meeting(turns, monkeypatch, _MODULE)
    queue: JournaledQueue[str] = JournaledQueue(
        MemoryJournal(), options=QueueOptions(durability="memory")
    )
    reader = queue.reader()
    queue.put("a")
    read = reader.get()
    got: list[str] = []
    meeting.play(lambda: got.append(reader.get().item), lambda: reader.nack(read))
    assert (got, meeting.errors) == (["a"], [])
    queue.close(drain=False)
