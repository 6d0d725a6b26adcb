"""Every order in which some processes can meet, each played once: a search that needs no luck.

A process stops before whatever others may notice, or may have changed: an effect. Two orders that
only differ in effects which have nothing to do with each other are the same. Of each such class one
order is played, found by dynamic partial-order reduction with source sets (Abdulla, Aronis, Jonsson
and Sagonas, 2014): where two effects meet that nothing else has put in order, the other order is
due, too. What was played from a place before sleeps there, so that nothing is played twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Effect:
    """What a process does next, or has done, that another may notice."""

    kind: Literal["read", "write", "take", "give"]
    """To take a lock is possible while nobody has it; it is given back by whoever has it."""
    target: str

    def meets(self, other: Effect) -> bool:
        """Tell whether it matters which of two comes first."""
        return self.target == other.target and not self.kind == other.kind == "read"


@dataclass(slots=True)
class _Place:
    """A place on the way: who could go on from there, and who has."""

    next: Mapping[int, Effect]
    """What each process does next."""
    able: frozenset[int]
    """Who can go on."""
    sleeping: dict[int, Effect]
    chosen: int
    due: set[int]
    effects: Sequence[Effect] = ()
    before: int = 0
    """The places that had to come before, one bit each."""


@dataclass(slots=True)
class Search:
    """Says who goes on, run after run, until every order was played."""

    whole: int = 0
    """Runs that were played to their end."""
    cut: int = 0
    """Runs that were left where nothing new was to come."""
    _way: list[_Place] = field(default_factory=list)
    _at: int = 0
    _before: dict[int, int] = field(default_factory=dict)

    def chosen(self, next_: Mapping[int, Effect], able: frozenset[int]) -> int | None:
        """Return who goes on; ``None`` where every way from here was played.

        Parameters
        ----------
        next_ : mapping
            What each process does next that has not ended.
        able : frozenset
            Who can: there is one.

        Raises
        ------
        RuntimeError
            When a run does not repeat what it is to repeat.
        """
        if self._at < len(self._way):
            place = self._way[self._at]
            if (place.next, place.able) != (next_, able):
                raise RuntimeError(f"not the same again: {place.next} and then {next_}")
            return place.chosen
        found = self._found(next_, able)
        if found is None:
            return None
        self._way.append(found)
        return found.chosen

    def went(self, effects: Sequence[Effect]) -> None:
        """Note all that whoever was chosen has done until it stopped again."""
        place = self._way[self._at]
        place.effects = effects
        known = self._before.get(place.chosen, 0)
        met = [at for at in range(self._at) if _meet(self._way[at].effects, effects)]
        place.before = known
        for at in met:
            place.before |= self._way[at].before | 1 << at
        if self._at == len(self._way) - 1:
            self._race(place, [at for at in met if not known >> at & 1])
        self._before[place.chosen] = place.before | 1 << self._at
        self._at += 1

    def again(self, *, is_whole: bool) -> bool:
        """End a run, and tell whether there is another one to play."""
        self.whole, self.cut = self.whole + is_whole, self.cut + (not is_whole)
        self._at, self._before = 0, {}
        while self._way:
            place = self._way[-1]
            place.sleeping[place.chosen] = place.next[place.chosen]
            left = sorted(place.due - place.sleeping.keys())
            if left:
                place.chosen = left[0]
                return True
            self._way.pop()
        return False

    def _found(self, next_: Mapping[int, Effect], able: frozenset[int]) -> _Place | None:
        """Return a place that is new, where whoever went on before does so."""
        last = self._way[-1] if self._way else None
        sleeping = {} if last is None else _still(last)
        awake = able - sleeping.keys()
        if not awake:
            return None
        chosen = last.chosen if last is not None and last.chosen in awake else min(awake)
        return _Place(next_, able, sleeping, chosen, {chosen})

    def _race(self, place: _Place, met: Sequence[int]) -> None:
        """Have the other order played, too, of what could have come before what it has met."""
        for at in self._rivals(place, met):
            first = self._first(at, place)
            if not first & self._way[at].due:
                self._way[at].due.add(min(first))

    def _rivals(self, place: _Place, met: Sequence[int]) -> Iterator[int]:
        """Return what could as well have come after what was done now, were it done before that."""
        effect, between = place.next[place.chosen], 0
        if effect.kind == "take":
            # It was given back in between; whoever has it first may be any of them.
            taken = [at for at in met if effect in self._way[at].effects]
            yield from taken[-1:]
            return
        for at in met:
            between |= self._way[at].before
        for at in met:
            if not between >> at & 1 and _meet(self._way[at].effects, [effect]):
                yield at

    def _first(self, at: int, place: _Place) -> set[int]:
        """Return who could be the first on a way to a place that avoids an earlier one."""
        first, passed, others = set[int](), 0, set[int]()
        for number in range(at + 1, self._at + 1):
            step = self._way[number]
            if step is not place and step.before >> at & 1:
                continue
            if not step.before & passed and step.chosen not in others:
                first.add(step.chosen)
            others.add(step.chosen)
            passed |= 1 << number
        return first


def _meet(some: Sequence[Effect], others: Sequence[Effect]) -> bool:
    return any(one.meets(other) for one in some for other in others)


def _still(last: _Place) -> dict[int, Effect]:
    """Return who sleeps on after a place: those whom nothing has touched there."""
    return {
        number: effect
        for number, effect in last.sleeping.items()
        if not _meet(last.effects, [effect])
    }
