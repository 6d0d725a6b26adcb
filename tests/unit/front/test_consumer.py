"""The consumer of a front, over a queue in memory whose clock and faults are the test's."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from spark_queue.clock import ManualClock
from spark_queue.errors import LeaseLostError, QueueShutDownError
from spark_queue.front.consumer import Consumer, Delivery, PendingOutcome
from spark_queue.front.producer import Put
from spark_queue.front.queue_ends import Outlet
from spark_queue.saying import Said
from spark_queue.state.settle_decision import NAMED
from spark_queue.state.step_waits import Look

PATIENCE = 10.0
LEASE = timedelta(seconds=60)
HOUR = timedelta(hours=1)


class FakeQueue:
    """Items, the lease that each is held by, and when that ends; a claim takes what is free."""

    name = "fake"

    def __init__(self, count: int) -> None:
        self.clock = ManualClock()
        self.leases = dict.fromkeys(range(1, count + 1), 0)
        self.ends: dict[int, datetime] = {}
        self.acked: list[int] = []
        self.unbegun: list[int] = []
        self.renewals = self.claims = self.releases = 0
        self.fault: Callable[[], object] = lambda: None
        self.reading: Callable[[], object] = lambda: None
        self.rescues: list[int] = []
        self.news: list[Path] = []
        self._last = 0

    def recover(self) -> None:
        """Settle what others left; note how many claims there were before."""
        self.rescues.append(self.claims)

    def rows(self, claim: FakeClaim) -> list[dict[str, Any]]:
        """Return what a claim has."""
        self.reading()
        return [{"_seq": seq, "_lease": claim.lease, "_attempts": 0} for seq in claim.seqs]

    def release_unbegun(self, claim: FakeClaim) -> None:
        """Give everything of a claim back, and note that nothing of it has begun."""
        self.unbegun += claim.seqs
        claim.release()

    def look(self) -> Look:
        """Look at the files that others write, if the test has some."""
        logs = (SimpleNamespace(newest=lambda _, at=path: int(at.exists())) for path in self.news)
        return Look(tuple((cast("Any", log), 0) for log in logs if not log.newest(0)))

    def is_paced(self) -> bool:
        """Have no rates."""
        return False

    def rest(self, most: float) -> float:
        """Return when the first lease ends."""
        now = self.clock.now()
        left = [(end - now).total_seconds() for end in self.ends.values() if end > now]
        return min([most, *left])

    def claim(self, limit: int, lease: timedelta | None) -> FakeClaim:
        """Take what nobody holds, or no longer."""
        self.claims += 1
        now = self.clock.now()
        free = [seq for seq in self.leases if self.ends.get(seq, now) <= now][:limit]
        if free:
            self._last += 1
        self.hold(free, self._last, now + (lease or LEASE))
        return FakeClaim(self, self._last, len(free), now, now + (lease or LEASE))

    def hold(self, seqs: Sequence[int], lease: int, until: datetime) -> None:
        """Let items be held."""
        for seq in seqs:
            self.leases[seq], self.ends[seq] = lease, until

    def steal(self) -> None:
        """Have somebody else claim everything."""
        self.hold(list(self.leases), -1, self.clock.now() + HOUR)


class FakeClaim:
    """A claim of the fake queue, which refuses what others hold as the real one does."""

    def __init__(
        self, source: FakeQueue, lease: int, count: int, at: datetime, until: datetime
    ) -> None:
        self.source, self.lease, self.count = source, lease, count
        self.claimed_at, self.lease_expires_at = at, until
        self.seqs = [seq for seq, held in source.leases.items() if held == lease]

    def _mine(self) -> list[int]:
        return [seq for seq in self.seqs if self.source.leases.get(seq) == self.lease]

    def _require_all(self, seqs: Sequence[int]) -> None:
        lost = [seq for seq in seqs if self.source.leases.get(seq) != self.lease]
        if lost:
            raise LeaseLostError(lost[:NAMED])

    def renew(self, by: timedelta) -> None:
        """Hold what is left longer."""
        self.source.renewals += 1
        self.source.hold(self._mine(), self.lease, self.source.clock.now() + by)
        self.lease_expires_at = self.source.clock.now() + by
        self._require_all([seq for seq in self.seqs if seq in self.source.leases])

    def release(self) -> None:
        """Give everything back."""
        self.source.releases += 1
        self.source.hold(self._mine(), 0, self.source.clock.now())

    def settle_each(self, outcomes: Mapping[int, Said]) -> None:
        """Settle single items."""
        self.source.fault()
        mine = set(self._mine())
        for seq, said in outcomes.items():
            if seq not in mine:
                continue
            if said.outcome == "release":
                self.source.hold([seq], 0, self.source.clock.now())
                self.source.unbegun += [] if said.is_begun else [seq]
            else:
                del self.source.leases[seq]
                self.source.acked.append(seq)
        self._require_all([seq for seq in outcomes if seq not in mine])


Start = Callable[..., tuple[FakeQueue, Consumer]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a consumer over a fake queue; it is closed in the end."""
    running: list[tuple[Consumer, threading.Thread]] = []

    def make(
        count: int,
        *,
        lease: timedelta = LEASE,
        poll_every: timedelta = timedelta(milliseconds=5),
        prefetch: int | None = None,
        learns: bool = False,
    ) -> tuple[FakeQueue, Consumer]:
        source = FakeQueue(count)

        most = None if learns else max(count, 1) if prefetch is None else prefetch
        consumer = Consumer(cast("Outlet", source), most, lease, 100, pause=lambda _: None)
        thread = threading.Thread(target=consumer.run, args=(poll_every,))
        thread.start()
        running.append((consumer, thread))
        return source, consumer

    yield make
    for consumer, thread in running:
        consumer.close()
        thread.join(PATIENCE)


