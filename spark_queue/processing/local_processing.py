"""Process a queue without Spark: by threads or children, with results in a table."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue import saying
from spark_queue.claim import Claim
from spark_queue.columns.arrow import arrow_types
from spark_queue.columns.arrow.arrow_types import parse_fields
from spark_queue.commands import asking
from spark_queue.commands.key_pauses import keys_by
from spark_queue.errors import InvalidArgumentError
from spark_queue.item_context import Said
from spark_queue.log.delta.claim_record import ClaimRecord, error_room
from spark_queue.log.output.outputs import ResultTable
from spark_queue.overriding import override
from spark_queue.processing import interrupts
from spark_queue.processing.apart import can_fork
from spark_queue.processing.at_work import PausedHere
from spark_queue.processing.claim_length import Way, begin_within
from spark_queue.processing.claim_parts import Hands
from spark_queue.processing.crew import Crew
from spark_queue.processing.event_loop import Awaiting, EventLoop
from spark_queue.processing.handler_span import Continuing
from spark_queue.processing.loop import Asked, ProcessResult, run_claims
from spark_queue.processing.outcome_rows import columns_of
from spark_queue.sql import file_rows
from spark_queue.state.request import Request
from spark_queue.state.settle_decision import Some
from spark_queue.state.store import Store

#: The columns that results have besides their own.
_MARKS = (pa.field("_seq", pa.int64()), pa.field("_claim_id", pa.string()))


#: What is said of an item.
_SAID = ("outcome", "error", "after", "pause", "together")

#: How many items the first claim has: enough to tell how long they take.
_FIRST = 16

#: How often it is looked in the time that an item may take whether that is over.
_LOOKS = 4


def check(asked: Asked) -> None:
    """Raise where options do not go together without Spark, on any queue."""
    if asked.using == "processes" and not can_fork():
        raise InvalidArgumentError("using is 'processes', and this system has no fork")
    _columns(asked.returns)


def hands_for(store: Store, asked: Asked) -> LocalHands:
    """Return the hands for a queue without Spark."""
    columns = _columns(asked.returns)
    crew = Crew(
        handler=Continuing(asked.handler, store.name),
        per=asked.per,
        using=asked.using or "threads",
        max_workers=asked.max_workers,
        columns=columns_of(columns),
        item_limit=asked.item_limit(),
    )
    output = None if asked.output is None else asking.output(store, asked.output)
    request = asked.request(store, asked.max_workers)
    return LocalHands(store, request, crew, columns, output, asked.handler_name())


class LocalHands(Hands):
    """Hands that run a handler in threads or child processes.

    Parameters
    ----------
    store : Store
        The queue, as its reader sees it.
    request : Request
        What claims ask for.
    crew : Crew
        Who runs the handler.
    returns : pyarrow.Schema, optional
        The columns of results.
    output : ResultTable, optional
        Where they go.
    handler_name : str
        Which handler runs.
    """

    def __init__(
        self,
        store: Store,
        request: Request,
        crew: Crew,
        returns: pa.Schema | None,
        output: ResultTable | None,
        handler_name: str = "",
    ) -> None:
        self._store = store
        self._request = request
        self.crew = crew
        self._returns = returns
        self._output = output
        self._telling = _Telling("")
        self.patience = crew.item_limit / _LOOKS
        self.handler_name, self.first = handler_name, _FIRST
        self._way = Way()

    @override
    def begin(self, stop: threading.Event) -> Request:
        self.crew.stop = stop
        output = self._output
        if output is None or self._returns is None:
            return self._request
        # As Spark makes a table: the rows are checked for nulls, not the table.
        columns = pa.schema([one.with_nullable(True) for one in (*self._returns, *_MARKS)])
        if not output.exists():
            output.make(columns)
        there = output.require(columns)
        self.crew.columns = columns_of(_with_required(self._returns, there))
        # Claims that others left are settled first, by the rows of their output.
        return replace(self._request, output=output.location)

    @override
    def work(self, claim: Claim) -> float:
        store, self._telling = self._store, _Telling(claim.id)
        began = store.clock.now()
        config = store.settings(store.status_head()).config
        blocks = config.on_failure == "block"
        grant = file_rows.grant_of(store, claim.lease)
        self.crew.paused = PausedHere(partial(keys_by, config, grant))
        found, target = _items(store, claim, grant), begin_within(self._request, config)
        until = None if target is None else self._end_of(claim, target)
        if target != self._request.target:
            # To read a few items takes as long as a unit of a fast rate does: that is the way, and
            # what it takes longer for each of them is theirs.
            began = store.clock.now() - claim.count * self._way.each
        self.crew.is_late = lambda: until is not None and store.clock.now() >= until
        self._telling.rest = self.crew.work(found, blocks=blocks)
        return (store.clock.now() - began).total_seconds()

    def _end_of(self, claim: Claim, target: timedelta) -> datetime:
        """Return until when items of a claim begin: what held it up is lost to them."""
        took = self._store.clock.now() - claim.claimed_at
        return claim.claimed_at + self._way.note(claim.count, took, target) + target

    @override
    def tell_part(self, claim: Claim) -> Some | None:
        telling = self._telling
        if telling.claim_id != claim.id:
            # Its items are not read yet.
            return Some({})
        # A part that may have been written is written again unchanged.
        if telling.part is None:
            telling.part = self.crew.take()
        outcomes = telling.part
        if not self._is_written(outcomes, claim, part=telling.parts + 1):
            return None
        telling.note_part()
        return _verdict(outcomes)

    @override
    def tell(self, claim: Claim) -> Some | None:
        rest = self._telling.rest
        return _verdict(rest) if self._is_written(rest, claim, part=None) else None

    def _is_written(self, outcomes: pa.Table, claim: Claim, part: int | None) -> bool:
        """Write the results of a part; False where the claim was taken over."""
        self.is_unasked |= self._returns is None and bool(pc.any(outcomes["unasked"]).as_py())
        if self._output is None:
            return True
        is_whole = part is None and self._telling.told + outcomes.num_rows == claim.count
        return _write(
            self._output, outcomes, _record(outcomes, claim, is_whole=is_whole, part=part)
        )

    @override
    def look(self) -> bool:
        return self.crew.look()

    @override
    def progress(self) -> Mapping[int, Said]:
        return self.crew.at_work.news()

    @override
    def note_written(self, news: Mapping[int, Said]) -> None:
        self.crew.at_work.note_written(news)

    @override
    def lose(self, seqs: Sequence[int]) -> None:
        self.crew.at_work.lose(seqs)


def process(store: Store, asked: Asked) -> ProcessResult:
    """Claim, run and settle until the queue is empty, the time is up, or someone stops it."""
    with EventLoop() as loop:
        hands = hands_for(store, replace(asked, handler=Awaiting(asked.handler, loop)))
        run = partial(run_claims, store, hands, asked)
        if threading.current_thread() is threading.main_thread():
            cut = hands.crew.cut.set
            return interrupts.on_a_thread(run, asked.stop, cut=cut, again=cut)
        return run(asked.stop or threading.Event())


def _columns(returns: object) -> pa.Schema | None:
    """Read the columns of results; a name of our own is none."""
    if returns is None:
        return None
    found = returns if isinstance(returns, pa.Schema) else _from_ddl(returns)
    names = [name.lower() for name in found.names]
    for name in names:
        if name in {mark.name for mark in _MARKS} or names.count(name) > 1:
            raise InvalidArgumentError(f"returns has the column {name!r}, which is there already")
    return found


def _from_ddl(returns: Any) -> pa.Schema:
    fields = parse_fields(returns, "returns")
    return pa.schema([pa.field(one.name, arrow_types.type_of(one), one.nullable) for one in fields])


def _with_required(returns: pa.Schema, there: pa.Schema) -> pa.Schema:
    """Return the columns of results, those NOT NULL that the table has so."""
    required = {column.name for column in there if not column.nullable}
    return pa.schema([one.with_nullable(False) if one.name in required else one for one in returns])


def _items(store: Store, claim: Claim, grant: pa.Table) -> pa.Table:
    """Read the items of a claim, in the order of service."""
    found = file_rows.require_items(store, grant, claim.count, claim.id)
    return file_rows.in_order(found, grant, keep=file_rows.HIDDEN)


@dataclass(slots=True)
class _Telling:
    """The outcomes of a claim that are written, part by part."""

    claim_id: str
    parts: int = 0
    """Parts that were told."""
    told: int = 0
    """Items in these."""
    part: pa.Table | None = None
    """Outcomes of the part that is being told."""
    rest: pa.Table | None = None
    """Outcomes that no part had before the handler was done."""

    def note_part(self) -> None:
        """Note that the part was told."""
        self.parts, self.told, self.part = self.parts + 1, self.told + len(self.part or ()), None


def _write(output: ResultTable, outcomes: pa.Table, record: ClaimRecord) -> bool:
    """Write the results of acked items; False where the claim was taken over."""
    rows = outcomes.filter(_has_row(outcomes))
    if not rows.num_rows:
        return True
    results = rows["result"].combine_chunks()
    columns = dict(zip([field.name for field in results.type], results.flatten(), strict=True))
    name = pa.repeat(pa.scalar(record.claim_id), rows.num_rows)
    table = pa.table({**columns, "_seq": rows["_seq"], "_claim_id": name})
    if record.part is None:
        return output.write(table, record.claim_id, record.text(), is_all_done=record.is_all_done())
    return output.write_part(table, record.claim_id, record.part, record.text())


def _has_row(outcomes: pa.Table) -> pa.ChunkedArray:
    return pc.and_(pc.equal(outcomes["outcome"], "ack"), pc.is_valid(outcomes["result"]))


def _record(outcomes: pa.Table, claim: Claim, *, is_whole: bool, part: int | None) -> ClaimRecord:
    room = error_room(len(outcomes) - outcomes["error"].null_count)
    is_done = pc.equal(outcomes["outcome"], "ack") if is_whole else _has_row(outcomes)
    rest = _rows_of(outcomes.filter(pc.invert(is_done)))
    return ClaimRecord(
        claim_id=claim.id,
        outcomes={seq: said._replace(error=said.error and said.error[:room]) for seq, said in rest},
        is_whole=is_whole,
        part=part,
    )


def _verdict(outcomes: pa.Table) -> Some:
    return Some(dict(_rows_of(outcomes)))


def _rows_of(outcomes: pa.Table) -> Iterator[tuple[int, saying.Said]]:
    columns = (outcomes[name].to_pylist() for name in _SAID)
    return zip(outcomes["_seq"].to_pylist(), map(saying.Said.of, *columns), strict=True)
