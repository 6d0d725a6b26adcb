"""The journaled queue: one log of items, many readers, each with a position of its own."""

from __future__ import annotations

from spark_queue.errors import JournalFailedError
from spark_queue.journal.aio import AioJournaledQueue, AioReader
from spark_queue.journal.counters import QueueStats, ReaderStats
from spark_queue.journal.deliveries import Read
from spark_queue.journal.memory import MemoryJournal, MemoryStore
from spark_queue.journal.options import Durability, QueueOptions, ReaderHooks
from spark_queue.journal.queue import JournaledQueue
from spark_queue.journal.reader import Reader
from spark_queue.journal.records import (
    Entry,
    Group,
    Journal,
    ReaderOffset,
    Recovered,
    Settlements,
    origin_of,
)
from spark_queue.journal.views import AutoCommitReader, Transaction

__all__ = [
    "AioJournaledQueue",
    "AioReader",
    "AutoCommitReader",
    "Durability",
    "Entry",
    "Group",
    "Journal",
    "JournalFailedError",
    "JournaledQueue",
    "MemoryJournal",
    "MemoryStore",
    "QueueOptions",
    "QueueStats",
    "Read",
    "Reader",
    "ReaderHooks",
    "ReaderOffset",
    "ReaderStats",
    "Recovered",
    "Settlements",
    "Transaction",
    "origin_of",
]
