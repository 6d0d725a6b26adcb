"""Objects that public calls are made of, and good values for the parameters that are not tried."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from spark_queue import (
    Claim,
    DeltaIdempotencyKeyStore,
    DeltaQueue,
    DurableQueue,
    FrontOptions,
    JournaledQueue,
    Limit,
    Metrics,
    QueueConfig,
    QueueOptions,
    Rate,
    Reader,
    ReaderConfig,
    RetryPolicy,
    current_item,
    inprocess,
    journaled_queue,
)
from spark_queue.journal import MemoryJournal
from spark_queue.replay import Job, history, rehearse, replay
from spark_queue.state.request import GrantedClaim
from spark_queue.testing import ManualClock, memory_queue
from tests.unit.test_bad_input import NOBODY

SCHEMA = "id int, tenant string"
CONFIG = QueueConfig(
    dedup_key="id",
    fair_key="tenant",
    group_key="tenant",
    retry=RetryPolicy(delay=timedelta(0)),
)
NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
ROWS = [{"id": number, "tenant": "ab"[number % 2]} for number in range(6)]


_JOBS = [Job(number=1, user="a", submitted=0.0, runs_for=1.0)]


def _handler(_item: object) -> None: ...


@dataclass
class World:
    """What is made for one try, how many steps it wrote, and what ends it."""

    made: dict[str, Any] = field(default_factory=dict)
    steps: int = 0
    ends: list[Callable[[], object]] = field(default_factory=list)

    def count(self, _facts: object) -> None:
        """Count a step, as the listener of a queue."""
        self.steps += 1

    def close(self) -> None:
        """End what runs threads."""
        for end in reversed(self.ends):
            end()

    def get(self, name: str) -> Any:
        """Return an object by the name of its class, made when it is first asked for."""
        if name not in self.made:
            self.made[name] = MAKERS[name](self)
        return self.made[name]


def _queue(world: World) -> Any:
    queue = memory_queue(SCHEMA, CONFIG, clock=ManualClock(), listener=world.count)
    queue.enqueue(ROWS)
    queue.claim(2).dead("it was bad")
    queue.claim(1).nack("it failed")
    return queue


def _plain(world: World) -> Any:
    queue = memory_queue("id int", clock=ManualClock(), listener=world.count)
    queue.enqueue([{"id": 1}, {"id": 2}])
    return queue


def _front(world: World) -> DurableQueue:
    soon = timedelta(milliseconds=1)
    options = FrontOptions(linger=soon, prefetch=4, poll_every=soon)
    front = DurableQueue(world.get("LocalQueue"), options=options)
    world.ends.append(front.close)
    return front


def _delivery(world: World) -> Any:
    return world.get("DurableQueue").get(timeout=5)


def _journaled(world: World) -> JournaledQueue[Any]:
    queue: JournaledQueue[Any] = JournaledQueue(
        MemoryJournal(), options=QueueOptions(durability="memory"), config=ReaderConfig()
    )
    world.ends.append(queue.close)
    queue.reader("r")
    for item in ("a", "b", "c"):
        queue.put(item).result(5)
    return queue


def _on_tables(world: World) -> JournaledQueue[Any]:
    queue = journaled_queue(world.get("plain queue"))
    world.ends.append(queue.close)
    queue.reader("r")
    queue.put(1).result(5)
    return queue


def _guarded(world: World, guard: Any) -> Any:
    world.ends.append(lambda: guard.stop(force=True, deadline=5))
    return guard


def _fair(_: World) -> Any:
    queue = inprocess.FairQueue(key=type)
    queue.put("a").put("b")
    return queue


def _distinct(_: World) -> Any:
    queue: Any = inprocess.DistinctQueue()
    queue.add_all(["a", "b"])
    return queue


def _blocking(_: World) -> Any:
    queue: Any = inprocess.BlockingQueue()
    queue.put("a")
    queue.put("b")
    return queue


def _singular(world: World) -> Any:
    queue: Any = inprocess.SingularUpdateQueue(lambda item: item)
    queue.start()
    world.ends.append(lambda: queue.shutdown(drain=False))
    return queue


def _take(world: World) -> Any:
    take: Any = world.get("DistinctQueue").take(1, timeout=1)
    take.__enter__()
    return take


def _transaction(world: World) -> Any:
    return world.get("JournalReader").open_one(timeout=1)


class _Keys(DeltaIdempotencyKeyStore):
    """A store of keys that asks no table."""

    def __init__(self) -> None:
        pass

    def _answer(self, key: str, asks: object) -> Any:
        raise AssertionError(f"{asks} of {key} is asked of a table")


def _pending(_: World) -> Any:
    calls: Any = inprocess.PendingCalls()
    calls.begin("a")
    return calls


def _worked(world: World) -> Any:
    queue = world.get("LocalQueue")
    queue.process(_handler, limit=1)
    return queue


def _log(world: World) -> Any:
    log: Any = inprocess.WriteAheadLog("log")
    world.ends.append(log.close)
    return log


#: By the name of a class, how an object of it is made. A public class that is missing here has
#: methods that nobody tries: the table says so.
MAKERS: dict[str, Callable[[World], Any]] = {
    "LocalQueue": _queue,
    "Limit": lambda _: Limit(by="tenant", default=1),
    "Rate": lambda _: Rate(limit=1, per=timedelta(seconds=1)),
    "plain queue": _plain,
    "Report": lambda world: world.get("LocalQueue").report(),
    "LocalReader": lambda world: world.get("LocalQueue").reader("mail"),
    "LocalClaim": lambda world: world.get("LocalQueue").claim(2),
    "Claim": lambda _: Claim(
        NOBODY,
        GrantedClaim(step=3, count=2, claim_id="c", claimed_at=NOON, lease_expires_at=NOON),
    ),
    "CurrentItem": lambda _: current_item(),
    "DeltaQueue": lambda _: DeltaQueue(NOBODY),
    "Reader": lambda _: Reader(NOBODY),
    "DeltaIdempotencyKeyStore": lambda _: _Keys(),
    "DurableQueue": _front,
    "AioDurableQueue": lambda world: world.get("DurableQueue").aio,
    "JournaledQueue": _journaled,
    "journal on tables": _on_tables,
    "AioJournaledQueue": lambda world: world.get("JournaledQueue").aio,
    "JournalReader": lambda world: world.get("JournaledQueue").reader("r"),
    "AioJournalReader": lambda world: world.get("JournalReader").aio,
    "AutoCommitReader": lambda world: world.get("JournalReader").auto_commit(),
    "Transaction": _transaction,
    "Metrics": lambda _: Metrics(),
    "QueueConfig": lambda _: CONFIG,
    "ReaderConfig": lambda _: ReaderConfig(),
    "RetryPolicy": lambda _: RetryPolicy(),
    "ManualClock": lambda _: ManualClock(),
    "BlockingQueue": _blocking,
    "AioBlockingQueue": lambda world: world.get("BlockingQueue").aio,
    "FairQueue": _fair,
    "AioFairQueue": lambda world: world.get("FairQueue").aio,
    "DistinctQueue": _distinct,
    "AioDistinctQueue": lambda world: world.get("DistinctQueue").aio,
    "Take": _take,
    "SingularUpdateQueue": _singular,
    "WorkerPool": lambda _: inprocess.WorkerPool(1),
    "PendingCalls": _pending,
    "QueueBroker": lambda world: _guarded(world, inprocess.QueueBroker(2)),
    "Guard": lambda world: _guarded(world, inprocess.ExclusiveGuard()),
    "ExclusiveGuard": lambda world: _guarded(world, inprocess.ExclusiveGuard()),
    "ConcurrentGuard": lambda world: _guarded(world, inprocess.ConcurrentGuard()),
    "BoundedGuard": lambda world: _guarded(world, inprocess.BoundedGuard(object, 1)),
    "OnceGuard": lambda world: _guarded(world, inprocess.OnceGuard(lambda _signal: 1)),
    "InProcessLock": lambda _: inprocess.InProcessLock(),
    "InMemoryIdempotencyKeyStore": lambda _: inprocess.InMemoryIdempotencyKeyStore(),
    "Rehearsal": lambda world: rehearse(history(_worked(world)), workers=1),
    "Replay": lambda _: replay(_JOBS, 1),
    "WriteAheadLog": _log,
}

#: Good values by the name of a parameter, or of a call and its parameter.
GOOD: dict[str, Callable[[World], Any]] = {
    "fraction": lambda _: 0.5,
    "attempts": lambda _: 1,
    "by": lambda _: timedelta(seconds=1),
    "cls": lambda _: None,
    "config": lambda _: None,
    "checkpoint": lambda _: "/tmp/never",  # noqa: S108 - it is not made
    "arrivals": lambda _: NOBODY,
    "completions": lambda _: NOBODY,
    "create": lambda _: object,
    "default_result": lambda _: lambda *_: None,
    "delivery": _delivery,
    "df": lambda _: NOBODY,
    "after": lambda _: 1.0,
    "error": lambda _: "it failed",
    "files": lambda _: "nowhere",
    "group": lambda _: "a",
    "handler": lambda _: _handler,
    "held": lambda world: world.get("LocalQueue"),
    "into": lambda world: world.get("LocalQueue"),
    "item": lambda _: "a",
    "items": lambda _: ["d"],
    "jobs": lambda _: _JOBS,
    "journal": lambda _: MemoryJournal(),
    "key": lambda _: "a",
    "FairQueue.key": lambda _: type,
    "inprocess.idempotent.key": lambda _: str,
    "limit": lambda _: 1,
    "length": lambda _: 1,
    "lock_id": lambda _: "a",
    "make": lambda _: lambda _signal: 1,
    "max": lambda _: 1,
    "max_active": lambda _: 1,
    "max_resources": lambda _: 1,
    "n": lambda _: 1,
    "name": lambda _: "r",
    "operation": lambda _: lambda *_: 1,
    "order": lambda _: "fair",
    "order_by": lambda _: "at",
    "output": lambda _: "nowhere/output",
    "outcomes": lambda _: {1: "ack"},
    "past": lambda world: history(_worked(world)),
    "path": lambda _: "nowhere/q",
    "plain": lambda _: {},
    "predicate": lambda _: lambda _item: True,
    "queue": lambda world: world.get("LocalQueue"),
    "owner": lambda _: "a",
    "ranked": lambda _: NOBODY,
    "read": lambda world: world.get("JournalReader").get_nowait(),
    "reader": lambda _: "r",
    "reads": lambda _: [],
    "rows": lambda _: [{"id": 9, "tenant": "a"}],
    "schema": lambda _: SCHEMA,
    "seq": lambda _: 1,
    "servers": lambda _: 1,
    "source": lambda world: world.get("plain queue"),
    "spark": lambda _: NOBODY,
    "step": lambda _: 1,
    "store": lambda _: inprocess.InMemoryIdempotencyKeyStore(),
    "task": lambda _: lambda _turn: 1,
    "threads": lambda _: 1,
    "submitted": lambda _: 0.0,
    "runs_for": lambda _: 1.0,
    "number": lambda _: 1,
    "user": lambda _: "a",
    "token": lambda _: "a",
    "keys": lambda _: {},
    "max_waiting": lambda _: 1,
    "future": lambda _: Future(),
    "timeout": lambda _: 0.01,
    "where": lambda _: {"id": -1},
    "Rate.per": lambda _: timedelta(seconds=1),
    "Rate.limit": lambda _: 1,
}


def good(call: str, name: str, world: World) -> Any:
    """Return a good value of a parameter."""
    make = GOOD.get(f"{call}.{name}") or GOOD.get(f"{call.partition('.')[0]}.{name}") or GOOD[name]
    return make(world)
