"""Claims chosen by SQL over the files of the logs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta import verify
from spark_queue.delta.planner import Chooser, EvidenceFirst
from spark_queue.delta.replica.claiming import LEASE_LOST, turns_ahead
from spark_queue.delta.replica.request import MARGIN, Choice, Request
from spark_queue.delta.sql import log_rows, scales
from spark_queue.delta.sql.database import Database
from spark_queue.delta.sql.reach import is_sure, nearest, reaches, wanted_of
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.heads import Pointer, StatusHead
from spark_queue.delta.tables.schema import CLAIMED, DEAD, EXPIRED, ITEM
from spark_queue.delta.tables.settings import Settings
from spark_queue.delta.tables.wishes import PlainSession
from spark_queue.delta.verify import Plan

_ASKED = pa.schema(
    [
        ("now", pa.int64()),
        ("takes_lapsed", pa.bool_()),
        ("max_age", pa.int64()),
        ("run", pa.int64()),
        ("group_limit", pa.int64()),
        ("blocking", pa.bool_()),
        ("max_in_flight", pa.int64()),
        ("max_losses", pa.int64()),
        ("since_step", pa.int64()),
        ("queue_step", pa.int64()),
        ("checkpoint_step", pa.int64()),
        ("reach", pa.float64()),
    ]
)

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlChoice(Choice):
    """Rows that a claim would write, and the facts of them."""

    rows: pa.Table
    """The columns of the log, and ``_was``: the state before."""

    def table(self) -> pa.Table:
        """See :class:`Choice`."""
        return self.rows.drop_columns("_was")

    def without(self, head: StatusHead, seqs: Collection[int]) -> SqlChoice:
        """See :class:`Choice`."""
        among = pc.is_in(self.rows["_seq"], pa.array(seqs, pa.int64()))
        return _choice(head, self.rows.filter(pc.invert(among)))


class SqlChooser:
    """Chooses for a claim by SQL, or leaves it to another where that is not for this engine.

    Parameters
    ----------
    beyond : Chooser
        The other.
    """

    def __init__(self, store: Store, request: Request, now: datetime, beyond: Chooser) -> None:
        self._store = store
        self._request = request
        self._now = now
        self._beyond = beyond

    def at(self, head: StatusHead, settings: Settings) -> Choice | None:
        """Choose as of a step; ``None`` where there is nothing to write.

        Raises
        ------
        EvidenceFirst
            When an item would be taken over from a claim that names an output.
        """
        try:
            ours = choose(self._store, head, settings, self._request, self._now)
        except log_rows.TooManyRowsError:
            return self._beyond.at(head, settings)
        if compares(self._store):
            self._compare(head, settings, ours)
        return ours

    def _compare(self, head: StatusHead, settings: Settings, ours: SqlChoice | None) -> None:
        """Hold a choice against that of the other engine.

        Raises
        ------
        PlannersDifferError
            When they are not the same; nothing was written.
        """
        theirs = self._beyond.at(head, settings)
        reach = nearest(settings, self._request)
        expired = [
            {row["_seq"]: row for row in _rows_of(choice) if row["_state"] == EXPIRED}
            for choice in (ours, theirs)
        ]
        # Neither need look further than for what the claim gets.
        far = {
            seq
            for seq in expired[0].keys() ^ expired[1].keys()
            if turns_ahead({**expired[0], **expired[1]}[seq], head, settings) > reach
        }

        def plan(choice: Choice | None) -> Plan | None:
            left = None if choice is None else choice.without(head, far)
            if left is None or not left.total():
                return None
            facts = {"counts": dict(left.counts), "pointers": dict(left.pointers)}
            after = replace(head, step=head.step + 1)
            return Plan(head=after, rows=left.table(), facts=facts)

        verify.checked(self._store, "claim", lambda: plan(ours), lambda: plan(theirs))


def compares(store: Store) -> bool:
    """Tell whether a decision is held against that of Spark."""
    return verify.is_wanted(store) and not isinstance(store.session, PlainSession)


def _rows_of(choice: Choice | None) -> list[dict[str, Any]]:
    return [] if choice is None else verify.rows_of(choice.table())


# rule again: paused queue
def choose(
    store: Store,
    head: StatusHead,
    settings: Settings,
    request: Request,
    now: datetime,
    settled: pa.Table | None = None,
) -> SqlChoice | None:
    """Choose the next items as of a step; ``None`` where there is nothing to write.

    Parameters
    ----------
    settled : pyarrow.Table, optional
        Rows of the step after that one, which the claim is to join.

    Raises
    ------
    EvidenceFirst
        When an item would be taken over from a claim that names an output.
    TooManyRowsError
        When more rows would be read than this process takes.
    """
    if settings.paused or store.outstanding(head) <= 0:
        return None
    with closing(Database(_variants(settings, request))) as database:
        claim = _Claim(database, store, head, settings, request, now)
        claim.read_states(settled)
        rows = claim.choose()
    return _choice(head, _to_log(rows, head, request, now)) if rows.num_rows else None


def _variants(settings: Settings, request: Request) -> dict[str, str]:
    """Return the texts for the queue as it is configured."""
    config = settings.config
    variants = {"timed2": "timed", "granted": "granted_once"}
    if config.fair_key is None:
        variants["placed"] = "placed_in_order"
    if config.group_key is None:
        variants["eligible"] = "eligible_alone"
    if config.group_key is None or config.group_limit * request.run == 1:
        variants["ranked"] = "ranked_alone"
    return variants


@dataclass(frozen=True, slots=True)
class _Claim:
    """One decision: the tables of its database, and what is asked of them."""

    database: Database
    store: Store
    head: StatusHead
    settings: Settings
    request: Request
    now: datetime

    def read_states(self, settled: pa.Table | None) -> None:
        """Have what was touched since the checkpoint, and by rows of the next step."""
        database, head = self.database, self.head
        states = log_rows.states_of(self.store, head)
        if settled is not None:
            states = log_rows.with_step(states, settled, head.step + 1)
        database.give("states", states)
        database.keep("latest")
        self._ask(None)
        if self.request.takes_lapsed and head.claimed:
            leases = database.rows("ranout")["lease"].to_pylist()
            if leases and log_rows.name_output(self.store, leases):
                raise EvidenceFirst
        untimed = database.rows("untimed")["seq"]
        database.give("times", log_rows.items_of(self.store, untimed, log_rows.TIMES))
        database.give("weights", scales.weights_of(self.settings, self._priorities()))
        database.give(
            "pointers",
            scales.pointers_of(head.pointers, head.checkpoint.pointers, self._priorities()),
        )
        database.keep("lines")

    def choose(self) -> pa.Table:
        """Return the rows that are chosen, looking further until they are enough."""
        database, limit = self.database, self.request.limit
        for reach in reaches(self.store, self.head, self.settings, self.request):
            facts = self._look(reach)
            if reach is None or self._is_enough(facts, reach):
                break
        if facts["room"] is not None and facts["lapsed"]:
            del database.variants["granted"]
            database.keep("first", limit)
            database.keep("placed2")
            database.give("late_turns2", _late_turns(database.rows("overdue2")))
        return database.rows("chosen", limit)

    def _is_tangled(self) -> bool:
        """Tell whether members of a group stand in several lines."""
        config = self.settings.config
        return config.fair_key is not None and config.group_key is not None

    def _look(self, reach: float | None) -> dict[str, int | None]:
        """Compute what is within reach, and return the facts of it."""
        database = self.database
        self._ask(reach)
        entered = log_rows.entered_of(self.store, self.head, self.settings, reach)
        facts = self._judge(entered)
        is_mixed = self._is_tangled() and (self.settings.stretches or facts["overdue"])
        if reach is not None and is_mixed and (more := self._before()).num_rows:
            facts = self._judge(pa.concat_tables([entered, more]))
        database.variants.pop("timed", None)
        if not facts["overdue"]:
            database.variants["timed"] = "timed_by_tag"
        else:
            database.give("late_turns", _late_turns(database.rows("overdue")))
        database.keep("ranked")
        return facts

    def _judge(self, entered: pa.Table) -> dict[str, int | None]:
        """Have items that only entered, and return the facts of all."""
        self.database.give("entered", entered)
        self.database.keep("judged")
        self.database.keep("placed")
        facts: dict[str, int | None] = self.database.rows("facts").to_pylist()[0]
        return facts

    def _before(self) -> pa.Table:
        """Return the items beyond reach that stand before one within it."""
        places = log_rows.PLACES
        waiting = log_rows.entered_of(self.store, self.head, self.settings, None, places)
        self.database.give("waiting", waiting)
        self.database.keep("far")
        seqs = self.database.rows("predecessors")["seq"]
        found = log_rows.items_of(self.store, seqs, log_rows.ENTERED)
        # Without a step they count, however far they are.
        at = found.schema.get_field_index("step")
        return found.set_column(at, "step", pa.nulls(found.num_rows, pa.int64()))

    def _is_enough(self, facts: Mapping[str, int | None], reach: float) -> bool:
        """Tell whether what comes next is within reach, so that nothing beyond matters."""
        room, eligible = facts["room"], facts["eligible"] or 0
        wanted = wanted_of(self.request.limit, room, facts["lapsed"] or 0)
        if room == 0 or eligible < wanted:
            return room == 0
        found = self.database.rows("within").to_pylist()
        within = {row["priority"]: row["items"] for row in found}
        return is_sure(self.store, self.head, self.settings, within, wanted, reach)

    def _ask(self, reach: float | None) -> None:
        config, request = self.settings.config, self.request
        max_age = self.store.limits().max_age
        asked = {
            "now": log_rows.micros(self.now),
            "takes_lapsed": request.takes_lapsed,
            "max_age": None if max_age is None else max_age // _MICROSECOND,
            "run": request.run,
            "group_limit": config.group_limit,
            "blocking": config.on_failure == "block",
            "max_in_flight": config.max_in_flight,
            "max_losses": config.max_losses,
            "since_step": self.store.registered().since_step,
            "queue_step": self.store.queue_head().step,
            "checkpoint_step": self.head.checkpoint.queue_step,
            "reach": reach,
        }
        self.database.give("asked", pa.Table.from_pylist([asked], _ASKED))

    def _priorities(self) -> list[int]:
        return sorted(self.store.queue_head().tops)


# rule again: slots of a line
def _late_turns(overdue: pa.Table) -> pa.Table:
    """Return the turns of overdue items: each a round behind the one before it in its line."""
    turns, turn = [], 0.0
    columns = (overdue[name].to_pylist() for name in ("nth", "v", "late", "inc"))
    for nth, v, late, inc in zip(*columns, strict=True):
        begin = v if late is None else max(v, late + inc)
        turn = begin if nth == 1 else turn + inc
        turns.append(turn)
    return pa.table({"seq": overdue["seq"], "turn": pa.array(turns, pa.float64())})


def _to_log(found: pa.Table, head: StatusHead, request: Request, now: datetime) -> pa.Table:
    """Return chosen items as rows of the log."""
    is_leased = pc.equal(found["state"], CLAIMED)
    said = {
        "kind": ITEM,
        "lease": head.step + 1,
        "at": now,
        "claim_id": (request.claim_id, is_leased),
        "worker_id": (request.worker_id, is_leased),
        "lease_expires_at": (now + request.lease, is_leased),
        "body": (request.output, is_leased),
        "error": (LEASE_LOST, pc.equal(found["state"], DEAD)),
    }
    return log_rows.status_rows(found, said).append_column("_was", found["was"])


def _choice(head: StatusHead, rows: pa.Table) -> SqlChoice:
    """Return rows of a claim with the facts of them."""
    by_kind = rows.group_by(["_state", "_was"]).aggregate([([], "count_all")]).to_pylist()
    leased = rows.filter(pc.equal(rows["_state"], CLAIMED))
    pointers: dict[int, Pointer] = {}
    last = leased.group_by("_priority").aggregate([("_turn", "max")])
    for priority, turn in zip(*(column.to_pylist() for column in last.columns), strict=True):
        is_last = pc.and_(pc.equal(leased["_priority"], priority), pc.equal(leased["_turn"], turn))
        pointers[priority] = (turn, pc.max(leased.filter(is_last)["_seq"]).as_py())
    ahead = (turn - head.pointers.get(p, (0.0, 0))[0] for p, (turn, _) in pointers.items())
    return SqlChoice(
        rows=rows,
        counts={(row["_state"], row["_was"]): row["count_all"] for row in by_kind},
        pointers=pointers,
        width=MARGIN * max(ahead, default=0.0),
    )
