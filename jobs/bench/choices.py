"""Random histories of a queue whose every step is decided by the rules in memory and by SQL.

SQL is run by DuckDB; with ``--spark`` also over what Spark reads, and by Spark.

The two have to agree in the rows that a claim writes: items and their order, turns, what is
overdue, losses, what has expired and what is dead. So they have in the rows of an enqueue: what is
refused and for whom, places, ends of lines and groups. Each claim is chosen three times by SQL:
twice it looks a few turns ahead first, as in a queue of millions. ``python choices.py --histories
5000``, or ``--histories 100 --spark``.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
from rich.console import Console

from choices_drawn import COLUMNS, LEASE, Drawn
from spark_queue import ReaderConfig
from spark_queue.clock import ManualClock
from spark_queue.commands import readers, rows, settle
from spark_queue.commands.admin import checkpoint
from spark_queue.commands.settle import refunds
from spark_queue.config import OnDuplicate
from spark_queue.errors import LeaseLostError
from spark_queue.flow import key_texts
from spark_queue.local_queue import LocalQueue
from spark_queue.log.schema import CANCELLED, EXPIRED, RATE, STATUS_COLUMNS
from spark_queue.saying import Said
from spark_queue.session import SMALL_STEPS_CONF, local_session
from spark_queue.sql import admission, choosing, reach, settlement
from spark_queue.sql.checkpointing import stage
from spark_queue.sql.entry_rows import EnqueueState
from spark_queue.sql.sql_engines import HERE, SqlEngine
from spark_queue.state import claim_decision, enqueue_decision, replica_choice
from spark_queue.state.request import EnqueueRules, Request
from spark_queue.state.settle_decision import ByARescuer, Every, Gone, Renewed, Some, Verdict
from spark_queue.state.snapshot import Snapshot
from step_texts import texts_of

_CONSOLE = Console()

#: Seconds between two steps.
_PAUSES = (0, 0, 0, 1, 7, 12, 31)
#: Settings that are changed at once.
_TOGETHER = ("on_duplicate", "debounce", "at_most")


class ChoicesDifferError(AssertionError):
    """The rules and SQL differ about a step."""


class Played:
    """One queue, and a random history of it.

    Parameters
    ----------
    place : Path
        A folder that is not there yet.
    seed : int
        Decides everything.
    is_thorough : bool
        Whether each claim and each settle is decided by SQL in all ways, and not in one of them.
    spark : SparkSession, optional
        By whose engines it is decided as well.
    """

    def __init__(
        self, place: Path, seed: int, *, is_thorough: bool = True, spark: Any = None
    ) -> None:
        self.seed = seed
        self._spark = spark
        self._is_thorough = is_thorough
        self.counts: Counter[str] = Counter()
        self._draw = random.Random(seed)  # noqa: S311 - it has to be repeatable, not secret
        self._drawn = Drawn(self._draw)
        self._clock = ManualClock()
        self.config = self._drawn.config()
        self._queue = LocalQueue.create(
            place, COLUMNS, self.config, durability="process", clock=self._clock
        )
        self._readers: list[Any] = [self._queue]
        self._claims: list[Any] = []

    def play(self, steps: int = 16) -> Counter[str]:
        """Go through the history; return how much there was to compare.

        Raises
        ------
        ChoicesDifferError
            When the rules and SQL do not choose the same.
        """
        self._enqueue()
        for _ in range(steps):
            self._clock.advance(timedelta(seconds=self._draw.choice(_PAUSES)))
            what = self._draw.random()
            if what < 0.25:  # noqa: PLR2004
                self._enqueue()
            elif what < 0.62:  # noqa: PLR2004
                self._claim(self._draw.choice(self._readers))
            elif what < 0.84:  # noqa: PLR2004
                self._settle()
            else:
                self._other()
        return self.counts

    def _enqueue(self) -> None:
        given = [self._drawn.row(self._clock.now()) for _ in range(self._draw.randint(1, 12))]
        choices: tuple[OnDuplicate | None, ...] = (None, None, "skip", "replace")
        asked = self._draw.choice(choices)
        self._compare_enqueue(given, EnqueueRules(on_duplicate=asked))
        if self.config.fair_key is None:
            # Rows without keys, too: in a queue of one line Spark only numbers them.
            keyless = [row | {"id": None} for row in given]
            self._compare_enqueue(keyless, EnqueueRules(on_duplicate=asked))
        self._queue.enqueue(given, on_duplicate=asked)

    def _compare_enqueue(self, given: list[dict[str, Any]], asked: EnqueueRules) -> None:
        store, now = self._readers[0]._store, self._clock.now()  # noqa: SLF001 - as an enqueue does
        at = Snapshot(store)
        every = readers.all_of(at)
        pointers, replica = readers.slowest(at, every), replica_choice.of_all(at, every)
        assert replica is not None  # noqa: S101 - the queue is small
        frame, rules = rows.check_rows(store, given), asked.within(at.settings.config)
        ours = enqueue_decision.decide_entry(
            replica, at.settings, frame.rows, at.queue, pointers, now, rules.replacing
        )
        entered = ours.facts()
        first = (texts_of(ours.rows), len(ours.duplicates), dict(ours.tops), entered.replacing)
        for read, engine in self._engines(store):
            entry = EnqueueState(
                store=read,
                before=at.queue,
                pointers=pointers,
                settings=at.settings,
                rules=rules,
                readers=[read.of_reader(one.store.reader) for one in every],
                now=now,
            )
            found, facts = admission.admit(rows.check_rows(read, given), entry, engine)
            self.counts["numbered"] += facts.engine != engine.name
            told = (facts.duplicates, dict(facts.tops), facts.replacing)
            second = (texts_of(found), *told)
            if first != second:
                only = [*(first[0] - second[0]), *(second[0] - first[0])]
                raise ChoicesDifferError(
                    f"seed {self.seed}, an enqueue, {engine}: {first[1:]} {second[1:]}\n"
                    f"{self.config}\n" + "\n".join(only)
                )
        self.counts["enqueues"] += 1
        self.counts["rows"] += len(given)
        self.counts["duplicates"] += len(ours.duplicates)
        self.counts["replacing"] += entered.replacing

    def _claim(self, reader: Any) -> None:
        draw = self._draw
        request = Request(
            limit=draw.choice((1, 2, 4, 30)),
            lease=LEASE,
            worker_id="w",
            run=draw.choice((1, 1, 1, 2, 3)) if self.config.group_key else 1,
            claim_id="c",
            spared=frozenset(c.lease for c in self._claims if draw.random() < 0.1),  # noqa: PLR2004
        )
        self._compare(reader._store, request)  # noqa: SLF001 - as a claim does
        claim = reader.claim(request.limit, run=request.run)
        if claim.count:
            self._claims = [claim, *self._claims][:5]

    def _compare(self, store: Any, request: Request) -> None:
        at, now = Snapshot(store), self._clock.now()
        replica = replica_choice.at_hand(at)
        assert replica is not None  # noqa: S101 - the queue is small
        decided = claim_decision.choose(replica, at.status, at.terms, request, now).table()
        # Where nothing is in flight no claim gives units back; a checkpoint forgets what came back.
        same = {} if at.status.claimed else {"_refunds": None}
        ours = [{**row, **same} for row in decided.to_pylist()]
        for width in _WIDTHS if self._is_thorough else (_WIDTHS[self.seed % len(_WIDTHS)],):
            for store_of, engine in self._engines(store):
                with looking(width):
                    found = choosing.choose(Snapshot(store_of), request, now, by=engine)
                rows = [] if found is None else _rows_of(found.table())
                rows = [{**row, **same} for row in rows]
                self._require_same(ours, rows, request, is_whole=width == _WIDTHS[-1])
        self.counts["claims"] += 1
        self.counts["items"] += len(ours)
        self.counts["overdue"] += sum(bool(row["_overdue"]) for row in ours)
        self.counts["replaced"] += sum(row["_state"] == "cancelled" for row in ours)
        self.counts["debts"] += sum(row["_kind"] == RATE for row in ours)
        self.counts["over"] += sum(row["_state"] not in ("claimed", None) for row in ours)
        self.counts["lost"] += sum((row["_losses"] or 0) > 0 for row in ours)

    def _engines(self, store: Any) -> Iterator[tuple[Any, SqlEngine]]:
        yield store, HERE
        if self._spark is not None:
            from spark_queue.spark.spark_engines import engines_of  # noqa: PLC0415 - only there

            read = store.in_session(self._spark)
            yield from ((read, engine) for engine in engines_of(read))

    def _require_same(
        self, ours: list[Any], rows: list[Any], request: Request, *, is_whole: bool
    ) -> None:
        first, second = _split(ours), _split(rows)
        # A claim that looks near need not meet what has expired further back.
        has_same_ends = first[1] == second[1] if is_whole else first[1] >= second[1]
        if first[0] != second[0] or not has_same_ends:
            raise ChoicesDifferError(
                f"seed {self.seed}, {request}, all: {is_whole}\n{self.config}\n"
                f"rules {first}\nsql   {second}"
            )

    def _settle(self) -> None:
        if not self._claims:
            return
        draw, claim = self._draw, self._draw.choice(self._claims)
        seqs = [row["_seq"] for row in claim.rows]
        some = draw.sample(seqs, draw.randint(1, len(seqs)))
        said = {seq: self._drawn.said() for seq in some}
        if draw.random() < 0.3:  # noqa: PLR2004
            # As a runner that stops gives back what it has not begun.
            said = dict.fromkeys(some, Said("release", is_begun=False))
        choices = (Some(said), Every(*self._drawn.said()), Renewed(LEASE))
        self._compare_settle(claim, draw.choice(choices))
        # A user's claim gives no units back.
        settle.settle(claim._store, claim.lease, Some(said))  # noqa: SLF001 - as a runner does

    def _compare_settle(self, claim: Any, verdict: Verdict) -> None:
        store, now = claim._store, self._clock.now()  # noqa: SLF001 - as a settle does
        at = Snapshot(store)
        replica = replica_choice.at_hand(at)
        assert replica is not None  # noqa: S101 - the queue is small
        every = (verdict, Gone(now, frozenset()), ByARescuer(verdict))
        for gone in every if self._is_thorough else (self._draw.choice(every),):
            ours = settle.judge_here(at, replica, claim.lease, gone, now)
            if ours is None:
                return
            failed = (ours.failed, ours.deferred)
            first = (dict(ours.counts), ours.lost, failed, _sorted(ours.table()))
            for read, engine in self._engines(store):
                found = settlement.settle(Snapshot(read), claim.lease, gone, now, engine)
                failed = (found.failed, found.deferred)
                second = (dict(found.counts), found.lost, failed, _sorted(found.rows))
                if first != second:
                    why = f"rules {first}\nsql   {second}"
                    raise ChoicesDifferError(f"seed {self.seed}, {engine}, {gone}\n{why}")
            self._compare_refunds(at, claim.lease, gone, ours.table(), now)
            self.counts["settles"] += 1

    def _compare_refunds(
        self, at: Snapshot, lease: int, verdict: Verdict, settled: Any, now: datetime
    ) -> None:
        """Hold the units that come back by memory against those by the tables."""
        if at.status.checkpoint.step >= lease:
            # The tables do not say what a claim before a checkpoint charged.
            return
        first = refunds(at, lease, verdict, settled, now)
        with mock.patch.object(replica_choice, "at_hand", return_value=None):
            second = refunds(at, lease, verdict, settled, now)
        ours, theirs = (None if one is None else texts_of(one) for one in (first, second))
        if ours != theirs:
            raise ChoicesDifferError(f"seed {self.seed}, {verdict}: {ours} is not {theirs}")
        self.counts["refunds"] += 0 if first is None else first.num_rows

    def _compare_checkpoint(self, store: Any) -> None:
        """Hold a checkpoint of each engine, for other weights, against that of the first."""
        at, changed = Snapshot(store), None
        if self.config.fair_key is not None:
            config = at.settings.config.changed(weights=self._drawn.weights())
            changed = at.settings.reconfigured(config, at.status.pointers)
        kept = [
            sorted(map(repr, _rows_of(stage(Snapshot(read), changed, None, engine).rows)))
            for read, engine in self._engines(store)
        ]
        if any(rows != kept[0] for rows in kept):
            raise ChoicesDifferError(f"seed {self.seed}, a checkpoint: {kept}")
        self.counts["checkpoints"] += 1

    def _other(self) -> None:
        draw = self._draw
        what = draw.choice(
            ("settings", "settings", "pause", "pause", "maintain", "reader", "renew", "forget")
        )
        if what == "settings":
            settings = self._drawn.settings(self.config)
            name = draw.choice(list(settings))
            names = _TOGETHER if name in _TOGETHER else (name,)
            draw.choice(self._readers).configure(**{one: settings[one] for one in names})
        elif what == "pause":
            self._pause(draw.choice(self._readers))
        elif what == "maintain":
            store = draw.choice(self._readers)._store  # noqa: SLF001 - a task of maintenance
            if self._spark is not None:
                self._compare_checkpoint(store)
            checkpoint(store)
        elif what == "reader" and len(self._readers) == 1:
            limits = ReaderConfig(max_age=timedelta(seconds=50))
            first = self._queue.reader("first")
            second = self._queue.reader("second", start="beginning", config=limits)
            self._readers = [first, second]
        elif what == "renew" and self._claims:
            with suppress(LeaseLostError):
                draw.choice(self._claims).renew()
        elif what == "forget":
            self._readers[0]._store.forget()  # noqa: SLF001 - as another process begins

    def _pause(self, reader: Any) -> None:
        """Pause a key for a time or without an end, or resume it."""
        draw, texts = self._draw, [text for text in key_texts(self.config) if text is not None]
        if not texts:
            return
        at = {"by": draw.choice(texts), "key": draw.choice("abcghxy")}
        if draw.random() < 0.3:  # noqa: PLR2004
            reader.resume(**at)
        else:
            reader.pause(**at, for_=draw.choice((None, 3, 20, 60)))
        self.counts["pauses"] += 1


def _rows_of(rows: Any) -> list[Any]:
    """Return the rows that would be written, with instants in UTC."""
    table = rows if isinstance(rows, pa.Table) else rows.toArrow()
    return list(table.cast(STATUS_COLUMNS.arrow).to_pylist())


def _sorted(rows: Any) -> list[Any]:
    return sorted(_rows_of(rows), key=lambda row: row["_seq"])


def _split(rows: list[Any]) -> tuple[list[Any], Counter[str]]:
    """Return the rows of leased items in their order, and those of items that are over."""
    leased = [row for row in rows if row["_state"] == "claimed"]
    passed = (EXPIRED, CANCELLED)
    over = Counter(repr(row) for row in rows if row["_state"] in passed)
    # Those of debts are among the others, in any order.
    dead = [row for row in rows if row["_state"] not in ("claimed", *passed)]
    return [*leased, *sorted(dead, key=repr)], over


#: How many turns ahead a claim looks first: one; some, of which it tries a part before; or all.
_WIDTHS = (1.0, 6.0, 1e9)


@contextmanager
def looking(width: float) -> Iterator[None]:
    """Let a claim look some turns ahead first."""
    with (
        mock.patch.object(reach.Reach, "first", return_value=width),
        mock.patch.object(reach.Reach, "_least", return_value=min(width, 64.0) / 4),
        mock.patch.object(reach, "_WIDER", 3),
    ):
        yield


def main() -> int:
    """Play so many histories; say what differed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=5_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--spark", action="store_true")
    asked = parser.parse_args()
    counts: Counter[str] = Counter()
    differing, spark = 0, local_session(quiet=True, **SMALL_STEPS_CONF) if asked.spark else None
    for seed in range(asked.first, asked.first + asked.histories):
        with tempfile.TemporaryDirectory() as place:
            try:
                played = Played(Path(place) / "q", seed, is_thorough=spark is None, spark=spark)
                counts += played.play()
            except ChoicesDifferError as difference:
                differing += 1
                _CONSOLE.print(str(difference))
        if seed % 10 == 9:  # noqa: PLR2004
            _CONSOLE.print(f"{seed + 1 - asked.first}: {dict(counts)}; {differing} differ")
    _CONSOLE.print(f"{asked.histories} histories: {dict(counts)}; {differing} differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
