"""What the sections of ``steps.py`` share: where they measure, and how they compare."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from report import Figure, Target, median_figure, ratio_figure
from small_steps import CONFIG, SCHEMA, Meter
from spark_queue import LocalQueue, QueueConfig
from spark_queue.durability import StepDurability
from spark_queue.session import SMALL_STEPS_CONF, local_session
from syncs import syncs_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Rounds before those that count.
WARM = 3

#: A row as users have them.
Row = dict[str, str]


@dataclass
class Bench:
    """Where to measure, how often, and how much smaller than the targets say."""

    root: Path
    rounds: int
    scale: float

    def rows(self, full: int) -> int:
        """Return a number of rows at the scale of this run."""
        return max(100, int(full * self.scale))

    def queue(
        self, name: str, config: QueueConfig = CONFIG, durability: StepDurability = "disk"
    ) -> LocalQueue:
        """Make an empty queue."""
        return LocalQueue.create(self.root / name, SCHEMA, config, durability=durability)

    @cached_property
    def spark(self) -> SparkSession:
        """A session, which is started when it is first asked for."""
        memory = {"spark.driver.memory": "6g", "spark.local.dir": str(self.root / "spark")}
        return local_session("steps", quiet=True, **{**SMALL_STEPS_CONF, **memory})

    def close(self) -> None:
        """Stop the session, where there is one."""
        if "spark" in vars(self):
            self.spark.stop()


@contextmanager
def bench(place: Path | None, rounds: int, scale: float) -> Iterator[Bench]:
    """Make a folder to measure in, which is gone afterwards."""
    root = Path(tempfile.mkdtemp(prefix="steps-", dir=place))
    made = Bench(root, rounds, scale)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(root, ignore_errors=True)


def alone() -> Meter:
    """Return a meter of steps without a server, whose work is that of this process."""
    return Meter(work=time.process_time)


def rows(number: int, count: int) -> list[Row]:
    """Make rows of a few tenants, none of which was there before."""
    return [
        {"path": f"p{number}-{i}", "tenant": f"t{i % 50}", "folder": f"f{i}"} for i in range(count)
    ]


def compared(
    meter: Meter, name: str, under: str, *, section: str, target: Target | None, detail: str
) -> Iterator[Figure]:
    """Make the figures of a step over another one of each round, and of what it took."""
    for what, times in (("wait", meter.waits), ("work", meter.works)):
        ours, theirs = times(name), times(under)
        yield ratio_figure(f"{section}.{name}.{what}", ours, theirs, target, detail)
        yield millis(f"{section}.{name}.{what}", ours, None, detail)


def millis(name: str, seconds: list[float], target: Target | None, detail: str) -> Figure:
    """Make the figure of what several steps took."""
    return median_figure(f"{name}.ms", [1000 * value for value in seconds], target, detail, "ms")


def counted(name: str, step: Callable[[], object], detail: str) -> Iterator[Figure]:
    """Make the figure of how often a step forces something to the disk, where that can be seen."""
    syncs = syncs_of(step)
    if syncs is not None:
        yield Figure(f"{name}.syncs", syncs, None, "syncs", detail)
