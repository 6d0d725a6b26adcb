"""Shared parts of the stores of one handle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from spark_queue.clock import Clock
from spark_queue.delta.store.place import QueuePlace
from spark_queue.delta.tables import paths
from spark_queue.delta.tables.address import QueueAddress
from spark_queue.delta.tables.facts import Listener
from spark_queue.delta.tables.wishes import PlainSession, Session
from spark_queue.waiting.processes import Owner

#: Called between the staging of a step and its commit; tests put another party's step there.
Hook = Callable[[str], None]


@dataclass(slots=True)
class Handle:
    """A queue in the hands of somebody.

    Attributes
    ----------
    session : SparkSession or PlainSession
        What the caller opened it with.
    address : QueueAddress
        The queue's name or path.
    clock : Clock
        Asked once by each operation.
    listener : callable, optional
        Called with :class:`StepFacts` after every step.
    holder : str
        The front that this handle writes for; empty for none.
    is_native : bool
        Whether steps are committed without Spark wherever their rows are in this process.
    around : callable, optional
        Put around each handler that is to work on the items without Spark; tests fail items there.
    """

    session: Session
    address: QueueAddress
    clock: Clock
    listener: Listener | None = None
    hook: Hook | None = None
    holder: str = ""
    is_native: bool = False
    around: Callable[[Any], Any] | None = None
    place: QueuePlace = field(init=False)
    owner: Owner | None = field(init=False, repr=False)
    """Whose session of Spark it is."""

    def __post_init__(self) -> None:
        is_plain = isinstance(self.session, PlainSession)
        self.owner = None if is_plain else Owner("the session of Spark")
        paths.require_directory(self.session, self.address)
        self.place = QueuePlace(self.session, self.address)
