"""The journaled queue without Spark against lists, in random use, with crashes at any moment."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from spark_queue.local_queue import LocalQueue
from spark_queue.queue_views import main_store_of
from spark_queue.sql.file_rows import rows_of
from tests.properties.test_journal_machine import JournalMachine
from tests.unit.local.breaking import Breaking

STEPS = 20


class LocalJournalMachine(JournalMachine):
    """The same over Delta: what one process leaves behind, the next one opens."""

    def __init__(self, path: str) -> None:
        self._made = LocalQueue.create(path, "item string", durability="process")
        super().__init__()

    def _new_journal(self) -> Any:
        # By a handle of its own, as the next process has one.
        again = LocalQueue.open(self._made.name, durability="process")
        return Breaking(main_store_of(again))

    _next_journal = _new_journal

    def _passed(self) -> int:
        return 0

    def _held(self) -> set[int]:
        return set(rows_of(main_store_of(self._made), "queue", ("_seq",))["_seq"].to_pylist())


@pytest.mark.histories
def test_random_histories_agree(place: str) -> None:
    """What was durable is there for the next process, and nothing that was done comes back."""
    numbers = itertools.count()
    run_state_machine_as_test(
        lambda: LocalJournalMachine(f"{place}/{next(numbers)}"),  # type: ignore[arg-type]
        settings=settings(
            stateful_step_count=STEPS,
            phases=[Phase.explicit, Phase.reuse, Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
