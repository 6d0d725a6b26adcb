from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spark_queue.ingest.run import count_inserted, known_states
from spark_queue.processing.loop import ProcessResult

_FOUND = {"a": 2, "b": 1}


@pytest.mark.parametrize(("count", "new"), [(0, {}), (3, _FOUND)])
def test_log_is_not_asked_where_all_or_none_are_new(count: int, new: dict[str, int]) -> None:
    """Which tenants' files were new follows from the counts of an enqueue that took all or none."""
    entered: Any = SimpleNamespace(inserted=count)

    assert count_inserted(entered, _FOUND) == new


@pytest.mark.parametrize(
    ("done", "total", "new", "states"),
    [
        (ProcessResult(acked=3), 3, _FOUND, {"acked": _FOUND}),
        (ProcessResult(), 0, {}, {}),
        # Files of an earlier run were waiting; some cannot be read; the run was stopped.
        (ProcessResult(acked=4), 4, _FOUND, None),
        (ProcessResult(acked=2, dead=1), 3, _FOUND, None),
        (ProcessResult(acked=2), 3, _FOUND, None),
        (ProcessResult(acked=1), 1, {"a": 1}, None),
        (ProcessResult(acked=1), 0, {}, None),
    ],
)
def test_states_are_known_where_counts_leave_no_doubt(
    done: ProcessResult, total: int, new: dict[str, int], states: object
) -> None:
    """All new and all done, or nothing to do: else the status log is asked."""
    assert known_states(done, total, new, _FOUND) == states
