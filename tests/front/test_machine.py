"""The journaled queue over Delta against lists, in random use, with crashes at any moment."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from pyspark.sql import SparkSession, functions as F

from spark_queue.delta_queue import DeltaQueue
from spark_queue.queue_views import main_store_of
from tests.conftest import histories_of
from tests.properties.test_journal_machine import JournalMachine
from tests.unit.local.breaking import Breaking

#: How many histories; more of them are for a long run, and without Spark.
EXAMPLES = histories_of(30)

STEPS = 12


class DeltaJournalMachine(JournalMachine):
    """The same over Delta: what one process leaves behind, the next one opens."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._lanes = itertools.cycle((True, False))
        super().__init__()
        self._made = DeltaQueue.create(spark, path, "item string")

    def _new_journal(self) -> Any:
        return Breaking(main_store_of(self._made), native=next(self._lanes))

    _next_journal = _new_journal

    def _passed(self) -> int:
        return 0

    def _held(self) -> set[int]:
        rows = main_store_of(self._made).queue.read().where(F.col("_kind") == "item")
        return {row[0] for row in rows.select("_seq").collect()}


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.histories
def test_random_histories_agree(spark: SparkSession, place: str) -> None:
    """What was durable is there for the next process, and nothing that was done comes back."""
    numbers = itertools.count()
    run_state_machine_as_test(
        lambda: DeltaJournalMachine(spark, f"{place}/{next(numbers)}"),  # type: ignore[arg-type]
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            phases=[Phase.explicit, Phase.reuse, Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
