"""Progress of leased items, from rows beside renewals."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pyarrow as pa

from spark_queue.clock import utc
from spark_queue.results import ItemProgress

#: What is read of a row of progress.
COLUMNS = ("_seq", "_lease", "_step", "_at", "_body")


def newest(rows: pa.Table, leases: Mapping[int, int], last: int) -> dict[int, ItemProgress]:
    """Return the newest progress of items, by ``_seq``.

    Parameters
    ----------
    rows : pyarrow.Table
        Rows of progress.
    leases : mapping
        The lease of each item that is meant: what was said under another one is over.
    last : int
        The last step that counts.
    """
    found = {}
    for row in rows.sort_by("_step").to_pylist():
        if row["_step"] <= last and leases.get(row["_seq"]) == row["_lease"]:
            found[row["_seq"]] = ItemProgress(**json.loads(row["_body"]), at=utc(row["_at"]))
    return found
