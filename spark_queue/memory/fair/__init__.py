"""The fair queue: first in, first out within a key, and keys take turns."""

from __future__ import annotations

from spark_queue.memory.fair.fair_queue import AioFairQueue, FairQueue
from spark_queue.memory.fair.rounds import FairSnapshot

__all__ = ["AioFairQueue", "FairQueue", "FairSnapshot"]
