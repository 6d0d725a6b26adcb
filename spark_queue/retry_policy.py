"""The policy of retries: how long a failed item waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, get_args

from spark_queue.checks import (
    is_number,
    known_options,
    require_choice,
    require_duration,
    require_seq,
    seconds,
)
from spark_queue.errors import InvalidArgumentError, InvalidConfigError
from spark_queue.wording import shorten

Backoff = Literal["fixed", "linear", "exponential"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How long a failed item waits before its next attempt.

    The delay after the n-th failed attempt is ``delay`` (fixed), ``n * delay`` (linear) or
    ``2 ** (n - 1) * delay`` (exponential), never more than ``cap``, times a factor drawn from
    ``1 - jitter .. 1``. The draw is a hash of the item and the attempt, so it can be replayed.

    Raises
    ------
    InvalidConfigError
        When a value is out of its range; the message names the field and the value.
    """

    backoff: Backoff = "exponential"
    """How the delay grows with the number of failed attempts."""
    delay: timedelta = timedelta(seconds=1)
    """The delay after the first failure. Zero retries at once, and may spin on a broken item."""
    cap: timedelta = timedelta(hours=1)
    """The longest delay."""
    jitter: float = 0.0
    """Share of the delay that is drawn: 0 none (default), 1 anything between zero and the delay."""

    def __post_init__(self) -> None:
        require_choice("retry.backoff", self.backoff, get_args(Backoff), InvalidConfigError)
        require_duration("retry.delay", self.delay, InvalidConfigError, timedelta(0))
        require_duration("retry.cap", self.cap, InvalidConfigError, timedelta(0))
        if not is_number(self.jitter) or not 0 <= self.jitter <= 1:
            raise InvalidConfigError(
                f"retry.jitter is {shorten(self.jitter)}: it must be from 0 to 1"
            )
        if self.cap < self.delay:
            raise InvalidConfigError(
                f"retry.cap ({self.cap}) is shorter than retry.delay ({self.delay}); raise the cap"
            )

    # rule: delay of a retry
    def delay_after(self, attempts: int, draw: float = 0.0) -> timedelta:
        """Return the delay after so many failed attempts.

        Parameters
        ----------
        attempts : int
            Failed attempts so far, 1 after the first failure.
        draw : float
            A number from 0 to 1 that places the delay within its jitter; 0 gives all of it.
        """
        require_seq("attempts", attempts)
        if not is_number(draw) or not 0 <= draw <= 1:
            raise InvalidArgumentError(f"draw is {shorten(draw)}: it must be from 0 to 1")
        return timedelta(seconds=self.seconds_after(attempts) * (1 - self.jitter * draw))

    def seconds_after(self, attempts: int) -> float:
        """Return the seconds of the delay after so many failed attempts, before its jitter."""
        if self.backoff == "fixed":
            factor = 1.0
        elif self.backoff == "linear":
            factor = float(attempts)
        else:
            factor = 2.0 ** min(attempts - 1, 62)
        return min(self.delay.total_seconds() * factor, self.cap.total_seconds())


def retry_from_dict(plain: Mapping[str, Any]) -> RetryPolicy:
    """Read a policy from plain data; delays are seconds."""
    values = known_options(RetryPolicy, plain)
    for name in ("delay", "cap"):
        if is_number(values.get(name)):
            values[name] = seconds(f"retry.{name}", values[name])
    return RetryPolicy(**values)


def require_policy(name: str, policy: object) -> None:
    """Raise where a value is no policy."""
    if not isinstance(policy, RetryPolicy):
        raise InvalidConfigError(f"{name} is {shorten(policy)}: it must be a RetryPolicy")
