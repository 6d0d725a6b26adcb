"""A driver with Spark that works with a queue beside processes without, until it is killed."""

from __future__ import annotations

import os
import random
import sys
import traceback
from pathlib import Path
from typing import Any

import pyarrow as pa

from chaos_worker import Told, Worker
from spark_queue import SMALL_STEPS_CONF, DeltaQueue, EnqueueResult, local_session
from spark_queue.log.step_events import LogName
from spark_queue.session import DURABILITY, SMALL_STEPS

#: The columns of what it puts, for Spark and for Arrow.
_SCHEMA = "k string, g string, t string, p int, h string"
_COLUMNS = pa.schema(
    [*((name, pa.string()) for name in "kgt"), ("p", pa.int32()), ("h", pa.string())]
)


class Driver(Worker):
    """One life of a driver: what it puts are frames of Spark, and rows of its own.

    Attributes
    ----------
    spark : SparkSession
        Its session.
    """

    logs: tuple[LogName, ...] = ("queue",)

    def __init__(self, place: Path, told: Told, name: str, rng: random.Random) -> None:
        # Half of all decide every step by Spark, which commits it then.
        planner = rng.choice(("memory", "spark"))
        conf = {**SMALL_STEPS_CONF, DURABILITY: "process", SMALL_STEPS: planner}
        self.spark = local_session("chaos", quiet=True, **conf)
        self.recovers = planner == "memory"
        super().__init__(DeltaQueue.open(self.spark, str(place / "queue")), told, name, rng)

    def enqueue(self, rows: list[dict[str, Any]]) -> EnqueueResult[Any]:
        """Put rows, or a frame of them."""
        if self._rng.random() < 0.5:  # noqa: PLR2004 - every other time
            result = self._queue.enqueue(pa.Table.from_pylist(rows, _COLUMNS))
        else:
            frame = self.spark.createDataFrame(rows, _SCHEMA)
            result = self._queue.enqueue(frame, order_by="k")
        done: EnqueueResult[Any] = result
        return done

    def seqs(self, claim: Any) -> list[int]:
        """Return what a claim has."""
        return [row[0] for row in claim.items.select("_seq").collect()]

    def compact(self, which: LogName) -> None:
        """Keep the queue in order, as Spark does."""
        del which
        self._queue.maintain()


def live(place: Path, life: int, seed: int, says: int) -> None:
    """Say when it begins, and work until killed; what should not happen is written down."""
    told, rng = Told(place / "told", life), random.Random(seed)  # noqa: S311 - to be repeatable
    try:
        driver = Driver(place, told, str(life), rng)
        os.write(says, b"!")
        os.close(says)
        driver.work(tidies=False)
    except BaseException:  # noqa: BLE001 - whatever it is, it is the finding
        told.tell("raised", error=traceback.format_exc())


if __name__ == "__main__":
    _place, *_numbers = sys.argv[1:]
    live(Path(_place), *map(int, _numbers))
