"""Addresses of the pages, and where the cells of a report lead."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from spark_queue.report.following import Shared, id_of
from spark_queue.report.model import Report
from spark_queue.report.panel_tables import Buttons, Links


def base_of(number: int, reader: str | None = None) -> str:
    """Return where the pages of a queue begin, as one of its readers sees it."""
    return f"/queues/{number}" + ("" if reader is None else f"@{quote(reader, safe='')}")


def link_item(base: str, seq: int) -> str:
    """Return the page of an item."""
    return f"{base}/items/{seq}"


def link_shared(base: str, by: Shared, text: str | None) -> str:
    """Return the page of a tenant, a group, an error or a worker."""
    return f"{base}/{by}s/{id_of(text)}"


def find(base: str, **fields: str) -> str:
    """Return the page of the items that are like that."""
    return f"{base}/items?{query(**fields)}"


def act(base: str, verb: str, **fields: str) -> str:
    """Return the form of an action, with some of its fields filled in."""
    return f"{base}/act/{verb}" + (f"?{query(**fields)}" if fields else "")


def of_report(base: str, number: int, report: Report) -> Links:
    """Return where the cells of a report's panels lead."""
    leads: Mapping[tuple[str, str], Callable[[Any], Sequence[str]]] = {
        ("errors", "error"): lambda line: [link_shared(base, "error", line.wording)],
        ("errors", "such as"): lambda line: [link_item(base, seq) for seq in line.samples],
        ("tenants", "tenant"): lambda line: (
            [] if line.idle else [link_shared(base, "tenant", line.fair_key)]
        ),
        ("groups", "group"): lambda line: [link_shared(base, "group", line.group_key)],
        ("workers", "worker"): lambda line: _worker(base, line.worker_id),
        ("groups", "item"): lambda line: [link_item(base, line.head)],
        ("readers", "reader"): lambda line: [] if line.streams else [base_of(number, line.reader)],
    }

    def links(sheet: str, row: int, head: str) -> Sequence[str]:
        lead = leads.get((sheet, head))
        lines = getattr(report, sheet) if lead else ()
        # The last line of a panel may sum up the rest.
        return lead(lines[row]) if lead and row < len(lines) else ()

    return links


def _worker(base: str, worker_id: str | None) -> Sequence[str]:
    """Return the page of a worker, if it has a name."""
    return [] if worker_id is None else [link_shared(base, "worker", worker_id)]


def of_items(base: str, seqs: Sequence[int]) -> Links:
    """Return where the cells of a list of items lead."""
    return lambda _sheet, row, head: [link_item(base, seqs[row])] if head == "item" else ()


def undo_buttons(base: str, report: Report) -> Buttons:
    """Return the undo buttons of operators' steps."""

    def buttons(sheet: str, row: int) -> Sequence[tuple[str, str]]:
        step = report.steps[row] if sheet == "steps" else None
        if step is None or not step.undo:
            return ()
        return [(f"Undo {step.step}", act(base, "undo", step=str(step.step)))]

    return buttons


def query(**fields: str) -> str:
    """Return fields as an address has them."""
    return urlencode(fields)
