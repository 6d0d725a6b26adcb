"""The pass of a claim by SQL: an engine puts items in order, and the rule takes one by one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.columns.arrow.functions import join_texts
from spark_queue.config import QueueConfig
from spark_queue.flow import has_pass, key_texts, stored_texts, stored_units
from spark_queue.log.delta.log_files import RowFilter
from spark_queue.log.settings import Settings
from spark_queue.reader_config import ReaderConfig
from spark_queue.rules.bounds import Bounds, Pass
from spark_queue.rules.limiting import KeyPlaces, Limited
from spark_queue.rules.pacing import UnitsAsked, nanos_of
from spark_queue.sql.log_rows import micros
from spark_queue.sql.sql_engines import Tables
from spark_queue.state.replica_rows import read_debts

LIMITED = pa.schema(
    [("nth", pa.int64()), ("place", pa.int64()), ("path", pa.string()), ("most", pa.int64())]
)
OVERRIDES = pa.schema([("nth", pa.int64()), ("key", pa.string()), ("most", pa.int64())])
PAUSED_BY = pa.schema([("nth", pa.int64()), ("place", pa.int64()), ("path", pa.string())])
PAUSES = pa.schema([("nth", pa.int64()), ("key", pa.string()), ("until", pa.int64())])
RATES = pa.schema(
    [
        ("nth", pa.int64()),
        ("place", pa.int64()),
        ("path", pa.string()),
        ("by", pa.string()),
        ("units_path", pa.string()),
        ("per", pa.int64()),
        ("most", pa.float64()),
        ("burst", pa.float64()),
    ]
)
RATE_OVERRIDES = pa.schema([("nth", pa.int64()), ("key", pa.string()), ("most", pa.float64())])
CLOSED = pa.schema([("nth", pa.int64()), ("key", pa.string())])
CHOSEN = pa.schema([("seq", pa.int64()), ("pos", pa.int64())])
REACHED = pa.schema([("priority", pa.int64()), ("turn", pa.float64()), ("seq", pa.int64())])

#: When a pause ends that lasts until its key is resumed.
OPEN_END = 2**63 - 1

#: What a block of candidates has beside those that the claim wants, so many at first; and what is
#: before the first.
_MORE, _MOST = 1_000, 100_000
_START = (2**32, 0.0, 0)

#: The places of the fair key and the group key; stored ones come after them.
_OWN = 2


class Candidate(NamedTuple):
    """An item in the order of service: a row of ``pass_candidates``."""

    seq: int
    priority: int
    turn: float
    place: str
    fair_key: str | None
    group_key: str | None
    flow_keys: str | None
    units: str | None

    @property
    def is_lapsed(self) -> bool:
        """Whether its lease ran out."""
        return self.place == "lost"


def variants_of(settings: Settings, now: datetime, *, is_chained: bool) -> dict[str, str]:
    """Return the variants of a claim's views by limits, rates, pauses and chains."""
    kept = _variants_of_places(settings, now, is_chained=is_chained)
    if not has_pass(settings.config):
        return kept
    return {
        **kept,
        "standing_items": "standing_items_with_limits",
        "first_in_order": "first_in_order_by_pass",
    }


def _variants_of_places(settings: Settings, now: datetime, *, is_chained: bool) -> dict[str, str]:
    """Return the variants of views where no key is paused, or items replace each other."""
    by_time = {} if settings.paused_at(now) else {"with_place": "with_place_by_time"}
    return by_time | ({"timed_items": "timed_items_with_chains"} if is_chained else {})


def two_stages(config: QueueConfig) -> str:
    """Return the view of what a claim gets where lapsed items have slots of a full queue."""
    return "granted_items_with_limits" if has_pass(config) else "granted_items"


def question_variants(settings: Settings, now: datetime, *, is_chained: bool) -> dict[str, str]:
    """Return the variants of views that say what limits and pauses keep back."""
    kept = {} if settings.config.limits else {"kept_back": "nothing_kept_back"}
    kept |= {} if settings.config.rates else {"lacking_units": "no_lacking_units"}
    return kept | _variants_of_places(settings, now, is_chained=is_chained)


