"""Claims chosen by SQL over the files of the logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa

from spark_queue.flow import has_pass, is_paced
from spark_queue.log.heads import StatusHead
from spark_queue.log.schema import CLAIMED, ITEM
from spark_queue.overriding import override
from spark_queue.rules.bounds import Played
from spark_queue.rules.pacing import instant_of
from spark_queue.sql import limit_pass, log_rows
from spark_queue.sql.catalogue import SECOND, SETTING_COLUMNS
from spark_queue.sql.decisions import EvidenceFirst
from spark_queue.sql.limit_pass import KeysInFlight, LimitPass
from spark_queue.sql.reach import Facts, Reach
from spark_queue.sql.sql_engines import HERE, SqlEngine, Tables, asked_at, give_order, give_states
from spark_queue.state.claim_decision import debt_rows
from spark_queue.state.replica_rows import status_table
from spark_queue.state.request import Choice, Request, reached_by
from spark_queue.state.snapshot import Snapshot

ASKED = pa.schema(
    [
        ("now", pa.int64()),
        ("spared", pa.list_(pa.int64())),
        ("max_age", pa.int64()),
        ("run", pa.int64()),
        *SETTING_COLUMNS,
        ("since_step", pa.int64()),
        ("queue_step", pa.int64()),
        ("checkpoint_step", pa.int64()),
        ("reach", pa.float64()),
    ]
)

#: How often a claim looks before it looks at all.
_LOOKS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlChoice(Choice):
    """Rows that a claim would write, with facts about them."""

    engine: SqlEngine
    rows: Any
    """Rows of the view ``claim_rows``, in the engine's form."""
    said: Mapping[str, object]
    """Columns of the log that the view lacks."""
    beside: pa.Table | None
    """Rows of other kinds."""

    @override
    def table(self) -> Any:
        logs = self.engine.logs
        rows = logs.status_rows(self.rows, self.said)
        return rows if self.beside is None else logs.joined(rows, self.beside)


def choose(
    at: Snapshot,
    request: Request,
    now: datetime,
    after: tuple[StatusHead, Any] | None = None,
    by: SqlEngine = HERE,
) -> SqlChoice | None:
    """Choose the next items as of a step; ``None`` for nothing to write.

    Parameters
    ----------
    after : tuple of StatusHead and rows, optional
        The head after the rows of a settle, which the claim is to join in the next step.
    by : SqlEngine
        The engine.

    Raises
    ------
    EvidenceFirst
        When leases of claims that name outputs ran out, and are not spared.
    TooManyRowsError
        When more rows would be read than the engine takes.
    """
    head, settled = (at.status, None) if after is None else after
    if not at.has_to_give(head):
        return None
    with closing(by.start(_variants(at, request, now))) as database:
        keys = KeysInFlight(at.settings.config, is_chained=at.queue.has_chains)
        keys.pause(at.settings, now)
        claim = _Claim(by, database, at, head, request, now, keys)
        claim.read_states(settled)
        rows = claim.choose()
        choice = _choice(by, database, head, rows, _say(head, request, now), claim.debts())
    return choice if choice.total() else None


def play(
    at: Snapshot, now: datetime, item: int | None, most: int | None, by: SqlEngine = HERE
) -> Played:
    """Return what a claim would take now, one item of a group after the other.

    It has any length where it takes no number of items at most, and ends with an item that is
    asked about, where it takes that.

    Raises
    ------
    TooManyRowsError
        When more rows would be read than the engine takes.
    """
    if not at.has_to_give(at.status):
        return Played()
    request = Request(
        limit=at.outstanding if most is None else most,
        lease=at.settings.config.lease,
        worker_id="",
        run=1,
        claim_id="",
    )
    with closing(by.start(_variants(at, request, now))) as database:
        keys = KeysInFlight(at.settings.config, is_chained=at.queue.has_chains)
        keys.pause(at.settings, now)
        claim = _Claim(by, database, at, at.status, request, now, keys, is_played=True, item=item)
        claim.read_states(None)
        claim.decide()
        found = database.rows("granted_items", request.limit)["seq"]
        taken = claim.passes[0].taking if claim.passes else None
        return Played.of(frozenset(found.to_pylist()), taken)


def _variants(at: Snapshot, request: Request, now: datetime) -> dict[str, str]:
    """Return the variants of views for a configuration."""
    config = at.settings.config
    variants = {
        f"with_slot{SECOND}": "with_slot",
        "granted_items": "granted_items_in_one_stage",
    }
    if config.fair_key is None:
        variants["eligible_items"] = "eligible_items_in_one_line"
    if config.group_key is None or config.group_limit * request.run == 1:
        by_one = "without_groups" if config.group_key is None else "one_by_one"
        variants["startable_items"] = f"startable_items_{by_one}"
        variants["ranked_items"] = "ranked_items_one_by_one"
    return variants | limit_pass.variants_of(at.settings, now, is_chained=at.queue.has_chains)


