"""Shares of fair keys: what each had, and what its weight entitles it to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spark_queue.report.lines import Tenant
from spark_queue.views.answers import Answer


def read_tenants(rows: Sequence[Answer], weights: Mapping[str, float]) -> tuple[Tenant, ...]:
    """Return the panel of tenants.

    Parameters
    ----------
    rows : sequence of dict
        Rows of the view ``tenants``, all that it has.
    weights : mapping
        Weights by fair key; others have 1.
    """
    busy = [row["fair_key"] for row in rows if not row["idle"]]
    # The view names a hundred; others may be busy, too.
    unnamed = rows[0]["keys"] - rows[0]["idle_keys"] - len(busy) if rows else 0
    whole = sum(weights.get(key, 1.0) for key in busy) + unnamed
    return tuple(
        Tenant(**row, due=None if row["idle"] else weights.get(row["fair_key"], 1.0) / whole)
        for row in rows
    )