#: The tables of bounds, and of bounds and pauses.
BOUND_TABLES = ("limited", "overrides", "rates", "rate_overrides")
KEY_TABLES = ("paused_by", "pauses", *BOUND_TABLES)


def key_tables(settings: Settings, now: datetime) -> dict[str, pa.Table]:
    """Return where the keys of limits and pauses are in an item, and their numbers and ends.

    Rates have numbers below zero, as the pass has them.
    """
    limits, pauses = settings.config.limits, settings.paused_at(now)
    texts = key_texts(settings.config)
    limited = [
        {**_place_row(nth, texts.index(one.by)), "most": one.default}
        for nth, one in enumerate(limits)
    ]
    limited += [
        {**_place_row(-1 - nth, texts.index(one.by)), "most": None}
        for nth, one in enumerate(settings.config.rates)
        if one.by is not None
    ]
    overrides = [
        {"nth": nth, "key": key, "most": most}
        for nth, limit in enumerate(limits)
        for key, most in limit.overrides.items()
    ]
    places = [texts.index(one.by) for one in pauses]
    paused_by = [_place_row(place, place) for place in sorted({*places})]
    ends = [
        {"nth": place, "key": one.key, "until": micros(one.until) if one.until else OPEN_END}
        for place, one in zip(places, pauses, strict=True)
    ]
    rows = (paused_by, ends, limited, overrides, *_rate_rows(settings.config))
    kinds = (PAUSED_BY, PAUSES, LIMITED, OVERRIDES, RATES, RATE_OVERRIDES)
    return {
        name: pa.Table.from_pylist(some, kind)
        for name, some, kind in zip(KEY_TABLES, rows, kinds, strict=True)
    }


def _rate_rows(config: QueueConfig) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """Return the rates, and other limits of some keys: Arrow takes no large int for a double."""
    texts, units = key_texts(config), stored_units(config)
    rates = [
        {
            **_place_row(nth, -1 if one.by is None else texts.index(one.by)),
            "by": one.text,
            "units_path": None if one.units is None else f"$[{units.index(one.units)}]",
            "per": nanos_of(one),
            "most": one.limit and float(one.limit),
            "burst": one.burst and float(one.burst),
        }
        for nth, one in enumerate(config.rates)
    ]
    overrides: list[dict[str, object]] = [
        {"nth": nth, "key": key, "most": most and float(most)}
        for nth, rate in enumerate(config.rates)
        for key, most in rate.overrides.items()
    ]
    return rates, overrides


def _place_row(nth: int, place: int) -> dict[str, object]:
    """Return the number of a rule by key, and where its key is in an item."""
    return {"nth": nth, "place": place, "path": f"$[{place - _OWN}]"}


