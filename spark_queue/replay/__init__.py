"""A trace of real work, played in different orders of service: who waits for whom."""

from __future__ import annotations

from spark_queue.replay.play import ORDERS, Order, Run, play
from spark_queue.replay.summary import OrderSummary, Replay, UserSummary, replay
from spark_queue.replay.trace import Job, read_swf

__all__ = [
    "ORDERS",
    "Job",
    "Order",
    "OrderSummary",
    "Replay",
    "Run",
    "UserSummary",
    "play",
    "read_swf",
    "replay",
]
