"""What a process remembers of the steps that it made, without reading them again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from spark_queue.delta.store import by_spark
from spark_queue.delta.store.by_spark import Tail
from spark_queue.delta.store.catching_up import MAX_TAIL, Cache
from spark_queue.delta.tables.heads import Checkpoint, StatusHead

HEAD = StatusHead(step=7, log_rows=100, checkpoint=Checkpoint(step=5))


class Frame(list[str]):
    """Rows by their names."""

    def unionByName(self, other: Frame) -> Frame:  # noqa: N802
        """Put frames together."""
        return Frame([*self, *other])


def tail(count: int = 100) -> Tail:
    """Return what is remembered of the steps up to the head."""
    return Tail(HEAD, cast("Any", Frame(["old"])), count)


def after(**changes: Any) -> StatusHead:
    """Return the head of the next step."""
    return replace(HEAD, step=8, log_rows=103, **changes)


def test_a_tail_grows_by_the_rows_of_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts what it had and what came, and is to be computed before it is read."""
    monkeypatch.setattr(
        by_spark, "of_step", lambda rows, step: Frame(f"{row}@{step}" for row in rows)
    )
    longer = tail(50).followed_by(after(), cast("Any", Frame(["new"])))

    assert longer is not None
    assert (longer.head, longer.count, longer.is_staged) == (after(), 53, False)
    assert cast("Any", longer.rows) == ["old", "new@8"]


def test_a_step_without_rows_changes_the_head_only() -> None:
    """What is remembered is as of that step."""
    later = tail().followed_by(after(), None)

    assert later == replace(tail(), head=after())


@pytest.mark.parametrize(
    "head", [after(checkpoint=Checkpoint(step=8)), replace(after(), step=9), replace(HEAD, step=7)]
)
def test_a_tail_with_a_gap_is_forgotten(head: StatusHead) -> None:
    """Over a step that this process did not make, or a checkpoint, the table is read again."""
    assert tail().followed_by(head, None) is None


def test_a_tail_that_is_too_long_is_forgotten() -> None:
    """There is a bound to what a process remembers."""
    assert tail(MAX_TAIL - 2).followed_by(after(), cast("Any", Frame())) is None


def test_each_reader_has_a_position_of_its_own() -> None:
    """What was seen of one reader's log is not what was seen of another's."""
    cache = Cache()
    cache.position(1).status.head = HEAD

    assert cache.position(1).status.head is HEAD
    assert cache.position(2).status.head is None
