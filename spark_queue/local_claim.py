"""Claim whose items are rows of this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.claim import Claim
from spark_queue.delta.replica.request import GrantedClaim
from spark_queue.delta.sql import claim_items
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.schema import TRACE
from spark_queue.errors import SparkNeededError

if TYPE_CHECKING:
    pass


class LocalClaim(Claim):
    """Items that this holder, and nobody else, may work on until its lease ends.

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
        grant = claim_items.grant_of(self._store, self.lease)
        if self.over:
            is_over = pc.is_in(grant["_seq"], pa.array(self.over, pa.int64()))
            grant = grant.filter(pc.invert(is_over))
        found = claim_items.require_items(self._store, grant, self.count, self.id)
        if TRACE in found.column_names:
            named = zip(found["_seq"].to_pylist(), found[TRACE].to_pylist(), strict=True)
            self._traces = {seq: trace for seq, trace in named if trace is not None}
        return claim_items.in_order(found, grant)

    @staticmethod
    def _by_spark(module: str) -> NoReturn:
        del module
        why = "here its items are rows, and settle_each says what became of some"
        raise SparkNeededError("a frame of a claim", why)