def _say(consumer: Consumer, delivery: Delivery, said: str = "ack") -> Future[None]:
    return consumer.settle(delivery, Said(said))


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@contextmanager
def _stalled(source: FakeQueue) -> Iterator[threading.Event]:
    """Hold up what is written; the event says that a group is there."""
    entered, goes_on = threading.Event(), threading.Event()

    def stall() -> None:
        entered.set()
        goes_on.wait(PATIENCE)

    source.fault = stall
    yield entered
    goes_on.set()
    source.fault = lambda: None


def test_what_came_too_late_to_be_handed_out_comes_again(start: Start) -> None:
    """An item whose lease ran out in memory is given back, and not kept by the next renewal."""
    source, consumer = start(2)
    first = consumer.get(PATIENCE)
    entered, goes_on = threading.Event(), threading.Event()

    def stall() -> None:
        entered.set()
        goes_on.wait(PATIENCE)

    source.fault = stall
    done = _say(consumer, first)
    assert entered.wait(PATIENCE)
    source.clock.advance(LEASE)
    with pytest.raises(queue.Empty):
        consumer.get(0.01)

    goes_on.set()

    again = consumer.get(PATIENCE)
    assert done.result(PATIENCE) is None
    assert again.seq == 2
    assert _say(consumer, again).result(PATIENCE) is None
    assert source.acked == [1, 2]


def test_an_outcome_that_was_not_written_is_written_again(start: Start) -> None:
    """A store that is away for a moment costs nobody their item."""
    source, consumer = start(1)
    faults = iter([OSError("away"), OSError("away")])

    def fail() -> None:
        fault = next(faults, None)
        if fault is not None:
            raise fault

    source.fault = fail

    assert _say(consumer, consumer.get(PATIENCE)).result(PATIENCE) is None
    assert source.acked == [1]


