"""Place of an item in the order of service, and when a claim may come to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_queue.wording import duration, plural

if TYPE_CHECKING:
    from spark_queue.config import QueueConfig
    from spark_queue.results import Explanation
    from spark_queue.views.answers import Answer, Answers, Question

#: Why an item waits that has a place.
_WAITS = frozenset({"runnable", "limit", "paused", "delayed", "held by group"})

#: Seconds that are no time to speak of.
_SOON = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an item stands, if no other comes. Durations are seconds from the report on."""

    ahead: int
    """Items that may run and come before it; about so many while items that failed come back."""
    held_ahead: int
    """Items that come before it once their group lets them."""
    members_ahead: int
    """Open items before it in its group."""
    least: float | None
    """When a claim comes to it, at the fastest pace of late; None where there is no estimate."""
    most: float | None
    """The same at the slowest; None where nothing was claimed in the newest part of that time."""
    why: str = ""
    """Why there is no estimate."""

    def __str__(self) -> str:
        return f"{self._before()}; {self._when()}"

    def _before(self) -> str:
        said = [f"{self.ahead:,} in line before it" if self.ahead else "next in line"]
        if self.held_ahead:
            said.append(f"{self.held_ahead:,} held by a group")
        if self.members_ahead:
            said.append(f"{plural(self.members_ahead, 'open item')} before it in its group")
        return ", ".join(said)

    def _when(self) -> str:
        if self.least is None:
            return f"no estimate: {self.why}"
        is_soon = self.least < _SOON
        if self.most is None:
            least = (
                "at the next claim or later" if is_soon else f"in {duration(self.least)} or more"
            )
            return f"expected {least}"
        if self.most < _SOON:
            return "expected at the next claim"
        least, most = duration(self.least), duration(self.most)
        if is_soon or least == most:
            return f"expected within {most}"
        return f"expected in {least} to {most}"


def read_place(
    answers: Answers, asked: Question, why: Explanation, config: QueueConfig
) -> Place | None:
    """Read where an item stands; ``None`` where it waits for no claim.

    The estimate goes by how many items were claimed of late, and by how long half of them were
    worked on: of a group one after the other.
    """
    if why.reason not in _WAITS:
        return None
    (row,), (taking,) = (
        answers.rows("places_in_line", f"seq = {why.seq}"),
        answers.rows("claim_rates"),
    )
    standing = {name: row[name] for name in ("ahead", "held_ahead", "members_ahead")}
    if asked.paused:
        return Place(**standing, least=None, most=None, why="the queue is paused")
    if not taking["per_second"]:
        return Place(**standing, least=None, most=None, why="nothing was claimed of late")
    least, most = _estimate(row, taking, config.group_limit)
    delay = 0.0 if why.until is None else max(0.0, (why.until - asked.now).total_seconds())
    return Place(**standing, least=max(delay, least), most=most and max(delay, most))


def _estimate(row: Answer, taking: Answer, group_limit: int) -> tuple[float, float | None]:
    in_group = (taking["work"] or 0.0) * (row["members_ahead"] // group_limit)
    least = max(in_group, row["ahead"] / taking["most"])
    if not taking["least"]:
        return least, None
    return least, max(in_group, (row["ahead"] + row["held_ahead"] + 1) / taking["least"])
