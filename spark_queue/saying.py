"""Verdict of a holder on an item, also by what a handler raises."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple, cast

from spark_queue.checks import require_seq, require_string
from spark_queue.errors import InvalidArgumentError, Reject, RetryAfter, pause_of, require_after
from spark_queue.wording import shorten, text_of

#: What a holder may say of an item.
OUTCOMES = ("ack", "nack", "defer", "release", "dead")

#: Outcomes behind which an item may wait.
WAITING = ("nack", "defer")


class Said(NamedTuple):
    """What the holder of an item says of it."""

    outcome: str
    error: str | None = None
    after: timedelta | None = None
    """How long it waits: where it is deferred, or in the place of the policy of retries."""
    pause: str | None = None
    """By which key of it no item starts for as long: an expression, ``""`` for the fair key."""
    is_begun: bool = True
    """Whether the item may have begun; of one that did not, units come back to its keys."""

    @property
    def micros(self) -> int | None:
        """The wait in microseconds."""
        return None if self.after is None else self.after // timedelta(microseconds=1)

    @property
    def row(self) -> dict[str, object]:
        """The same as columns of outcomes."""
        return {**self._asdict(), "after": self.micros}

    @classmethod
    def of(
        cls,
        outcome: str,
        error: str | None,
        micros: int | None,
        pause: str | None = None,
        together: int | None = None,
    ) -> Said:
        """Return what is said, with a wait in microseconds, and how many items were called."""
        after = None if micros is None else timedelta(microseconds=micros)
        return cls(outcome, error, after, pause, together != 0)


def nack_of(error: str, after: float | timedelta | None, *, pause: bool | str) -> Said:
    """Return the failure of an item; raise where a wait, or a key to pause, is none."""
    wait = None if after is None else require_after("after", after)
    return Said("nack", text_of(error), wait, pause_of(pause, has_end=wait is not None))


def defer_of(after: float | timedelta, error: str | None, *, pause: bool | str) -> Said:
    """Return the deferral of an item; raises as :func:`nack_of` does."""
    text = None if error is None else text_of(error)
    return Said("defer", text, require_after("after", after), pause_of(pause))


def said_of(exc: BaseException) -> Said:
    """Return what a handler says that raises something."""
    if isinstance(exc, RetryAfter):
        return Said("nack" if exc.charge else "defer", text_of(exc), exc.after, exc.pause)
    return Said("dead" if isinstance(exc, Reject) else "nack", text_of(exc))


def require_said(item: tuple[object, object]) -> tuple[int, Said]:
    """Return the seq of an item, and what its holder says of it.

    Raises
    ------
    InvalidArgumentError
        When one of them is none, or an item is to wait that does not.
    """
    seq, told = item
    require_seq("_seq in outcomes", seq)
    if isinstance(told, Said):
        return cast("int", seq), told
    is_one = isinstance(told, tuple) and len(told) in {2, 3}
    said = (*cast("tuple[Any, ...]", told), None) if is_one else (told, None, None)
    outcome, error, after = said[:3]
    if not isinstance(outcome, str) or outcome not in OUTCOMES:
        raise InvalidArgumentError(
            f"outcome {shorten(told)} of seq {seq}: use {', '.join(OUTCOMES)}, or a pair of one of "
            "them and an error"
        )
    if after is not None and outcome not in WAITING:
        raise InvalidArgumentError(
            f"outcome {shorten(told)} of seq {seq}: an item waits after nack and defer only"
        )
    is_waiting = after is not None or outcome == "defer"
    wait = require_after(f"after of seq {seq}", after) if is_waiting else None
    return cast("int", seq), Said(outcome, require_error(f"error of seq {seq}", error), wait)


def require_error(what: str, error: object) -> str | None:
    """Return the error of a caller as a log keeps it."""
    require_string(what, error)
    return None if error is None else text_of(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What settling items did."""

    step: int
    """The step that it became; 0 where there was nothing left to settle."""
    acked: int = 0
    """Items that are done."""
    failed: int = 0
    """Items that failed and are retried after their delay."""
    deferred: int = 0
    """Items that wait as their holder says: charged no attempt, but a deferral."""
    released: int = 0
    """Items that were given back: ready at once, charged no attempt."""
    dead: int = 0
    """Items that went to the dead letters."""

    def _repr_html_(self) -> str:
        deferred = f"{self.deferred} deferred, " if self.deferred else ""
        return (
            f"<b>step {self.step}</b>: {self.acked} acked, {self.failed} failed, "
            f"{deferred}{self.released} released, {self.dead} dead"
        )