def test_a_queue_that_cannot_be_claimed_from_is_asked_ever_more_rarely(
    start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """However often somebody wants an item, and others write: it is said once, and tried seldom."""
    source, consumer = start(1)
    tries: list[int] = []
    claim = source.claim

    def fail(limit: int, _: object) -> FakeClaim:
        tries.append(limit)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(source, "claim", fail)
    for _ in range(200):
        with suppress(queue.Empty):
            consumer.get(0.001)
    assert 0 < len(tries) < 20
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "No space left" in caplog.text
    monkeypatch.setattr(source, "claim", claim)
    assert consumer.get(0).seq == 1
    assert "claims again, after" in caplog.text


def test_an_outcome_that_cannot_be_written_frees_its_item(start: Start) -> None:
    """Who waits is told why; the item comes again at once, and the rest of its claim stays held."""
    source, consumer = start(2)
    first, second = consumer.get(PATIENCE), consumer.get(PATIENCE)

    def fail() -> None:
        raise OSError("the disk is gone")

    source.fault = fail
    with pytest.raises(OSError, match="the disk is gone"):
        _say(consumer, first).result(PATIENCE)
    source.fault = lambda: None

    again = consumer.get(PATIENCE)
    assert (again.seq, again.lease != first.lease) == (first.seq, True)
    assert source.leases[second.seq] == second.lease
    assert _say(consumer, again).result(PATIENCE) is None
    assert _say(consumer, second).result(PATIENCE) is None
    assert source.acked == [first.seq, second.seq]


def test_an_item_that_cannot_even_be_freed_comes_when_its_lease_is_over(start: Start) -> None:
    """Nobody renews a claim of which nothing is left but what was given up."""
    source, consumer = start(1)

    def fail() -> None:
        raise OSError("the disk is gone")

    source.fault = fail
    with pytest.raises(OSError, match="the disk is gone"):
        _say(consumer, consumer.get(PATIENCE)).result(PATIENCE)
    source.clock.advance(LEASE)

    assert consumer.get(PATIENCE).seq == 1
    assert source.renewals == 0


def test_who_waits_is_woken_by_what_another_process_writes(start: Start, tmp_path: Path) -> None:
    """Nobody in this process says that there is something, and the next look is far away."""
    source, consumer = start(0, poll_every=HOUR)
    source.news.append(tmp_path / "1.json")
    with ThreadPoolExecutor(1) as pool:
        taken = pool.submit(consumer.get, PATIENCE)
        _until(lambda: consumer._seen is not None and bool(consumer._seen.seen))
        source.leases[1] = 0
        (tmp_path / "1.json").touch()

        assert taken.result(PATIENCE).seq == 1


def test_who_waits_is_woken_when_an_item_becomes_due(start: Start) -> None:
    """An item that only time brings back is looked for then, and not at the next look."""
    source, consumer = start(0, poll_every=HOUR)
    source.leases[1] = 0
    source.hold([1], -1, source.clock.now() + timedelta(milliseconds=1))
    with ThreadPoolExecutor(1) as pool:
        taken = pool.submit(consumer.get, PATIENCE)
        _until(lambda: source.claims > 0)
        source.clock.advance(timedelta(milliseconds=1))

        assert taken.result(PATIENCE).seq == 1


def test_of_a_large_claim_that_was_lost_nothing_is_handed_out(start: Start) -> None:
    """An error names a thousand items; where it does, the others may be lost as well."""
    source, consumer = start(NAMED + 500)
    first = consumer.get(PATIENCE)
    source.steal()
    source.clock.advance(LEASE / 2)
    _until(lambda: source.renewals > 0)
    with pytest.raises(LeaseLostError):
        _say(consumer, first).result(PATIENCE)

    with pytest.raises(queue.Empty):
        consumer.get(timedelta(0))


def test_leases_are_renewed_however_seldom_the_queue_is_looked_at(start: Start) -> None:
    """The consumer wakes for a lease before it has to be renewed."""
    source, consumer = start(1, lease=timedelta(milliseconds=60), poll_every=HOUR)
    delivery = consumer.get(PATIENCE)
    source.clock.advance(timedelta(milliseconds=40))

    _until(lambda: source.renewals > 0)

    assert _say(consumer, delivery).result(PATIENCE) is None


def test_a_coroutine_without_patience_looks_once(start: Start) -> None:
    """Where items are claimed on demand, a get that does not wait demands one, too."""
    _, consumer = start(1)

    assert asyncio.run(consumer.get_async(0)).seq == 1
    with pytest.raises(queue.Empty):
        asyncio.run(consumer.get_async(timedelta(0)))


def test_a_coroutine_gets_no_item_that_is_no_longer_held(start: Start) -> None:
    """What came too late to be handed out comes again to coroutines as well."""
    source, consumer = start(2)
    first = consumer.get(PATIENCE)
    with _stalled(source) as entered:
        done = _say(consumer, first)
        assert entered.wait(PATIENCE)
        source.clock.advance(LEASE)
        with pytest.raises(queue.Empty):
            asyncio.run(consumer.get_async(0.01))

    again = asyncio.run(consumer.get_async(PATIENCE))
    assert (again.seq, done.result(PATIENCE)) == (2, None)
    assert again.lease != first.lease


def test_of_two_outcomes_of_an_item_the_first_counts(start: Start) -> None:
    """Who says something of an item that is settled in the same group hears that it was late."""
    source, consumer = start(2)
    first, second = consumer.get(PATIENCE), consumer.get(PATIENCE)
    with _stalled(source) as entered:
        _say(consumer, first)
        assert entered.wait(PATIENCE)
        ack, release = _say(consumer, second), _say(consumer, second, "release")

    assert ack.result(PATIENCE) is None
    with pytest.raises(LeaseLostError, match="settled before"):
        release.result(PATIENCE)
    assert source.acked == [1, 2]


def test_a_claim_whose_items_could_not_be_read_is_given_back(start: Start) -> None:
    """Nobody waits for the end of a lease that nobody works under."""
    source, consumer = start(0)
    faults = iter([OSError("away")])

    def fail() -> None:
        fault = next(faults, None)
        if fault is not None:
            raise fault

    source.reading = fail
    source.leases[1] = 0

    assert consumer.get(PATIENCE).lease == 2
    assert source.releases == 1
    assert source.unbegun == [1]


def test_one_at_a_time_is_on_demand(start: Start) -> None:
    """Where a claim takes one item, none is claimed before somebody asks for it."""
    source, consumer = start(1)
    looks = consumer._outcomes.take
    looked: list[float] = []

    def count(timeout: float | None = None) -> list[PendingOutcome]:
        looked.append(0.0)
        return looks(timeout)

    consumer._outcomes.take = count  # type: ignore[method-assign]
    _until(lambda: len(looked) > 2)

    assert source.claims == 0
    assert consumer.get(PATIENCE).seq == 1


def test_no_more_is_claimed_than_will_soon_be_taken(start: Start) -> None:
    """As long as half of a claim is ready there is no other one."""
    source, consumer = start(12, prefetch=4)
    taken = [consumer.get(PATIENCE).seq for _ in range(2)]
    for _ in range(3):
        consumer._next_look().result(PATIENCE)

    assert (taken, source.claims) == ([1, 2], 1)
    assert [consumer.get(PATIENCE).seq for _ in range(10)] == list(range(3, 13))


@pytest.mark.parametrize("prefetch", [1, 2, None])
def test_nothing_is_claimed_before_somebody_asks(start: Start, prefetch: int | None) -> None:
    """However often it hears that something was put, a front that only puts takes nothing."""
    source, consumer = start(4, prefetch=prefetch, learns=prefetch is None)
    looked = threading.Semaphore(0)
    free = consumer._leases.free

    def count() -> None:
        free()
        looked.release()

    consumer._leases.free = count  # type: ignore[method-assign]
    for _ in range(5):
        consumer.look_again()
        assert looked.acquire(timeout=PATIENCE)

    assert source.claims == 0
    assert consumer.get(PATIENCE).seq == 1


def test_what_nobody_asks_for_is_given_back_after_a_lease(start: Start) -> None:
    """What is in somebody's hands stays; the rest is free, and comes again to who asks."""
    source, consumer = start(4, prefetch=4)
    held = consumer.get(PATIENCE)
    source.clock.advance(LEASE / 2)
    _until(lambda: source.renewals > 0)
    assert set(source.leases.values()) == {held.lease}
    source.clock.advance(LEASE / 2)
    _until(lambda: list(source.leases.values()).count(0) == 3)

    assert source.leases[held.seq] == held.lease
    assert sorted(source.unbegun) == [2, 3, 4]
    assert consumer.get(PATIENCE).seq == 2
    assert _say(consumer, held).result(PATIENCE) is None


# rule: units that come back
def test_a_claim_that_comes_back_while_the_front_closes_has_not_begun(start: Start) -> None:
    """Law 11: no taker has seen its items, so their units come back with them."""
    source, consumer = start(3, prefetch=3)
    source.reading = consumer.close
    with pytest.raises(queue.Empty):
        consumer.get(PATIENCE)

    _until(lambda: not any(source.leases.values()))
    assert sorted(source.unbegun) == [1, 2, 3]


def test_who_is_slow_holds_no_more_than_is_in_hand(start: Start) -> None:
    """Where an item takes longer than a tenth of a second, others may have all that wait."""
    source, consumer = start(20, learns=True)
    for seq in range(1, 6):
        assert consumer.get(PATIENCE).seq == seq
        source.clock.advance(timedelta(seconds=1))

    assert [seq for seq, lease in source.leases.items() if lease] == [1, 2, 3, 4, 5]


def test_who_is_fast_has_ever_more_claimed_ahead(start: Start) -> None:
    """A claim is up to four times as large as the last; what is not taken soon is given back."""
    source, consumer = start(2_000, learns=True)
    for _ in range(600):
        consumer.get(PATIENCE)
    assert source.claims < 12
    _until(lambda: sum(map(bool, source.leases.values())) > 600)
    source.clock.advance(timedelta(seconds=1))

    _until(lambda: sum(map(bool, source.leases.values())) == 600)


def test_who_becomes_slow_gives_back_what_was_claimed_for_who_was_fast(start: Start) -> None:
    """The next claim after that takes one item again."""
    source, consumer = start(2_000, learns=True)
    for _ in range(600):
        consumer.get(PATIENCE)
    _until(lambda: sum(map(bool, source.leases.values())) > 600)
    source.clock.advance(timedelta(seconds=1))
    _until(lambda: sum(map(bool, source.leases.values())) == 600)

    assert consumer.get(PATIENCE).seq == 601
    assert sum(map(bool, source.leases.values())) == 601


def test_one_claim_serves_all_who_wait(start: Start) -> None:
    """Of those who wait at the same time none waits for a claim of his own."""
    source, consumer = start(0, learns=True)
    with ThreadPoolExecutor(4) as pool:
        taken = [pool.submit(consumer.get, PATIENCE) for _ in range(4)]
        _until(lambda: consumer._takers == 4)
        source.leases.update(dict.fromkeys(range(1, 5), 0))
        consumer.look_again()

        assert sorted(one.result(PATIENCE).seq for one in taken) == [1, 2, 3, 4]
    assert len(set(source.leases.values())) == 1


def test_a_claim_that_is_settled_is_not_renewed(start: Start) -> None:
    """When all of a claim was said and written, its lease may run out."""
    source, consumer = start(1, prefetch=2)
    assert _say(consumer, consumer.get(PATIENCE)).result(PATIENCE) is None
    source.clock.advance(LEASE * 2 / 3)
    for _ in range(3):
        consumer._next_look().result(PATIENCE)

    assert source.renewals == 0


def test_a_consumer_that_ends_gives_back_what_it_holds(start: Start) -> None:
    """What is ready goes to nobody once it is closed, and is free as soon as it has ended."""
    source, consumer = start(3)
    consumer.get(PATIENCE)
    consumer.close()

    with pytest.raises(QueueShutDownError):
        consumer.get(PATIENCE)
    _until(lambda: source.releases == 1)
    assert set(source.leases.values()) == {0}


def test_who_looks_when_a_consumer_ends_is_answered() -> None:
    """A look that was asked for after the last one waits for nothing, nor does a later one."""
    consumer = Consumer(cast("Outlet", FakeQueue(0)), 1, LEASE, 100)
    look = consumer._next_look()
    consumer.close()
    consumer.run(HOUR)

    assert look.done()
    assert consumer._next_look().done()


def test_a_consumer_begins_with_what_others_left(start: Start) -> None:
    """Results that a process left behind are settled before anything is claimed."""
    source, consumer = start(1)

    assert consumer.get(PATIENCE).seq == 1
    assert source.rescues == [0]


def test_of_many_losses_nobody_is_told_that_all_is_well() -> None:
    """An error names a thousand items: where it does, each outcome of the group counts as lost."""
    source = FakeQueue(NAMED + 5)
    consumer = Consumer(cast("Outlet", source), NAMED + 5, LEASE, NAMED + 5)
    claim = source.claim(NAMED + 5, LEASE)
    consumer._leases.add(cast("Any", claim), claim.seqs)
    source.steal()
    said = [
        PendingOutcome(Delivery(seq, claim.lease, 0, {}), Said("ack"), Future())
        for seq in claim.seqs
    ]
    consumer._settle(claim.lease, said)

    assert all(isinstance(one.future.exception(0), LeaseLostError) for one in said)


def test_an_item_is_put_as_it_is_at_that_moment() -> None:
    """A mapping that is used again for the next item changes none that was put."""
    row = {"path": "a", "tags": ["x"]}
    put = Put.of(row, Future())
    row["path"] = "b"
    cast("list[str]", row["tags"]).append("y")

    assert put.item == {"path": "a", "tags": ["x"]}
