"""The journaled queue: one log of items, many readers, each with a position of its own."""

from __future__ import annotations

from spark_queue.durability import Durability
from spark_queue.errors import JournalFailedError
from spark_queue.memory.journal.aio_journaled import AioJournaledQueue
from spark_queue.memory.journal.journal_options import QueueOptions, ReaderHooks
from spark_queue.memory.journal.journal_reader import JournalReader
from spark_queue.memory.journal.journal_views import AioJournalReader, AutoCommitReader, Transaction
from spark_queue.memory.journal.journaled_queue import JournaledQueue
from spark_queue.memory.journal.memory_journal import MemoryJournal, MemoryStore
from spark_queue.memory.journal.records import (
    Entry,
    Group,
    Journal,
    JournalStats,
    Read,
    ReaderOffset,
    ReaderStats,
    Recovered,
    Settlements,
    origin_of,
)

__all__ = [
    "AioJournalReader",
    "AioJournaledQueue",
    "AutoCommitReader",
    "Durability",
    "Entry",
    "Group",
    "Journal",
    "JournalFailedError",
    "JournalReader",
    "JournalStats",
    "JournaledQueue",
    "MemoryJournal",
    "MemoryStore",
    "QueueOptions",
    "Read",
    "ReaderHooks",
    "ReaderOffset",
    "ReaderStats",
    "Recovered",
    "Settlements",
    "Transaction",
    "origin_of",
]
