"""Claim: the items of a holder, and the ways to settle them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from importlib import import_module
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

from spark_queue import commands, saying, sql, state
from spark_queue.checks import require_duration
from spark_queue.errors import (
    InvalidArgumentError,
    LeaseLostError,
    RetryAfter,
    SparkNeededError,
    require_after,
)
from spark_queue.item_context import read_progress
from spark_queue.log.schema import TRACE
from spark_queue.saying import (
    Settlement,
    require_error,
    require_said,
    said_of,
)
from spark_queue.state.store import Store
from spark_queue.wording import instant, plural, shorten, text_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from typing_extensions import Self

    from spark_queue.state.request import GrantedClaim, Request
    from spark_queue.state.settle_decision import Verdict
    from spark_queue.state.snapshot import Snapshot


#: What a holder says of an item: an outcome, or one with an error, and with how long it waits.
Said: TypeAlias = (
    str | tuple[str, str | None] | tuple[str, str | None, float | timedelta | None] | saying.Said
)

#: What a claim gives its holder.
_ClaimT = TypeVar("_ClaimT", bound="Claim")


class Claim:
    """Items that only this holder may work on until its lease ends.

    A claim is a context manager: leaving the block acks the unsettled items, an exception nacks
    them with the exception's text (``RetryAfter`` defers them), and an interruption
    (``KeyboardInterrupt``, ``SystemExit``) releases them without charging an attempt.

    Attributes
    ----------
    id : str
        The id of the claim: claiming again with it gives the same items.
    lease : int
        The step that granted the lease, which names it; 0 for an empty claim.
    count : int
        How many items it holds.
    over : tuple of int
        Of a claim that was asked for again by its id, the items (``_seq``) that it does not hold
        any more: settled before, lost or ended. They are not among its items.
    claimed_at : datetime
        When the items were claimed.
    lease_expires_at : datetime
        When others may take the items, unless the lease is renewed.
    """

    def __init__(self, store: Store, granted: GrantedClaim) -> None:
        self._store = store
        self.id = granted.claim_id
        self.lease = granted.step
        self.count = granted.count
        self.over = granted.over
        self.claimed_at = granted.claimed_at
        self.lease_expires_at = granted.lease_expires_at
        self._said: str | None = None

    @property
    def items(self) -> DataFrame:
        """The claimed items: the user's columns, ``_seq``, ``_lease`` and ``_attempts``.

        The frame reads the queue when it is used, each time the same rows, and nothing passes
        through the driver; but up to 16 MiB of items of a queue on this machine's disk are read at
        once.
        ``_attempts`` counts failed attempts before this one.
        """
        items = self._by_spark("views.items")
        frame: DataFrame = items.claimed_items(self._store, self.lease, self.over)
        return frame

    @property
    def traces(self) -> Mapping[int, str]:
        """The traces of items, by ``_seq``, where they have one.

        A trace is a text as W3C writes it: a ``traceparent`` and, behind a space, a ``tracestate``.
        """
        if self.count == 0:
            return {}
        found: dict[int, str] = self._by_spark("views.items").traces(self._store, self.lease)
        return {seq: trace for seq, trace in found.items() if seq not in self.over}

    def ack(self) -> Settlement:
        """Settle all that is left as done.

        Raises
        ------
        LeaseLostError
            When some items were lost to a later claim or ended; the others were acked. Also when
            nothing is left, as another verb of this claim has settled all of it.
        """
        return self._settle_rest("ack")

    def nack(
        self, error: str, *, after: float | timedelta | None = None, pause: bool | str = False
    ) -> Settlement:
        """Settle the remaining items as failed: each is charged an attempt.

        Parameters
        ----------
        error : str
            What went wrong.
        after : float or timedelta, optional
            How long a retry waits, such as 30 seconds; by default as the policy of retries says.
        pause : bool or str
            As for :meth:`defer`; ``after`` says for how long.
        """
        wait = None if after is None else require_after("after", after)
        return self._settle_rest("nack", require_error("error", error), wait, pause=pause)

    def defer(
        self, after: float | timedelta, error: str | None = None, *, pause: bool | str = False
    ) -> Settlement:
        """Have all that is left wait, in its place and without charging an attempt.

        Deferrals are counted, and after ``max_deferrals`` of them an item is dead. In a queue of an
        older format than 6 it is a failure, with this wait.

        Parameters
        ----------
        after : float or timedelta
            How long the items wait at least, such as 30 seconds.
        error : str, optional
            Why: ``explain`` and the history show it.
        pause : bool or str
            By which key of these items no other one starts for as long: True for the fair key, or
            the text of another.
        """
        wait = require_after("after", after)
        return self._settle_rest("defer", require_error("error", error), wait, pause=pause)

    def release(self) -> Settlement:
        """Give all that is left back to its place, without charging an attempt.

        Raises
        ------
        LeaseLostError
            As for :meth:`ack`.
        """
        return self._settle_rest("release")

    def dead(self, error: str) -> Settlement:
        """Send all that is left to the dead letters.

        Raises
        ------
        LeaseLostError
            As for :meth:`ack`.
        """
        return self._settle_rest("dead", require_error("error", error))

    def settle(self, outcomes: DataFrame) -> Settlement:
        """Settle single items.

        Parameters
        ----------
        outcomes : DataFrame
            ``_seq``, ``outcome`` (``"ack"``, ``"nack"``, ``"defer"``, ``"release"`` or ``"dead"``)
            and, optionally, ``error``, and ``after``: the seconds that an item waits which is
            deferred, or retried. It is evaluated once.

        Raises
        ------
        LeaseLostError
            When items are not held by this claim; the others were settled.
        SchemaMismatchError
            When ``_seq`` or ``outcome`` is missing.
        InvalidArgumentError
            When an outcome is unknown, or an item has two; nothing was written.
        """
        return self._settle(
            state.settle_decision.Each(self._by_spark("spark.spark_planner").check(outcomes))
        )

    def settle_each(self, outcomes: Mapping[int, Said]) -> Settlement:
        """Settle single items.

        Parameters
        ----------
        outcomes : mapping
            By ``_seq``, the verdict on an item: ``"ack"``, ``"nack"``, ``"release"`` or
            ``"dead"``; or a pair of one of these and an error; or, with a third value,
            ``("defer", error, after)`` and ``("nack", error, after)``: how long the item waits.

        Raises
        ------
        LeaseLostError
            When items are not held by this claim; the others were settled.
        InvalidArgumentError
            When an outcome or a ``_seq`` is none; nothing was written.
        """
        if not isinstance(outcomes, Mapping):
            raise InvalidArgumentError(
                f"outcomes is {shorten(outcomes)}: it must map a _seq to an outcome, as "
                f"{{1: 'ack'}}"
            )
        return self._settle(state.settle_decision.Some(dict(map(require_said, outcomes.items()))))

    def renew(
        self,
        by: timedelta | None = None,
        *,
        progress: Mapping[int, float | tuple[float, str | None]] | None = None,
    ) -> datetime:
        """Extend the lease of all that is left.

        Parameters
        ----------
        by : timedelta, optional
            How long from now on; the queue's ``lease`` by default.
        progress : mapping, optional
            By ``_seq``, how far the work on an item is, from 0 to 1, or that and a note of one
            line: ``explain`` and reports show it. A queue of an older format than 6 keeps none.

        Returns
        -------
        datetime
            When the lease ends now.

        Raises
        ------
        LeaseLostError
            When some items were lost; the others were renewed.
        InvalidArgumentError
            When the time is not above zero, or a progress is none; nothing was written.
        """
        said = read_progress(progress)
        if by is not None:
            require_duration("by", by)
        else:
            by = self._store.settings(self._store.status_head()).config.lease
        until = self._store.clock.now() + by
        try:
            self._settle(state.settle_decision.Renewed(by, said), "renew")
        except LeaseLostError:
            self.lease_expires_at = until
            raise
        self.lease_expires_at = until
        return until

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Items that the block has settled itself stay so.
        if kind is None:
            self._settle(state.settle_decision.Every("ack"))
        elif issubclass(kind, Exception):
            # A failure of the whole claim, but a wish to have it again later.
            nack = ("nack", text_of(error))
            said = said_of(error) if isinstance(error, RetryAfter) else nack
            self._settle(state.settle_decision.Every(*said))
        else:
            self._settle(state.settle_decision.Every("release"))

    def _settle_rest(
        self,
        verb: str,
        error: str | None = None,
        after: timedelta | None = None,
        *,
        pause: bool | str = False,
    ) -> Settlement:
        """Settle all that is left; raise where another verb has left nothing."""
        by = commands.key_pauses.by_of(self._store, pause, has_end=after is not None)
        done = self._settle(state.settle_decision.Every(verb, error, after, by))
        if done.step == 0 and self._said not in (None, verb):
            raise LeaseLostError((), f"settled before, by {self._said}()")
        self._said = verb
        return done

    def _settle(self, verdict: Verdict, action: str = "settle") -> Settlement:
        if self.count == 0:
            return Settlement(step=0)
        done = commands.settle.settle(self._store, self.lease, verdict, action=action)
        if done.counts.get("dead"):
            commands.forward_items.forward(self._store)
        # The holder knows the items that were over when it repeated the claim.
        lost = sorted({*done.lost} - {*self.over})
        if lost:
            raise LeaseLostError(lost)
        return Settlement(
            step=done.step,
            acked=done.counts.get("acked", 0),
            failed=done.failed,
            deferred=done.deferred,
            released=done.released,
            dead=done.counts.get("dead", 0),
        )

    @staticmethod
    def _by_spark(module: str) -> ModuleType:
        return import_module(f"spark_queue.{module}")

    def __repr__(self) -> str:
        over = f", over={len(self.over)}" if self.over else ""
        return f"Claim(id={self.id!r}, lease={self.lease}, count={self.count}{over})"

    def _repr_html_(self) -> str:
        return (
            f"<b>Claim</b> of {plural(self.count, 'item')}, lease {self.lease}, "
            f"until {instant(self.lease_expires_at)}"
        )


def make_claim(at: Snapshot, request: Request, kind: type[_ClaimT]) -> _ClaimT:
    """Lease the items of a request, after a checkpoint that is due; forward ended ones."""
    store = at.store
    if commands.admin.is_checkpoint_due(at.status, request.limit):
        commands.admin.checkpoint(store)
        at = state.snapshot.Snapshot(store)
    claim = kind(store, commands.claims.claim(at, request))
    commands.forward_items.forward(store)
    return claim


class LocalClaim(Claim):
    """Items that only this holder may work on until its lease ends.

    As a context manager, and in all that settles, it is a :class:`~spark_queue.Claim`; only its
    items are rows of this process.
    """

    def __init__(self, store: Store, granted: GrantedClaim) -> None:
        super().__init__(store, granted)
        self._table: pa.Table | None = None
        self._traces: Mapping[int, str] = {}

    @property
    def table(self) -> pa.Table:
        """The claimed items: the user's columns, ``_seq``, ``_lease`` and ``_attempts``.

        They are in the order of service, read once, when they are first asked for.
        """
        if self._table is None:
            self._table = self._read()
        return self._table

    @property
    def traces(self) -> Mapping[int, str]:
        """The traces that items belong to, by ``_seq``, as :attr:`Claim.traces`."""
        _ = self.table  # They are read together.
        return self._traces

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The same, each as a dictionary."""
        rows: list[dict[str, Any]] = self.table.to_pylist()
        return rows

    def _read(self) -> pa.Table:
        file_rows = sql.file_rows
        grant = file_rows.grant_of(self._store, self.lease, self.over)
        found = file_rows.require_items(self._store, grant, self.count, self.id)
        if TRACE in found.column_names:
            named = zip(found["_seq"].to_pylist(), found[TRACE].to_pylist(), strict=True)
            self._traces = {seq: trace for seq, trace in named if trace is not None}
        return file_rows.in_order(found, grant)

    @staticmethod
    def _by_spark(module: str) -> NoReturn:
        del module
        why = "here its items are rows, and settle_each says what became of some"
        raise SparkNeededError("a frame of a claim", why)
