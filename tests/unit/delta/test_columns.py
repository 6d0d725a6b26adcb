"""Rows on their way into a table and back: what they leave out is null."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from spark_queue.state.replica_rows import rows_of, status_table
from tests.unit.delta import columns_page

_AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc)

_ROWS: dict[str, list[dict[str, Any]]] = {
    "alike": [
        {"_seq": 1, "_at": _AT, "_error": None, "_overdue": True},
        {"_seq": 2, "_at": _AT, "_error": "no", "_overdue": None},
        {"_seq": 3, "_at": None, "_error": None, "_overdue": False},
    ],
    "not alike": [{"_seq": 1, "_was": "ready"}, {"_seq": 2, "_at": _AT + timedelta(1)}],
    "one column": [{"_seq": 1}, {"_seq": 2}],
    "none": [],
}


@pytest.mark.parametrize("kind", _ROWS)
def test_rows_come_back_as_they_went(kind: str) -> None:
    """Whatever rows leave out is null, and what is no column of the log is not asked for."""
    columns = ("_kind", "_at", "_seq", "_error", "_overdue", "nowhere")
    back = rows_of(status_table(_ROWS[kind]), columns)
    assert back == [{name: row.get(name) for name in columns} for row in _ROWS[kind]]


def test_the_page_of_columns_is_that_of_their_table() -> None:
    """The document says what the declarations say."""
    assert columns_page.PAGE.read_text("utf-8") == columns_page.page()