@dataclass(frozen=True, slots=True)
class _Claim:
    """Decision about one claim, by tables of an engine."""

    engine: SqlEngine
    database: Tables
    at: Snapshot
    head: StatusHead
    request: Request
    now: datetime
    keys: KeysInFlight
    passes: list[LimitPass] = field(default_factory=list)
    """The last pass, where bounds ask for one."""
    is_played: bool = False
    """Whether nothing is written of it, so that no output is asked."""
    item: int | None = None
    """The item that ends it."""
    facts: dict[str, int | None] = field(default_factory=dict)
    """Counts of the last look."""

    @property
    def reach(self) -> Reach:
        """How far it looks ahead."""
        return Reach(self.at, self.head, self.request)

    def read_states(self, settled: Any) -> None:
        """Give the rows since the checkpoint, and of the settle in the same step."""
        database, logs, head = self.database, self.engine.logs, self.head
        give_states(database, self._states(settled), "last_steps", "open_rows", "line_turns")
        self._ask(None)
        for name, rows in limit_pass.key_tables(self.at.settings, self.now).items():
            database.give(name, rows)
        if is_paced(self.at.settings.config):
            self.keys.owe(logs.debts_of(self.at.store, head), instant_of(self.now.timestamp()))
        found = database.rows("recovery_facts").to_pylist()[0]
        if found["lapsed"] and not self.is_played:
            leases = {*database.rows("lapsed_leases")["lease"].to_pylist()} - self.request.spared
            if named := logs.with_output(self.at.store, leases):
                raise EvidenceFirst(named)
        times: Any = log_rows.NO_TIMES
        if found["without_times"]:
            times = logs.items_of(
                self.at.store, database.find("items_without_times"), log_rows.TIMES
            )
        database.give("times", times)
        give_order(database.give, head, self.at.settings, sorted(self.at.queue.tops))

    def _states(self, settled: Any) -> Any:
        states = self.engine.logs.states_of(self.at.store, self.head)
        if settled is None:
            return states
        return self.engine.logs.with_step(states, settled, self.head.step + 1)

    def choose(self) -> Any:
        """Return the chosen rows."""
        self.decide()
        return self.database.find("claim_rows", self.request.limit)

    def decide(self) -> None:
        """Look further until the items are enough."""
        database, limit = self.database, self.request.limit
        has_limits = has_pass(self.at.settings.config)
        if has_limits:
            self._look_at_keys()
        for look, (reach, entered) in enumerate(self._looks()):
            facts = self._look(reach, entered)
            if reach is not None and self._is_far():
                continue
            if reach is not None or look or (has_limits and not self._is_ranked_by_tag()):
                database.keep("ranked_items")
            taken = self._pass(facts) if has_limits else None
            if reach is None or self._is_enough(facts, reach, taken):
                break
        if facts["room"] is not None and facts["lapsed"]:
            database.variants["granted_items"] = limit_pass.two_stages(self.at.settings.config)
            database.keep("first_in_order", limit)
            database.keep(f"eligible_items{SECOND}")
            for taken in self.passes:
                taken.walk_lapsed()

    def _is_ranked_by_tag(self) -> bool:
        """Tell whether each item comes at its own tag: that takes no work."""
        variants = self.database.variants
        return "with_slot" in variants and "ranked_items" in variants

    def _is_tangled(self) -> bool:
        """Tell whether members of a group stand in several lines."""
        config = self.at.settings.config
        return config.fair_key is not None and config.group_key is not None

    def _looks(self) -> Iterator[tuple[float | None, Any]]:
        """Return reaches with the items entered within each, nearest first."""
        read, reach = 0.0, self.reach.first()
        # How many items a limit keeps back is not known.
        facts = None if has_pass(self.at.settings.config) else self.facts
        for look in range(_LOOKS):
            if reach > read:
                if self.reach.has_all(reach):
                    break
                read, entered = reach, self._enter(reach)
                reach = reach if look else self.reach.near(reach, entered)
            yield reach, entered if reach == read else self.reach.within(entered, reach)
            reach = self.reach.further(reach, read, look + 1, facts)
        yield None, self._enter(None)

    def _look(self, reach: float | None, entered: Any) -> dict[str, int | None]:
        """Judge the items within reach; return facts about them."""
        database = self.database
        self._ask(reach)
        facts = self._judge(entered)
        is_mixed = self._is_tangled() and (self.at.settings.stretches or facts["overdue"])
        if reach is not None and (is_mixed or self.at.queue.has_chains):
            before = self._before(facts["newest"] or 0)
            facts = facts if before is None else self._judge(entered, before)
        database.variants.pop("with_slot", None)
        if not facts["overdue"]:
            database.variants["with_slot"] = "with_slot_by_tag"
        self.facts.update(facts)
        return facts

    def _enter(self, reach: float | None) -> Any:
        wanted = self.keys.row_filter(self.at.reader_config)
        within = log_rows.Within(self.head, self.at.settings, reach, wanted=wanted)
        entered = self.engine.logs.entered_of(self.at.store, within)
        return self.keys.without_full(entered, self.at.reader_config)

    def _judge(self, *entered: Any) -> dict[str, int | None]:
        """Judge all open items, entered ones too; return facts about them."""
        self.database.give("entered", *entered)
        self.database.keep("with_place")
        self.database.keep("eligible_items")
        facts: dict[str, int | None] = self.database.rows("reach_facts").to_pylist()[0]
        return facts

    def _before(self, newest: int) -> Any:
        """Return the items beyond reach that stand before one within it; ``None`` for none.

        They are older than the newest of those; of a chain any may be.
        """
        has_chains = self.at.queue.has_chains
        before = None if has_chains else newest
        within = log_rows.Within(self.head, self.at.settings, None, log_rows.PLACES, before=before)
        self.database.give("waiting", self.engine.logs.entered_of(self.at.store, within))
        self.database.keep("items_beyond_reach")
        found = self.database.find("predecessors_with_chains" if has_chains else "predecessors")
        self.database.give("found_before", found)
        if self.database.is_empty("found_before"):
            return None
        # Without a step they count, however far they are.
        names = [name for name in log_rows.ENTERED if name != "_step"]
        return self.engine.logs.items_of(self.at.store, found, names)

    def _is_far(self) -> bool:
        """Tell whether an item may start that is beyond reach, as it has replaced one within."""
        has_chains = self.at.queue.has_chains
        return has_chains and bool(self.database.rows("eligible_beyond_reach").num_rows)

    def _is_enough(self, facts: Facts, reach: float, taken: LimitPass | None) -> bool:
        """Tell whether nothing beyond reach can come next."""
        if taken is not None:
            seen = taken.within
            return taken.is_over and self.reach.is_sure(seen, seen.total(), reach)
        room, wanted = facts["room"], self.reach.wanted(facts)
        if room == 0 or (facts["eligible"] or 0) < wanted:
            return room == 0
        found = self.database.rows("counts_within_reach").to_pylist()
        within = {row["priority"]: row["items"] for row in found}
        return self.reach.is_sure(within, wanted, reach)

    def _look_at_keys(self) -> None:
        """Learn which keys are in flight, from touched items alone."""
        self.database.give("entered", log_rows.NOTHING_ENTERED)
        self.keys.learn(self.database.rows("keys_in_flight"), self.request.limit)
        if not self.keys.is_any_full:
            self.database.variants.pop("standing_items")

    def _pass(self, facts: Facts) -> LimitPass:
        """Take what bounds allow of the items within reach."""
        config, request = self.at.settings.config, self.request
        taking = self.keys.bounds.start_pass(self.now.timestamp())
        terms = (request.limit, request.run, facts["room"])
        taken = LimitPass(self.database, config, *terms, self.keys, taking, self.item)
        taken.walk()
        self.passes[:] = [taken]
        return taken

    def debts(self) -> pa.Table | None:
        """Return rows of what keys owe after the claim; ``None`` for none."""
        debts = self.passes[0].taking.debts() if self.passes else ()
        return status_table(debt_rows(debts)) if debts else None

    def _ask(self, reach: float | None) -> None:
        asked = asked_at(self.now, self.at.settings.config, self.at.reader_config.max_age)
        asked |= {
            "spared": sorted(self.request.spared),
            "run": self.request.run,
            "since_step": self.at.facts.since_step,
            "queue_step": self.at.queue.step,
            "checkpoint_step": self.head.checkpoint.queue_step,
            "reach": reach,
        }
        self.database.give("asked", pa.Table.from_pylist([asked], ASKED))


