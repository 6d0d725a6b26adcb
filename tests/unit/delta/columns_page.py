"""Page of the columns of both logs: ``python -m tests.unit.delta.columns_page`` writes it again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from spark_queue.log.log_columns import Columns, LogColumn
from spark_queue.log.schema import QUEUE_COLUMNS, STATUS_COLUMNS

#: The page.
PAGE = Path(__file__).parents[3] / "docs" / "columns.md"

_OPENING = """\
# Columns of the two tables

A queue is two Delta tables. `queue` has a row for each item, as it was enqueued. `status` has a row
for each change of an item; each reader has one of its own. Beside the columns of the caller, which
are in `queue`, both have columns of the library. They are declared once, in
`spark_queue/log/schema.py`, and this page is made of that. Null stands for no value.

Rows that are enqueued may have the columns that *set by* names; the library sets all others. An
older queue has no column of a later *format* until [`upgrade`](operations.md) adds it.
"""


def page() -> str:
    """Return the text of the page."""
    queue = _table("`queue`, before the columns of the caller", QUEUE_COLUMNS)
    status = _table("`status`", STATUS_COLUMNS)
    return "\n".join([_OPENING, *queue, "", *status, ""])


def _table(title: str, columns: Columns) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    yield "| column | type | what it is | set by | format |"
    yield "|---|---|---|---|---|"
    yield from map(_line, columns.columns)


def _line(column: LogColumn) -> str:
    given = "" if column.input is None else f"`{column.input.name}`"
    return f"| `{column.name}` | {column.kind} | {column.meaning} | {given} | {column.since} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
