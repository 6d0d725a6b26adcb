"""Work of a trace or queue, played in other orders."""

from __future__ import annotations

from spark_queue.replay.history import Past, PastItem, history
from spark_queue.replay.play import ORDERS, Job, Order, Run, play, read_swf
from spark_queue.replay.rehearsal import Rehearsal, TenantWait, rehearse
from spark_queue.replay.summary import OrderSummary, Replay, UserSummary, replay

__all__ = [
    "ORDERS",
    "Job",
    "Order",
    "OrderSummary",
    "Past",
    "PastItem",
    "Rehearsal",
    "Replay",
    "Run",
    "TenantWait",
    "UserSummary",
    "history",
    "play",
    "read_swf",
    "rehearse",
    "replay",
]