def _say(head: StatusHead, request: Request, now: datetime) -> dict[str, object]:
    """Return the columns that all rows of a claim share, or those of a state."""
    return {
        "kind": ITEM,
        "lease": head.step + 1,
        "at": now,
        "claim_id": (request.claim_id, CLAIMED),
        "worker_id": (request.worker_id, CLAIMED),
        "lease_expires_at": (now + request.lease, CLAIMED),
        "body": (request.output, CLAIMED),
    }


def _choice(
    engine: SqlEngine,
    database: Tables,
    head: StatusHead,
    rows: Any,
    said: Mapping[str, object],
    beside: pa.Table | None,
) -> SqlChoice:
    """Return rows of a claim, with facts about them."""
    database.give("claim_rows", rows)
    counts: dict[tuple[str, str], int] = {}
    found = database.rows("claim_counts").to_pylist()
    for row in found:
        kind = (row["state"], row["was"])
        counts[kind] = counts.get(kind, 0) + row["items"]
    claimed = (row for row in found if row["state"] == CLAIMED)
    pointers, width = reached_by(
        head, ((row["priority"], row["turn"], row["seq"]) for row in claimed)
    )
    return SqlChoice(
        engine=engine,
        rows=rows,
        said=said,
        beside=beside,
        counts=counts,
        pointers=pointers,
        width=width,
    )
