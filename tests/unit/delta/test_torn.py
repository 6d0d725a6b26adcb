"""A look at a table to which others commit meanwhile."""

from __future__ import annotations

import pytest

from spark_queue.log.delta.integrity import looked

_TORN = "[DELTA_VERSIONS_NOT_CONTIGUOUS] Versions (1, 3) are not contiguous."


def test_a_torn_list_is_looked_at_again() -> None:
    """Twice at most: what is still missing then is gone."""
    errors = [RuntimeError(_TORN)] * 2

    def query() -> str:
        if errors:
            raise errors.pop()
        return "rows"

    assert looked(query) == "rows"
    errors[:] = [RuntimeError(_TORN)] * 3
    with pytest.raises(RuntimeError, match="NOT_CONTIGUOUS"):
        looked(query)
    assert errors == []


def test_any_other_error_is_told_at_once() -> None:
    """Only a list that misses a commit is mended by another look."""
    asked: list[int] = []

    def query() -> None:
        asked.append(1)
        raise ValueError("no such column")

    with pytest.raises(ValueError, match="no such column"):
        looked(query)
    assert len(asked) == 1
