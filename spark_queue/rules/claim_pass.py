"""One claim's way along the order of service, past limits and rates of keys."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING

from spark_queue.rules.limiting import Limited

if TYPE_CHECKING:
    from spark_queue.rules.pacing import Tally, UnitsAsked
    from spark_queue.rules.rule_model import Record


class Pass:
    """One claim's way along the order of service, past what limits keep back.

    Parameters
    ----------
    room : callable
        Returns how many items of a key may start in the claim.
    has_groups : bool
        Whether items of a group stay behind each other.
    tally : Tally, optional
        What the claim charges to keys with rates.
    """

    __slots__ = ("_has_groups", "_room", "left", "passed", "tally")

    def __init__(
        self, room: Callable[[Limited], float], *, has_groups: bool, tally: Tally | None = None
    ) -> None:
        self._room = room
        self._has_groups = has_groups
        self.tally = tally
        self.left: dict[Limited, float] = {}
        self.passed: dict[Hashable, int] = {}
        """The first item of each group that was passed for a limit."""

    def admits(self, record: Record) -> bool:
        """Tell as :meth:`takes` whether an item starts that is next."""
        key, is_lapsed = record.new.group_key, record.place == "lost"
        return self.takes(record.seq, key, record.limited, record.asked, is_lapsed=is_lapsed)

    # rule: pass of a claim
    def takes(
        self,
        seq: int,
        group_key: Hashable,
        keys: Sequence[Limited],
        asked: Sequence[UnitsAsked] = (),
        *,
        is_lapsed: bool,
    ) -> bool:
        """Tell whether the next item in order may start.

        One of a group stays behind an earlier one that was passed. One whose lease ran out has its
        slots; any other needs room in all its limits. Each needs its units of all its rates, which
        are asked last: what a limit keeps back is nothing to them.
        """
        if self.passed and self.passed.get(group_key, seq) < seq:
            return False
        has_room = is_lapsed or all(map(self._has_room, keys))
        if has_room and (self.tally is None or not asked or self.tally.admits(asked)):
            return True
        self.keep_back(seq, group_key)
        return False

    def start(self, record: Record) -> None:
        """Count as :meth:`charge` an item that starts."""
        self.charge(record.limited, record.asked, is_lapsed=record.place == "lost")

    def charge(
        self, keys: Sequence[Limited], asked: Sequence[UnitsAsked] = (), *, is_lapsed: bool
    ) -> None:
        """Count an item that starts: in all its limits and rates."""
        if not is_lapsed:
            for key in keys:
                self.left[key] -= 1
        if self.tally is not None:
            self.tally.charge(asked)

    def closed_keys(self) -> list[Limited]:
        """Return the keys of which nothing more starts."""
        full = [key for key, left in self.left.items() if left <= 0]
        return full if self.tally is None else full + self.tally.closed_keys()

    @property
    def is_over(self) -> bool:
        """Whether nothing more of the claim starts."""
        return self.tally is not None and self.tally.is_over

    def keep_back(self, seq: int, group_key: Hashable) -> None:
        """Note an item that a limit keeps back: later ones of its group stay behind it."""
        if self._has_groups and group_key is not None:
            self.passed[group_key] = min(seq, self.passed.get(group_key, seq))

    def _has_room(self, key: Limited) -> bool:
        left = self.left.get(key)
        if left is None:
            left = self.left[key] = self._room(key)
        return left > 0