class KeysInFlight:
    """Keys of bounds of which a claim finds items in flight, and what keys owe.

    Attributes
    ----------
    bounds : Bounds
        Those that have room: of full keys no item is a candidate.
    """

    def __init__(self, config: QueueConfig, *, is_chained: bool = False) -> None:
        self.bounds = Bounds(config)
        self.is_any_full = True
        self._config, self._is_chained = config, is_chained
        self._columns = _columns_of(config)
        self._is_grouped = config.group_key is not None
        self._full: dict[str, pa.Array] = {}

    def learn(self, found: pa.Table, wanted: int) -> None:
        """Learn the rows of ``keys_in_flight``, but for keys with room for all that is wanted."""
        room = found["room"]
        full = found.filter(pc.less_equal(room, 0))
        self.is_any_full = bool(full.num_rows) or any(
            0 in (limit.default, *limit.overrides.values()) for limit in self._config.limits
        )
        for nth, column in self._columns.items():
            keys = full.filter(pc.equal(full["nth"], nth))["key"].combine_chunks()
            stopped = [k for k, most in self._config.limits[nth].overrides.items() if most == 0]
            self._keep_back(column, pa.concat_arrays([keys, pa.array(stopped, keys.type)]))
        near = found.filter(pc.and_(pc.greater(room, 0), pc.less(room, wanted)))
        names = ("nth", "key", "items")
        for nth, key, items in zip(*(near[name].to_pylist() for name in names), strict=True):
            self.bounds.in_flight.flights[nth, key] = items

    def pause(self, settings: Settings, now: datetime) -> None:
        """Take the paused keys, of which no item is a candidate either."""
        texts, pauses = key_texts(settings.config), settings.paused_at(now)
        for place, column in enumerate(_column_names(settings.config)):
            keys = [one.key for one in pauses if texts.index(one.by) == place]
            self._keep_back(column, pa.array(keys, pa.string()))

    def _keep_back(self, column: str, keys: pa.Array) -> None:
        if not len(keys):
            return
        found = join_texts([keys]) if column == "flow_keys" else keys
        known = self._full.get(column)
        self._full[column] = found if known is None else pa.concat_arrays([known, found])

    def owe(self, rows: pa.Table, now: int | None = None) -> None:
        """Take debts from rows of a log, as :func:`read_debts`."""
        for (by, key), debt in read_debts(rows, now).items():
            self.bounds.paces.learn(by, key, debt)

    def keys_of(self, one: Candidate) -> tuple[tuple[Limited, ...], tuple[UnitsAsked, ...]]:
        """Return the bounded keys of an item, as :meth:`Bounds.find`."""
        stored = json.loads(one.flow_keys) if one.flow_keys else ()
        units = json.loads(one.units) if one.units else None
        # Of each key a claim has few items.
        return self.bounds.find_anew((one.fair_key, one.group_key, *stored), units)

    def without_full(self, entered: Any, reader_config: ReaderConfig) -> Any:
        """Return items that wait, without those of full keys, of which there may be very many.

        The claim passes them. Those that may be past their time stay, as it ends them, and so do
        those of a queue with groups, whose later members stay behind them, and those that may
        have replaced others.
        """
        if not isinstance(entered, pa.Table) or not self._may_leave_out(reader_config):
            return entered
        return entered.filter(self._stays(entered))

    def row_filter(self, reader_config: ReaderConfig) -> RowFilter | None:
        """Return the same for items that are read; ``None`` for all."""
        if not self._may_leave_out(reader_config):
            return None
        names = ("expires_at", *self._full)
        own = [f"_{name}" for name in names]
        return RowFilter(own, lambda rows: self._stays(rows.select(own).rename_columns(names)))

    def _may_leave_out(self, reader_config: ReaderConfig) -> bool:
        return (
            bool(self._full)
            and not (self._is_grouped or self._is_chained)
            and reader_config.max_age is None
        )

    def _stays(self, rows: pa.Table) -> pa.ChunkedArray:
        is_full = [pc.is_in(rows[name], keys) for name, keys in self._full.items()]
        return pc.invert(pc.and_(reduce(pc.or_, is_full), pc.is_null(rows["expires_at"])))


def _column_names(config: QueueConfig) -> list[str]:
    """Return the columns that tell keys, by their places in an item."""
    # Of several stored ones one alone cannot be told.
    return ["fair_key", "group_key", *["flow_keys"] * (len(stored_texts(config)) == 1)]


def _columns_of(config: QueueConfig) -> dict[int, str]:
    """Return the columns that tell the keys of which items are in flight, by their bounds."""
    names = _column_names(config)
    places = enumerate(KeyPlaces.of(config, config.limits).places)
    return {nth: names[at] for nth, at in places if at is not None and at < len(names)}


