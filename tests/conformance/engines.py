"""The engines that the conformance suite runs over, behind one protocol.

An engine declares what it can do; a scenario that needs more than that is not run on it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import pyarrow as pa
from pyspark.sql import SparkSession

from spark_queue.claim import Claim
from spark_queue.clock import ManualClock
from spark_queue.config import LiveSettings, QueueConfig
from spark_queue.config_changes import merge
from spark_queue.delta_queue import DeltaQueue
from spark_queue.errors import DuplicateItemError, LeaseLostError
from spark_queue.flow import stored_texts, stored_units
from spark_queue.flow_forms import expression_of
from spark_queue.local_queue import LocalQueue
from spark_queue.queue_views import store_of
from spark_queue.rules.rule_model import (
    Ack,
    Admitted,
    Dead,
    Defer,
    Grant,
    Nack,
    NewItem,
    Outcome,
    Release,
)
from spark_queue.rules.scheduler import Scheduler
from spark_queue.state.request import EnqueueRules
from spark_queue.views.items import collect

if TYPE_CHECKING:
    from typing_extensions import Unpack

Capability = Literal[
    "columns",
    "composed",
    "deferrals",
    "disk",
    "key limits",
    "key pauses",
    "leases",
    "limits",
    "on demand",
    "operators",
    "predicates",
    "priority",
    "replacing",
    "retries",
    "returns",
    "runs",
    "scopes",
    "states",
    "time",
    "views",
    "weights",
]

#: ``columns``: columns are added later; ``composed``: no key, or several, in one queue;
#: ``deferrals``: an item waits as its holder says;
#: ``disk``: queues are made, opened, copied and dropped by their path;
#: ``key limits``: keys have limits of items in flight, and rates; ``key pauses``: keys are paused;
#: ``leases``: claims that run out; ``limits``: an item has a limit of failures of its own;
#: ``on demand``: a claim chooses what is next, which is not out
#: as soon as it may run; ``operators``: pause, resume and explain; ``predicates``: items of one's
#: choice are cancelled and redriven; ``replacing``: rows replace others of their key;
#: ``retries``: attempts and dead letters; ``returns``: items
#: are given back to their place; ``runs``: a claim takes several items of a group; ``scopes``:
#: keys that outlive their item; ``states``: the state of every item; ``time``: delays and expiry;
#: ``views``: every verb that reads; ``weights``: a weight that changes counts for what waits.
EVERYTHING: frozenset[Capability] = frozenset(get_args(Capability))

#: Keys of the scenarios' items, as SQL over their columns.
KEYS = {"dedup_key": "key", "fair_key": "tenant", "group_key": "grp", "priority": "prio"}

SCHEMA = "id string, key string, tenant string, grp string, prio int"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """An item of a scenario, named by its id."""

    id: str
    key: str | None = None
    tenant: str | None = None
    group: str | None = None
    priority: int = 0
    cost: float = 1.0
    delay: float | None = None
    ttl: float | None = None
    max_attempts: int | None = None
    note: str | None = None
    """A value of the column that is added."""


class Held(Protocol):
    """What a claim gave, in order of service."""

    @property
    def ids(self) -> list[str]:
        """The ids of the items."""
        ...

    def settle(
        self,
        verb: str,
        ids: Iterable[str] | None = None,
        error: str | None = None,
        after: float | None = None,
        *,
        pause: bool = False,
    ) -> None:
        """Ack, nack, defer, release or dead-letter items, all of them by default.

        Where all of them are deferred, their tenants may be paused for as long.

        Raises
        ------
        LeaseLostError
            When some of them were lost.
        """
        ...

    def renew(self, seconds: float) -> None:
        """Extend the lease."""
        ...


class Engine(Protocol):
    """A queue under test, with a clock that is moved by hand."""

    capabilities: frozenset[Capability]

    def enqueue(self, rows: Sequence[Row]) -> list[str | None]:
        """Enqueue rows; return for each the id it duplicates, or None where it was inserted."""
        ...

    def claim(self, limit: int, *, run: int = 1, lease: float | None = None) -> Held:
        """Claim the next items."""
        ...

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        ...

    def states(self) -> dict[str, str]:
        """Return the state of every item by its id."""
        ...

    def cancel(self, *ids: str) -> None:
        """Cancel items."""
        ...

    def redrive(self, *ids: str, again: bool = False) -> None:
        """Enqueue finished items again; what was redriven before only if asked for."""
        ...

    def pause(self, key: str | None = None, by: str | None = None, for_: Any = None) -> None:
        """Stop giving out items, or those of a key."""
        ...

    def resume(self, key: str | None = None, by: str | None = None) -> None:
        """Give out items again, or those of a key."""
        ...

    def configure(self, **settings: Unpack[LiveSettings]) -> None:
        """Change live settings."""
        ...

    def add_notes(self) -> list[str]:
        """Give the queue a column for notes; return the names of the columns that are new."""
        ...

    def notes(self) -> dict[str, str | None]:
        """Return the note of every item by its id."""
        ...

    def why(self, item: str) -> tuple[str, str | None]:
        """Say why an item is not running, and by the id of which item that is, where by one."""
        ...

    def frees(self, item: str) -> tuple[float | None, int]:
        """Say in how many seconds the reason of an item ends, and how many more there are."""
        ...


class Replacing(Engine, Protocol):
    """An engine whose rows replace others of their key."""

    became: list[str]
    """What became of the rows that were enqueued last, and of which item that is."""

    def error(self, item: str) -> str | None:
        """Return the last error of an item; an item that it names is named by its id."""
        ...


def named(error: str | None, ids: Mapping[int, str]) -> str | None:
    """Return an error; an item that it names is named by its id."""
    return re.sub(r"(?<=replaced by )\d+", lambda found: ids[int(found[0])], error or "") or None


def name_successor(ids: dict[int, str], seq: int, origin: int) -> None:
    """Name the item that a redrive made: a prime more than those before it."""
    if seq in ids:
        return
    name = ids[origin] + "'"
    while name in ids.values():
        name += "'"
    ids[seq] = name


class SchedulerEngine:
    """The in-memory scheduler: the oracle."""

    capabilities = EVERYTHING - {"columns", "disk", "views"}

    def __init__(self, config: QueueConfig) -> None:
        self.scheduler = Scheduler(config)
        self.now = 0.0
        self.ids: dict[int, str] = {}
        self.pauses: dict[tuple[str, Hashable], float] = {}

    def enqueue(self, rows: Sequence[Row]) -> list[str | None]:
        rules = EnqueueRules().within(self.scheduler.config)
        items = [self._item(row) for row in rows]
        admitted = self.scheduler.admit(items, self.now, replacing=rules.replacing)
        self.ids |= {a.seq: row.id for a, row in zip(admitted, rows, strict=True)}
        self.became = [self._became(one) for one in admitted]
        refused = [one.duplicate_of for one in admitted if one.duplicate_of is not None]
        if rules.on_duplicate == "raise" and refused:
            # It has no such verb, and nothing was to be written.
            raise DuplicateItemError(len(refused), self.ids[refused[0]])
        return [None if a.duplicate_of is None else self.ids[a.duplicate_of] for a in admitted]

    def _became(self, one: Admitted) -> str:
        for word, other in (("replaces", one.replaces), ("follows", one.follows)):
            if other is not None:
                return f"{word} {self.ids[other]}"
        if one.duplicate_of is None:
            return "inserted"
        if one.holder is None:
            return f"replaced {self.ids[one.duplicate_of]}"
        return f"duplicate {self.ids[one.duplicate_of]} {one.holder}"

    def error(self, item: str) -> str | None:
        found = self.scheduler.item(self.seqs([item])[0])
        return None if found is None else named(found.error, self.ids)

    def claim(self, limit: int, *, run: int = 1, lease: float | None = None) -> SchedulerHeld:
        return SchedulerHeld(self, self.scheduler.claim(self.now, limit, run=run, lease=lease))

    def advance(self, seconds: float) -> None:
        self.now += seconds

    def states(self) -> dict[str, str]:
        found = {name: self.scheduler.state(seq) for seq, name in self.ids.items()}
        return {name: state for name, state in found.items() if state is not None}

    def cancel(self, *ids: str) -> None:
        self.scheduler.cancel(self.seqs(ids), self.now)

    def redrive(self, *ids: str, again: bool = False) -> None:
        for admitted in self.scheduler.redrive(self.seqs(ids), self.now, again=again):
            if admitted.duplicate_of is None:
                assert admitted.origin is not None
                name_successor(self.ids, admitted.seq, admitted.origin)

    def pause(self, key: str | None = None, by: str | None = None, for_: Any = None) -> None:
        if key is None:
            self.scheduler.pause()
            return
        until = math.inf if for_ is None else self.now + for_
        at = (expression_of(self.scheduler.config, by), key)
        self.pauses[at] = max(until, self.pauses.get(at, until))
        self.scheduler.pause_keys(self.pauses)

    def resume(self, key: str | None = None, by: str | None = None) -> None:
        if key is None:
            self.scheduler.resume()
            return
        self.pauses.pop((expression_of(self.scheduler.config, by), key), None)
        self.scheduler.pause_keys(self.pauses)

    def configure(self, **settings: Unpack[LiveSettings]) -> None:
        self.scheduler.configure(merge(self.scheduler.config, settings), self.now)

    def add_notes(self) -> list[str]:
        raise NotImplementedError

    def notes(self) -> dict[str, str | None]:
        raise NotImplementedError

    def why(self, item: str) -> tuple[str, str | None]:
        why = self.scheduler.explain(self.seqs([item])[0], self.now)
        return why.reason, None if why.by is None else self.ids[why.by]

    def frees(self, item: str) -> tuple[float | None, int]:
        why = self.scheduler.explain(self.seqs([item])[0], self.now)
        return None if why.until is None else round(why.until - self.now, 5), why.more

    def seqs(self, ids: Iterable[str]) -> list[int]:
        """Return the seqs of ids, in the order of the ids."""
        by_id = {name: seq for seq, name in self.ids.items()}
        return [by_id[name] for name in ids]

    def _item(self, row: Row) -> NewItem:
        columns = {"key": row.key, "tenant": row.tenant, "grp": row.group}
        config = self.scheduler.config
        return NewItem(
            payload=row.id,
            dedup_key=row.key,
            fair_key=row.tenant,
            group_key=row.group,
            flow_keys=tuple(columns[text] for text in stored_texts(config)),
            units=tuple(float(row.priority) for _ in stored_units(config)),
            priority=row.priority,
            cost=row.cost,
            available_at=None if row.delay is None else self.now + row.delay,
            expires_at=None if row.ttl is None else self.now + row.ttl,
            max_attempts=row.max_attempts,
        )


class SchedulerHeld:
    """A grant of the scheduler."""

    def __init__(self, engine: SchedulerEngine, grant: Grant) -> None:
        self._engine = engine
        self._grant = grant
        self.ids = [str(engine.ids[leased.seq]) for leased in grant.items]
        self._left = list(self.ids)

    def settle(
        self,
        verb: str,
        ids: Iterable[str] | None = None,
        error: str | None = None,
        after: float | None = None,
        *,
        pause: bool = False,
    ) -> None:
        outcomes: dict[str, Outcome] = {
            "ack": Ack(),
            "nack": Nack(error, after),
            "defer": Defer(after or 0.0, error),
            "release": Release(),
            "dead": Dead(error),
        }
        told = self._left if ids is None else list(ids)
        seqs = self._engine.seqs(told)
        settled = self._engine.scheduler.settle(
            self._grant.lease, dict.fromkeys(seqs, outcomes[verb]), self._engine.now
        )
        # What was lost its holder has not settled: it is told so each time.
        done = {self._engine.ids[seq] for seq in seqs if seq not in settled.lost}
        self._left = [name for name in self._left if name not in done]
        if settled.lost:
            raise LeaseLostError(settled.lost)
        for seq in seqs if pause else ():
            item = self._engine.scheduler.item(seq)
            assert item is not None
            self._engine.pause(str(item.new.fair_key), for_=after)

    def renew(self, seconds: float) -> None:
        left = self._engine.seqs(self._left)
        lost = self._engine.scheduler.renew(self._grant.lease, self._engine.now, seconds, left)
        if lost:
            raise LeaseLostError(lost)


def settle_rest(
    claim: Claim, verb: str, error: str, after: float | None, *, pause: bool = False
) -> None:
    """Settle all that is left of a claim."""
    if verb == "ack":
        claim.ack()
    elif verb == "release":
        claim.release()
    elif verb == "nack":
        claim.nack(error, after=after)
    elif verb == "defer":
        claim.defer(after or 0.0, error, pause=pause)
    else:
        claim.dead(error)


class QueueHeld:
    """A claim of a queue of tables."""

    def __init__(self, engine: QueueEngine, claim: Any, seqs: Iterable[int]) -> None:
        self._engine = engine
        self._claim = claim
        self.ids = [engine.ids[seq] for seq in seqs]

    def settle(
        self,
        verb: str,
        ids: Iterable[str] | None = None,
        error: str | None = None,
        after: float | None = None,
        *,
        pause: bool = False,
    ) -> None:
        if ids is None:
            settle_rest(self._claim, verb, error or "failed", after, pause=pause)
        else:
            said = (verb, error, None if after is None else float(after))
            self._engine.settle_each(self._claim, dict.fromkeys(self._engine.seqs(ids), said))

    def renew(self, seconds: float) -> None:
        self._claim.renew(timedelta(seconds=seconds))


#: What a holder says of an item: outcome, error and seconds.
Told = tuple[str, str | None, float | None]


class QueueEngine:
    """What the engines share that have a queue of tables."""

    capabilities: frozenset[Capability] = EVERYTHING
    has_notes = False
    queue: Any
    clock: ManualClock
    ids: dict[int, str]

    def held(self, claim: Any) -> Any:
        """Return a claim as a scenario has it."""
        raise NotImplementedError

    def settle_each(self, claim: Any, said: Mapping[int, Told]) -> None:
        """Settle items by their seqs."""
        raise NotImplementedError

    def table(self, frame: Any) -> pa.Table:
        """Return what a verb answers as a table."""
        raise NotImplementedError

    def claim(self, limit: int, *, run: int = 1, lease: float | None = None) -> Any:
        held_for = None if lease is None else timedelta(seconds=lease)
        return self.held(self.queue.claim(limit, run=run, lease=held_for))

    def claim_as(self, worker: str, claim_id: str, limit: int = 1) -> Any:
        """Claim under names that are the same in every queue."""
        return self.held(self.queue.claim(limit, worker_id=worker, claim_id=claim_id))

    def advance(self, seconds: float) -> None:
        self.clock.advance(timedelta(seconds=seconds))

    def pause(self, key: str | None = None, by: str | None = None, for_: Any = None) -> None:
        self.queue.pause(key=key, by=by, for_=for_)

    def resume(self, key: str | None = None, by: str | None = None) -> None:
        self.queue.resume(key=key, by=by)

    def configure(self, **settings: Unpack[LiveSettings]) -> None:
        self.queue.configure(**settings)

    def add_notes(self) -> list[str]:
        self.has_notes = True
        added: list[str] = self.queue.add_columns("note string")
        return added

    def why(self, item: str) -> tuple[str, str | None]:
        why = self.queue.explain(self.seqs([item])[0])
        return why.reason, None if why.by is None else self.ids[why.by]

    def frees(self, item: str) -> tuple[float | None, int]:
        why = self.queue.explain(self.seqs([item])[0])
        left = None if why.until is None else (why.until - self.clock.now()).total_seconds()
        return left if left is None else round(left, 5), why.more

    def seqs(self, ids: Iterable[str]) -> list[int]:
        """Return the seqs of ids, in the order of the ids."""
        by_id = {name: seq for seq, name in self.ids.items()}
        return [by_id[name] for name in ids]

    def values(self, row: Row) -> dict[str, object]:
        """Return the columns of a row, by their names."""
        now = self.clock.now()
        return {
            "id": row.id,
            "key": row.key,
            "tenant": row.tenant,
            "grp": row.group,
            "prio": row.priority,
            "cost": row.cost,
            "available_at": None if row.delay is None else now + timedelta(seconds=row.delay),
            "expires_at": None if row.ttl is None else now + timedelta(seconds=row.ttl),
            "max_attempts": row.max_attempts,
            **({"note": row.note} if self.has_notes else {}),
        }

    def name_outcomes(self, outcomes: pa.Table, rows: Sequence[Row]) -> list[str | None]:
        """Remember the seqs of rows; return for each the id of the item that it duplicates."""
        names = ["_seq", "id", "outcome", "duplicate_of", "holder"]
        found = outcomes.select(names).to_pylist()
        self.ids |= {row["_seq"]: row["id"] for row in found}
        holders = {row["id"]: self.ids.get(row["duplicate_of"]) for row in found}
        told = {row["id"]: (row["outcome"], holders[row["id"]], row["holder"]) for row in found}
        self.became = [" ".join(filter(None, told[row.id])) for row in rows]
        return [holders[row.id] for row in rows]

    def error(self, item: str) -> str | None:
        history = self.table(self.queue.history(self.seqs([item])[0]))
        return named(history["_error"][-1].as_py(), self.ids)

    def name_successors(self, status: pa.Table) -> None:
        """Name the items that were made by a redrive."""
        for row in status.select(["_seq", "_origin"]).sort_by("_seq").to_pylist():
            if row["_origin"] is not None:
                name_successor(self.ids, row["_seq"], row["_origin"])


class DeltaEngine(QueueEngine):
    """The durable queue on two Delta tables."""

    def __init__(self, spark: SparkSession, path: str, config: QueueConfig) -> None:
        self.clock = ManualClock()
        self.spark = spark
        # Spark takes a second for the same two tables, and has tests of its own for that.
        LocalQueue.create(path, SCHEMA, config, clock=self.clock, durability="process")
        self.queue: DeltaQueue = DeltaQueue.open(spark, path, clock=self.clock)
        self.ids: dict[int, str] = {}

    def enqueue(self, rows: Sequence[Row]) -> list[str | None]:
        more = ", cost double, available_at timestamp, expires_at timestamp, max_attempts bigint"
        more += ", note string" if self.has_notes else ""
        values = [tuple(self.values(row).values()) for row in rows]
        frame = self.spark.createDataFrame(values, SCHEMA + more)
        # Two partitions, so that no scenario leans on there being one.
        done = self.queue.enqueue(frame.repartition(2), order_by="id")
        return self.name_outcomes(done.outcomes.toArrow(), rows)

    def held(self, claim: Claim) -> QueueHeld:
        """Return a claim as a scenario has it."""
        rows = collect(store_of(self.queue), claim.lease) if claim.count else ()
        return QueueHeld(self, claim, (row["_seq"] for row in rows))

    def settle_each(self, claim: Claim, said: Mapping[int, Told]) -> None:
        """Settle items by their seqs."""
        rows = [(seq, *one) for seq, one in said.items()]
        schema = "_seq long, outcome string, error string, after double"
        claim.settle(self.spark.createDataFrame(rows, schema))

    def states(self) -> dict[str, str]:
        rows = self._status().select(["_seq", "_state"]).to_pylist()
        return {self.ids[row["_seq"]]: row["_state"] for row in rows}

    def cancel(self, *ids: str) -> None:
        self.queue.cancel(self.where(ids))

    def redrive(self, *ids: str, again: bool = False) -> None:
        self.queue.redrive(self.where(ids), again=again)
        self.name_successors(self._status())

    def _status(self) -> pa.Table:
        """Return all items, by the tables: what Spark shows has tests of its own."""
        seen = LocalQueue.open(self.queue.name, clock=self.clock, durability="process")
        return seen.status()

    def notes(self) -> dict[str, str | None]:
        rows = self.queue.status().select("_seq", "note").collect()
        return {self.ids[row["_seq"]]: row["note"] for row in rows}

    def make(
        self, path: str, schema: str = SCHEMA, *, exist_ok: bool = False, **config: Any
    ) -> DeltaQueue:
        """Make a queue at a path."""
        made = QueueConfig(**config)
        return DeltaQueue.create(
            self.spark, path, schema, made, clock=self.clock, exist_ok=exist_ok
        )

    def open(self, path: str) -> DeltaQueue:
        """Open the queue at a path."""
        return DeltaQueue.open(self.spark, path, clock=self.clock)

    def drop(self, path: str, **options: Any) -> int | None:
        """Drop the queue at a path."""
        return DeltaQueue.drop(self.spark, path, **options)

    def exists(self, path: str) -> bool:
        """Tell whether there is a queue at a path."""
        return DeltaQueue.exists(self.spark, path)

    def read(self, path: str) -> pa.Table:
        """Return the rows of a table at a path."""
        return self.table(self.spark.read.format("delta").load(path))

    def table(self, frame: Any) -> pa.Table:
        """Return a frame as a table; its instants are those of UTC, as they are without Spark."""
        given: pa.Table = frame.toArrow()
        zoned = [f.name for f in given.schema if getattr(f.type, "tz", None) is not None]
        for name in zoned:
            at = given.schema.get_field_index(name)
            given = given.set_column(at, name, given[name].cast(pa.timestamp("us", "UTC")))
        return given

    def columns(self) -> pa.Schema:
        """Return the user's columns, as Arrow has them."""
        return self.table(self.spark.createDataFrame([], self.queue.schema)).schema

    def where(self, ids: Iterable[str]) -> str:
        """Return the predicate that names items by their seqs."""
        return f"_seq IN ({', '.join(str(seq) for seq in self.seqs(ids))})"
