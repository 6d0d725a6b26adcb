"""Laws of what an undo keeps and foresees: the same on every engine."""

from __future__ import annotations

from datetime import timedelta

import pytest

from spark_queue.errors import InvalidArgumentError
from tests.conformance.engines import Row
from tests.conformance.twins import Seen, Twins

pytestmark = pytest.mark.needs("views")


def _after_a_cancel(one: Seen) -> None:
    """Cancel three items, and take the key of one of them."""
    one.enqueue([Row(id="a", key="a"), Row(id="b", key="b"), Row(id="c", key="c")])
    one.advance(60)
    one.queue.cancel("key <> 'z'")
    one.enqueue([Row(id="d", key="b")])
    one.advance(60)


def test_an_undo_does_what_its_dry_run_foresees_and_keeps_ages(twins: Twins) -> None:
    """It tells what would be back, and writes nothing; what is back waits since it was enqueued."""
    pair = twins("dedup_key")
    pair.play(_after_a_cancel)

    def counts(one: Seen, **options: bool) -> tuple[object, ...]:
        done = one.queue.undo(2, **options)
        return done.restored, done.taken, done.left, list(done.holders)

    foreseen = pair.require_same(lambda one: counts(one, dry_run=True))
    assert foreseen == (2, 1, 0, [(2, 4)])
    assert pair.require_same(lambda one: one.queue.counts()["cancelled"]) == 3
    assert pair.require_same(counts) == foreseen
    assert pair.require_same(lambda one: counts(one, dry_run=True))[0] == 0
    age = pair.require_same(lambda one: one.queue.stats().oldest_age)
    assert age == timedelta(seconds=120)
    error = pair.require_same(lambda one: one.queue.undo(2, dry_run=1))
    assert error[0] is InvalidArgumentError


def test_a_dry_run_foresees_settings(twins: Twins) -> None:
    """A pause and a configuration would be put back, and are not."""
    pair = twins()
    paused = pair.require_same(lambda one: one.queue.pause())
    changed = pair.require_same(lambda one: int(one.queue.configure(max_attempts=7)))
    for step in (paused, changed):
        pair.require_same(lambda one, at: one.queue.undo(at, dry_run=True), step)
        seen = pair.require_same(
            lambda one, at: dict(one.queue.undo(at, dry_run=True).settings), step
        )
        assert len(seen) == 1
    assert pair.require_same(lambda one: (one.queue.paused, one.queue.config.max_attempts)) == (
        *(True, 7),
    )