@dataclass(slots=True)
class LimitPass:
    """One claim's pass over the candidates of an engine.

    Attributes
    ----------
    limit : int
        How many items the claim wants.
    taking : Pass
        What keeps items back.
    last : int, optional
        An item that it ends with.
    within : Counter
        By priority: the items that it takes, and the one that ends it.
    is_over : bool
        Whether no later candidate is taken.
    """

    database: Tables
    config: QueueConfig
    limit: int
    run: int
    room: int | None
    keys: KeysInFlight
    taking: Pass
    last: int | None = None
    chosen: list[int] = field(default_factory=list)
    within: Counter[int] = field(default_factory=Counter)
    is_over: bool = False

    def walk(self) -> None:
        """Take items in order, and give the engine which."""
        has_several = self._has_several()
        if has_several:
            for row in self.database.rows("kept_groups").to_pylist():
                self.taking.keep_back(row["seq"], row["group_key"])
        # A full queue has slots for those alone that come in the second stage.
        self.is_over = self.room == 0
        for block in self._blocks(may_skip=not has_several):
            self._take(block)
        self.database.give("chosen", _choice_of(self.chosen))

    def walk_lapsed(self) -> None:
        """Take lapsed items that the first stage left, as if no others waited."""
        first, self.room = len(self.chosen), 0
        self.is_over = self._is_complete() or self.taking.is_over
        if not self.is_over:
            if self.config.rates and self._has_several():
                self._keep_heads()
            self._take(self.database.rows("lapsed_candidates"))
        self.database.give("chosen_when_full", _choice_of(self.chosen[first:]))

    def _has_several(self) -> bool:
        """Tell whether several members of a group may be in flight."""
        return self.config.group_limit * self.run > 1

    def _keep_heads(self) -> None:
        """Note the members of groups that lack units, as lapsed ones may stand behind them."""
        paces, now = self.keys.bounds.paces, self.taking.tally.now
        for one in _candidates(self.database.rows("due_with_lapsed")):
            if paces.lacking(self.keys.keys_of(one)[1], now):
                self.taking.keep_back(one.seq, one.group_key)

    def _blocks(self, *, may_skip: bool) -> Iterator[pa.Table]:
        """Return candidates in order; of later blocks those whose keys have room, where it may."""
        wanted = min(self.limit, _MOST) if self.last is None else 0
        name, size, reached = "pass_candidates", wanted + _MORE, _START
        while not self.is_over:
            self.database.give("reached", pa.table([[one] for one in reached], schema=REACHED))
            yield (block := self.database.rows(name, size))
            if block.num_rows < size:
                return
            (last,) = _candidates(block.slice(size - 1))
            reached, size = (last.priority, last.turn, last.seq), 2 * size
            if may_skip:
                closed = self.taking.closed_keys()
                columns = [[nth for nth, _ in closed], [key for _, key in closed]]
                self.database.give("closed", pa.table(columns, schema=CLOSED))
                name = "pass_candidates_of_open_keys"

    def _take(self, block: pa.Table) -> None:
        for candidate in _candidates(block):
            if self.is_over:
                return
            self._look_at(candidate)

    def _look_at(self, one: Candidate) -> None:
        limited, asked = self.keys.keys_of(one)
        if not self.taking.takes(one.seq, one.group_key, limited, asked, is_lapsed=one.is_lapsed):
            if self.taking.is_over:
                self.within[one.priority] += 1
                self.is_over = True
            return
        self.within[one.priority] += 1
        if self.room is not None and not one.is_lapsed:
            if not self.room:
                self.is_over = True
                return
            self.room -= 1
        self.taking.charge(limited, asked, is_lapsed=one.is_lapsed)
        self.chosen.append(one.seq)
        self.is_over = self._is_complete()

    def _is_complete(self) -> bool:
        """Tell whether it has taken all that is wanted."""
        is_last = self.last is not None and self.chosen[-1:] == [self.last]
        return is_last or len(self.chosen) >= self.limit


def _candidates(rows: pa.Table) -> Iterator[Candidate]:
    # One by one: thousands at once are what Python collects garbage among.
    return map(Candidate, *rows.to_pydict().values())


def _choice_of(seqs: list[int]) -> pa.Table:
    return pa.table([seqs, list(range(len(seqs)))], schema=CHOSEN)
