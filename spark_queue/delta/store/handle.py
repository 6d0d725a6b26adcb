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
from spark_queue.delta.tables.natives import Natives
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
    natives : Natives, optional
        The logs, where steps are committed without Spark.
    around : callable, optional
        Put around each handler that is to work on the items without Spark; tests fail items there.
    """

    session: Session
    address: QueueAddress
    clock: Clock
    listener: Listener | None = None
    hook: Hook | None = None
    holder: str = ""
    natives: Natives | None = None
    around: Callable[[Any], Any] | None = None
    place: QueuePlace = field(init=False)
    _owner: Owner = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._owner = Owner("the session of Spark")
        paths.require_directory(self.session, self.address)
        self.place = QueuePlace(self.session, self.address)

    def require_session(self) -> Handle:
        """Return this, unless its session of Spark is that of a parent, who uses it meanwhile.

        Raises
        ------
        SetupError
            In a child of a fork.
        """
        if not isinstance(self.session, PlainSession):
            self._owner.require()
        return self
