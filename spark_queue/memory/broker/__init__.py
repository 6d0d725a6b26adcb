"""The queue broker: tasks in groups, one at a time within each, so many at once in all."""

from __future__ import annotations

from spark_queue.errors import TaskExpiredError
from spark_queue.memory.broker.broker import QueueBroker
from spark_queue.memory.broker.turn import Turn, current_turn
from spark_queue.memory.broker.turn_scheduler import TaskScheduler

__all__ = ["QueueBroker", "TaskExpiredError", "TaskScheduler", "Turn", "current_turn"]
