"""A front whose hold ran out on a store where others may write then: what they do ends it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta

import pytest

from spark_queue.clock import ManualClock
from spark_queue.errors import FencedError
from spark_queue.journal import JournaledQueue
from spark_queue.local_queue import LocalQueue
from spark_queue.queue_views import main_store_of
from spark_queue.state.handle import Handle
from spark_queue.state.store import Store
from spark_queue.stores.delta_journal import DeltaJournal
from spark_queue.stores.ownership import HOLD, Ownership
from spark_queue.testing import memory_queue

PATIENCE = 30.0


class Stalled:
    """A front that renews nothing by itself, over a queue in memory that others have open, too."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.plain: LocalQueue = memory_queue("data binary", clock=self.clock)
        mine = main_store_of(self.plain).handle
        store = Store(Handle(mine.session, mine.address, mine.clock, mine.listener))
        self.journal = DeltaJournal(store)
        self.front: JournaledQueue[bytes] = JournaledQueue(self.journal, "front")
        self.reader = self.front.reader("")

    def outlast(self, *, notices: bool = False) -> None:
        """Let the hold run out by the clocks of all others, or by that of the front as well."""
        self.clock.advance(HOLD + timedelta(seconds=1))
        if notices:
            self.journal._ownership._until = 0.0

    def wake(self) -> None:
        """Renew the hold, if it is there."""
        self.journal._ownership._renew()

    def seqs(self) -> list[int]:
        """Return the numbers of all items that are logged."""
        seqs: list[int] = self.plain.status()["_seq"].to_pylist()
        return sorted(seqs)


@pytest.fixture
def stalled(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stalled]:
    """Return a front that has told two items durable."""
    monkeypatch.setattr(Ownership, "_keep_holding", lambda _: None)
    made = Stalled()
    for item in (b"1", b"2"):
        made.front.put(item).result(PATIENCE)
    yield made
    with suppress(FencedError):
        made.front.close()


def test_no_number_is_given_twice(stalled: Stalled) -> None:
    """A put that would follow upon an outsider's items fails, whoever's clock is ahead."""
    stalled.outlast()
    assert stalled.plain.enqueue([{"data": b"3"}, {"data": b"4"}]).inserted == 2

    with pytest.raises(FencedError, match="somebody who wrote or freed it"):
        stalled.front.put(b"5").result(PATIENCE)

    assert stalled.seqs() == [1, 2, 3, 4]
    with pytest.raises(FencedError):
        stalled.reader.get(timeout=0)


def test_what_an_outsider_has_claimed_the_front_settles_no_more(stalled: Stalled) -> None:
    """Its ack is not logged, though nobody has written to the log of items meanwhile."""
    read = stalled.reader.get(timeout=0)
    stalled.outlast()
    claim = stalled.plain.claim(1)

    stalled.reader.ack(read)
    with pytest.raises(FencedError):
        stalled.front.sync()

    claim.ack()
    assert stalled.plain.counts()["acked"] == 1


@pytest.mark.parametrize("does", ["enqueue", "claim"])
def test_who_wakes_up_after_somebody_wrote_hands_out_nothing(stalled: Stalled, does: str) -> None:
    """A hold that has run out is not renewed over what was done since, in whichever log it is."""
    stalled.outlast(notices=True)
    if does == "enqueue":
        stalled.plain.enqueue({"data": b"3"})
    else:
        assert stalled.plain.claim(1).count == 1

    stalled.wake()

    assert not stalled.journal.is_held()
    with pytest.raises(FencedError):
        stalled.reader.get(timeout=0)


def test_who_wakes_up_alone_goes_on(stalled: Stalled) -> None:
    """A pause costs a front nothing, as long as nobody has written meanwhile."""
    stalled.outlast(notices=True)
    assert not stalled.journal.is_held()

    stalled.wake()

    assert stalled.reader.get(timeout=0).item == b"1"
    assert stalled.front.put(b"3").result(PATIENCE) == 3
