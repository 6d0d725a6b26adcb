"""A queue in memory: the queue without Spark over tables that no disk has."""

from __future__ import annotations

import re
import weakref
from itertools import count

from spark_queue import checks
from spark_queue.clock import Clock
from spark_queue.config import QueueConfig
from spark_queue.delta.store import memory
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.address import QueueAddress
from spark_queue.delta.tables.facts import Listener
from spark_queue.delta.tables.wishes import PlainSession
from spark_queue.errors import InvalidArgumentError
from spark_queue.local.handles import create_in
from spark_queue.local.local_queue import LocalQueue
from spark_queue.testing.memory_tables import MemoryTables
from spark_queue.wording import shorten

_NAME = re.compile(r"[A-Za-z0-9_-]+")

#: The longest name, in characters.
_LONGEST = 200

_numbers = count(1)


def memory_queue(
    schema: str,
    config: QueueConfig | None = None,
    *,
    name: str | None = None,
    clock: Clock | None = None,
    listener: Listener | None = None,
) -> LocalQueue:
    """Make a queue that is in the memory of this process, and gone with its last handle.

    It is a :class:`~spark_queue.LocalQueue`, with its verbs, results, errors and rules: the same
    code decides each step, and only the place where steps are kept is another. No process but this
    one sees it, and nothing of it is written to a disk.

    Parameters
    ----------
    schema : str
        The columns of an item, as DDL: ``"path string, tenant string"``.
    config : QueueConfig, optional
        Keys, limits and retries. Default: one line, first in, first out.
    name : str, optional
        What messages call it, of letters, digits, ``_`` and ``-``: ``"files"`` is
        ``memory:/files``. By default a number. It finds nobody: two of a name are two queues.
    clock : Clock, optional
        Asked once an operation; the system's by default. A
        :class:`~spark_queue.testing.ManualClock` is moved by hand.
    listener : callable, optional
        Called with :class:`~spark_queue.StepFacts` after every step, on the thread that made it.

    Raises
    ------
    InvalidArgumentError
        When the name has another character.
    InvalidConfigError
        When a key is no expression over the columns.
    SparkNeededError
        When only Spark computes a key, or keeps a type; also where more than 50,000 items are open.

    Examples
    --------
    >>> queue = memory_queue("path string", QueueConfig(dedup_key="path"))
    >>> queue.enqueue([{"path": "a"}, {"path": "a"}]).duplicates
    1
    >>> with queue.claim() as claim:
    ...     [row["path"] for row in claim.rows]
    ['a']
    >>> queue.counts()["acked"]
    1
    """
    checks.optional(checks.require_text, "name", name)
    if name is not None and (not _NAME.fullmatch(name) or len(name) > _LONGEST):
        raise InvalidArgumentError(
            f"name is {shorten(name)}: use at most {_LONGEST} letters, digits, _ and -"
        )
    tables = MemoryTables()
    session = PlainSession(tables=tables)
    address = QueueAddress(f"memory:/{name or next(_numbers)}")
    store = Store.of(session, address, clock, listener)
    queue = create_in(store, schema, config)
    weakref.finalize(tables, memory.forget, store.handle.place.identity())
    return queue
