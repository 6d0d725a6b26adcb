"""Stream of claims: each micro-batch is a claim, acked when Spark is done with it."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from spark_queue.claim import LocalClaim
from spark_queue.commands import claims
from spark_queue.data_source.options import number, open_reader
from spark_queue.errors import LeaseLostError
from spark_queue.log.step_events import logger
from spark_queue.queue_views import store_of
from spark_queue.sql import file_rows
from spark_queue.state.snapshot import Snapshot

if TYPE_CHECKING:
    from spark_queue.local_queue import LocalQueue, LocalReader

#: How many items a micro-batch has at most unless the option says otherwise.
_PER_TRIGGER = 1_000

#: How often a lease is renewed before it would end.
_RENEWALS = 3

#: Items of a micro-batch where Spark sets no limit.
_ALL = 1_000_000

_Options = Mapping[str, str]

#: How far a query has come: the name of its claims, and the number of the last one.
_Offset = dict[str, Any]


@dataclass
class ClaimedItems(InputPartition):
    """Some items of a claim."""

    claim: str
    lease: int
    seqs: tuple[int, ...]


class ClaimReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Claims items for a streaming query, and acks them when their micro-batch is done.

    Claim *n* of a query has the id ``source/n``, so that a micro-batch that comes again after a
    crash has the items that the claim still holds: each item at least once. Spark asks for what
    follows a micro-batch when that is done, and says so itself only with the next one: a question
    acks what came before, so that the next items of a group may come.

    It lives in one process of the driver, which renews the lease of the claim that is out.
    """

    def __init__(self, options: _Options) -> None:
        self._options = options
        self._opened: LocalQueue | LocalReader | None = None
        self._renewal: _Renewal | None = None

    @property
    def _queue(self) -> LocalQueue | LocalReader:
        if self._opened is None:
            self._opened = open_reader(self._options)
        return self._opened

    def initialOffset(self) -> _Offset:  # noqa: N802 - Spark's
        """Return where a new query begins; with ``sourceId`` its claims are those of a lost one."""
        return {"source": self._options.get("sourceId") or uuid.uuid4().hex, "claim": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's
        """Return how many items a micro-batch has at most."""
        return ReadMaxRows(number(self._options, "maxItemsPerTrigger", int, _PER_TRIGGER))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's
        """Do nothing: the query ends when nothing may run, and items that wait do not keep it."""

    def latestOffset(self, start: _Offset, limit: ReadLimit) -> _Offset:  # noqa: N802 - Spark's
        """Ack the batches that the query has done, and claim the next one."""
        self.commit(start)
        source, last = start["source"], self._newest(start)
        claim = self._find(source, last) if last > start["claim"] else None
        if claim is None or not claim.count:
            last += 1
            most = limit.max_rows if isinstance(limit, ReadMaxRows) else _ALL
            claim = self._claim(source, last, most)
        if not claim.count:
            return start
        self._hold(claim)
        return {"source": source, "claim": last}

    def partitions(self, start: _Offset, end: _Offset) -> list[ClaimedItems]:
        """Return the items that the claim still holds, in ``numPartitions`` parts."""
        claim = self._find(end["source"], end["claim"]) if start != end else None
        if claim is None or not claim.count:
            return []
        self._hold(claim)
        seqs = claim.table["_seq"].to_pylist()
        parts = number(self._options, "numPartitions", int, 1)
        slices = [tuple(seqs[part::parts]) for part in range(parts)]
        return [ClaimedItems(claim.id, claim.lease, held) for held in slices if held]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return some items of a claim, in an executor.

        Raises
        ------
        SparkNeededError
            When one of them is not there any more: the query holds the rest when it starts again.
        """
        part, store = cast("ClaimedItems", partition), store_of(self._queue)
        seqs, granted = set(part.seqs), file_rows.grant_of(store, part.lease)
        grant = granted.filter(pa.array([seq in seqs for seq in granted["_seq"].to_pylist()]))
        # Items that are not read would be acked with the rest.
        items = file_rows.require_items(store, grant, len(seqs), part.claim)
        # Files without a row of it would be batches without a row.
        yield from file_rows.in_order(items, grant).combine_chunks().to_batches()

    def commit(self, end: _Offset) -> None:
        """Ack the claim of a micro-batch that is done."""
        claim = self._find(end["source"], end["claim"]) if end["claim"] else None
        if claim is None:
            return
        if self._renewal is not None and self._renewal.claim.lease == claim.lease:
            self._renewal.end()
        try:
            claim.ack()
        except LeaseLostError as exc:
            # Another holder works on them, or they were cancelled: the query has had them, too.
            logger.warning("%s: %s", self._queue.name, exc)

    def stop(self) -> None:
        """End with the query; what it holds is there for it when it is started again."""
        if self._renewal is not None:
            self._renewal.end()

    def _lease(self) -> timedelta:
        default = self._queue.config.lease.total_seconds()
        return timedelta(seconds=number(self._options, "lease", float, default))

    def _claim(self, source: str, claim: int, most: int) -> LocalClaim:
        return self._queue.claim(most, claim_id=f"{source}/{claim}", lease=self._lease())

    def _find(self, source: str, claim: int) -> LocalClaim | None:
        """Return a claim of the query, if it was made."""
        store = store_of(self._queue)
        granted = claims.same_claim(Snapshot(store), f"{source}/{claim}")
        return None if granted is None else LocalClaim(store, granted)

    def _newest(self, start: _Offset) -> int:
        """Return the last claim that was made: a crash leaves one more, a lost checkpoint many."""
        source, last, stride = start["source"], start["claim"], 1
        while self._find(source, last + stride) is not None:
            last, stride = last + stride, 2 * stride
        while stride > 1:
            stride //= 2
            if self._find(source, last + stride) is not None:
                last += stride
        return int(last)

    def _hold(self, claim: LocalClaim) -> None:
        """Renew the lease of a claim until it is acked."""
        if self._renewal is not None:
            if self._renewal.claim.lease == claim.lease and self._renewal.is_alive():
                return
            self._renewal.end()
        self._renewal = _Renewal(claim, self._lease())
        self._renewal.start()

    def __getstate__(self) -> dict[str, Any]:
        # It is sent to executors, which open the queue by themselves.
        return {"_options": self._options, "_opened": None, "_renewal": None}


class _Renewal(threading.Thread):
    """Renews the lease of a claim for as long as its micro-batch runs."""

    def __init__(self, claim: LocalClaim, lease: timedelta) -> None:
        super().__init__(name="spark-queue-renewal", daemon=True)
        self.claim = claim
        self._held_for = lease
        self._over = threading.Event()

    def end(self) -> None:
        """Renew no more."""
        self._over.set()
        if self.is_alive():
            self.join()

    def run(self) -> None:
        """Renew until the end, or until nothing is left to renew."""
        while not self._over.wait(self._held_for.total_seconds() / _RENEWALS):
            self._renew()

    def _renew(self) -> None:
        try:
            self.claim.renew(self._held_for)
        except LeaseLostError as exc:
            logger.warning("%s", exc)
        except Exception:  # noqa: BLE001 - the next time may go well
            logger.exception("the lease of claim %s is renewed later", self.claim.id)
