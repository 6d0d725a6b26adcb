"""Units that come back to rates, in the step that settles items that were not begun."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.commands.settle_pauses import KEYS, columns_of
from spark_queue.rules.pacing import Charges, Paces, instant_of
from spark_queue.sql.planner_choice import planner_of
from spark_queue.state import replica_choice
from spark_queue.state.claim_decision import debt_rows
from spark_queue.state.replica_rows import read_debts, status_table
from spark_queue.state.schedulers import paces_of
from spark_queue.state.settle_decision import Verdict, unbegun_of
from spark_queue.state.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# rule again: units that come back
def refunds(
    at: Snapshot, lease: int, verdict: Verdict, rows: DataFrame | pa.Table, now: datetime
) -> pa.Table | None:
    """Return the rows of a settle that give units back; ``None`` where there are none.

    Parameters
    ----------
    rows : DataFrame or pyarrow.Table
        The rows of the items: what is no longer the holder's has none.
    """
    seqs = unbegun_of(verdict) if at.settings.config.rates else []
    if seqs == []:
        return None
    paces, charges = _debts(at, lease)
    asked = [one for row in columns_of(rows, (*KEYS, "_units"), seqs) for one in paces.find_in(row)]
    found = paces.give_back(asked, charges, instant_of(now.timestamp()))
    return status_table(debt_rows(paces.name_debts(found))) if found else None


def _debts(at: Snapshot, lease: int) -> tuple[Paces, Charges]:
    """Return what keys owe, and owed after a claim, as far as the log says that."""
    config = at.settings.config
    with at.cache.lock:
        replica = replica_choice.at_hand(at)
        known = None if replica is None else paces_of(replica, config)
        if replica is not None and known is not None:
            grant = replica.grants.get(lease)
            return known, {} if grant is None else grant.charges
    paces, rows = Paces(config), planner_of(at.store).debts(at)
    for (by, key), debt in read_debts(rows).items():
        paces.learn(by, key, debt)
    return paces, read_debts(rows.filter(pc.equal(rows["_step"], lease)))
