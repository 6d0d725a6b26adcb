"""Facts about an element of a distinct queue, beside the element itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar

T = TypeVar("T")

Status = Literal["queued", "in_progress"]


@dataclass(slots=True)
class History:
    """The facts of an element of which there is more to tell than when it was added.

    Attributes
    ----------
    place : int
        Its place among all elements that were ever taken; 0 while it has none.
    added_at : float
        When it was added, in seconds of the queue's clock.
    busy : float
        Seconds in progress, in the takes that it came back from.
    collisions, failures : int
        How often an equal element was refused, and how often it failed.
    """

    added_at: float
    place: int = 0
    busy: float = 0.0
    collisions: int = 0
    failures: int = 0


class LiveEntry(Generic[T]):
    """An element that is here, and its place."""

    # Its maker sets them all: an `__init__` would cost a tenth of an add and a take.
    __slots__ = ("facts", "item", "take")

    item: T
    #: A history, or when it was added, which is all there is to tell of most elements.
    facts: float | History
    #: The take that holds it; ``None`` while it is queued; :data:`GONE` in the end.
    take: Any

    def history(self) -> History:
        """Return the facts as a history, which they are from now on."""
        facts = self.facts
        if not isinstance(facts, History):
            self.facts = facts = History(facts)
        return facts


#: Where an element is that is done.
GONE: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Element(Generic[T]):
    """An element of a distinct queue and what became of it so far, at one instant."""

    item: T
    """The element: of equal ones the first that was added."""
    status: Status
    """Whether it waits, or a take holds it."""
    queued_seconds: float
    """How long it has waited, in all."""
    in_progress_seconds: float
    """How long takes have held it, in all."""
    collisions: int
    """How often an equal element was refused since it was added."""
    failures: int
    """How often it failed since it was added."""


class DistinctSnapshot(NamedTuple):
    """What was in a distinct queue at one instant; later changes do not show in it."""

    queued: tuple[Element[Any], ...]
    """What waits, in the order in which it will be taken."""
    in_progress: tuple[Element[Any], ...]
    """What takes hold, in the order in which it was added."""


def element_of(entry: LiveEntry[T], take: Any, now: float) -> Element[T]:
    """Make the public form of an element that a take holds, or none does."""
    facts = entry.facts
    history = facts if isinstance(facts, History) else History(facts)
    busy = history.busy if take is None else history.busy + now - take.taken_at
    return Element(
        item=entry.item,
        status="queued" if take is None else "in_progress",
        queued_seconds=now - history.added_at - busy,
        in_progress_seconds=busy,
        collisions=history.collisions,
        failures=history.failures,
    )


def snapshot_of(elements: list[Element[Any]]) -> DistinctSnapshot:
    """Sort elements by their status."""
    queued = tuple(element for element in elements if element.status == "queued")
    in_progress = tuple(element for element in elements if element.status == "in_progress")
    return DistinctSnapshot(queued, in_progress)
