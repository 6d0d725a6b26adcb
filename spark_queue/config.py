"""What a queue is (keys, scope) and how it behaves (limits, retry, weights)."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

from spark_queue.errors import InvalidConfigError, did_you_mean

if TYPE_CHECKING:
    from typing_extensions import Unpack

DedupScope = Literal["live", "forever"] | timedelta
OnFailure = Literal["block", "skip"]
Backoff = Literal["fixed", "linear", "exponential"]

#: The largest cost or weight: whole numbers above it cannot be divided.
LARGEST = sys.float_info.max


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
        _require_choice("retry.backoff", self.backoff, get_args(Backoff))
        _require_duration("retry.delay", self.delay, minimum=timedelta(0))
        _require_duration("retry.cap", self.cap, minimum=timedelta(0))
        if not 0 <= self.jitter <= 1:
            raise InvalidConfigError(f"retry.jitter is {self.jitter!r}: it must be from 0 to 1")
        if self.cap < self.delay:
            raise InvalidConfigError(
                f"retry.cap ({self.cap}) is shorter than retry.delay ({self.delay}); raise the cap"
            )

    def delay_after(self, attempts: int, draw: float = 0.0) -> timedelta:
        """Return the delay after so many failed attempts.

        Parameters
        ----------
        attempts : int
            Failed attempts so far, 1 after the first failure.
        draw : float
            A number from 0 to 1 that places the delay within its jitter; 0 gives all of it.
        """
        if self.backoff == "fixed":
            factor = 1.0
        elif self.backoff == "linear":
            factor = float(attempts)
        else:
            factor = 2.0 ** min(attempts - 1, 62)
        seconds = min(self.delay.total_seconds() * factor, self.cap.total_seconds())
        return timedelta(seconds=seconds * (1 - self.jitter * draw))


class LiveSettings(TypedDict, total=False):
    """The settings that may change while a queue runs, as :class:`QueueConfig` explains them."""

    group_limit: int
    lease: timedelta
    max_attempts: int | None
    max_in_flight: int | None
    max_losses: int | None
    on_failure: OnFailure
    retry: RetryPolicy
    weights: Mapping[str, float]


#: Their names; everything else is fixed when a queue is created.
LIVE_SETTINGS = frozenset(LiveSettings.__annotations__)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueConfig:
    """What identifies items and how they are served. Every key is optional.

    Keys are SQL expressions over the user's columns, evaluated once, when a row is enqueued. Those
    that tell items apart (all but ``priority``) must be the same in every session: see "Keys" in
    ``docs/guarantees.md``.

    Raises
    ------
    InvalidConfigError
        When a value is out of its range, or two values do not fit together.

    Examples
    --------
    >>> QueueConfig(dedup_key="path", fair_key="tenant", lease=timedelta(minutes=10)).group_limit
    1
    """

    dedup_key: str | None = None
    """Items with equal keys are duplicates within ``dedup_scope``. A null key never is one."""
    dedup_scope: DedupScope = "live"
    """``"live"``: unique until acked, dead, expired or cancelled (default); a ``timedelta``: also
    that long from the enqueue of the first; ``"forever"``: once accepted, never again."""
    fair_key: str | None = None
    """Keys are served in rounds, one turn each. Null keys share one key. ``None``: one line."""
    group_key: str | None = None
    """Items of one group run in order, ``group_limit`` at a time. A null key is in no group."""
    priority: str | None = None
    """An integer expression; a higher number is served first. Null counts as 0."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Turns per round of a fair key; 1 for keys that are not named. A key of weight 2 is served
    twice as often as one of weight 1. A change applies to the backlog at the next claim."""
    group_limit: int = 1
    """How many items of one group may be in flight. More than 1 gives up strict order."""
    max_in_flight: int | None = None
    """How many items of the queue may be in flight at once; ``None`` (default) for no limit."""
    lease: timedelta = timedelta(minutes=5)
    """How long a claim holds its items. Too short: slow work runs twice. Too long: the items of a
    dead worker wait that long."""
    max_attempts: int | None = 5
    """Failed attempts (nacks) after which an item is dead; ``None`` retries for ever."""
    max_losses: int | None = 5
    """Leases that may run out, and workers that may die of an item, before it is dead; ``None`` for
    no limit. Items that kill their worker end here instead of circulating for ever."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    """How long a failed item waits."""
    on_failure: OnFailure = "block"
    """``"block"``: a failed head holds its group until it is acked or dead (default);
    ``"skip"``: later items of the group pass while it waits. A dead head never blocks."""

    def __post_init__(self) -> None:
        for name in ("dedup_key", "fair_key", "group_key", "priority"):
            _require_expression(name, getattr(self, name))
        _require_scope(self.dedup_scope)
        _require_choice("on_failure", self.on_failure, get_args(OnFailure))
        _require_duration("lease", self.lease, minimum=timedelta(milliseconds=1))
        _require_count("group_limit", self.group_limit)
        for name in ("max_in_flight", "max_attempts", "max_losses"):
            if getattr(self, name) is not None:
                _require_count(name, getattr(self, name))
        _require_weights(self.weights)
        self._require_related()

    def _require_related(self) -> None:
        if self.dedup_scope != "live" and self.dedup_key is None:
            raise InvalidConfigError(
                f"dedup_scope is {self.dedup_scope!r} but dedup_key is not set; name a dedup_key"
            )
        if self.weights and self.fair_key is None:
            raise InvalidConfigError("weights are given but fair_key is not set; name a fair_key")
        if self.group_limit != 1 and self.group_key is None:
            raise InvalidConfigError(
                f"group_limit is {self.group_limit} but group_key is not set; name a group_key"
            )

    def changed(self, **settings: Unpack[LiveSettings]) -> QueueConfig:
        """Return a copy with some live settings changed.

        Raises
        ------
        InvalidConfigError
            When a name is unknown or belongs to what is fixed at creation.
        """
        for name in settings:
            if name not in LIVE_SETTINGS:
                raise InvalidConfigError(self._why_not_live(name))
        return dataclasses.replace(self, **settings)

    @staticmethod
    def _why_not_live(name: str) -> str:
        if name in {f.name for f in dataclasses.fields(QueueConfig)}:
            return f"{name} is fixed when a queue is created; create another queue to change it"
        return f"unknown setting {name!r}{did_you_mean(name, sorted(LIVE_SETTINGS))}"

    def to_dict(self) -> dict[str, Any]:
        """Return the configuration as plain data (durations in seconds), for JSON or YAML."""
        plain = dataclasses.asdict(self)
        plain["weights"] = dict(self.weights)
        plain["lease"] = self.lease.total_seconds()
        plain["retry"] = {
            name: value.total_seconds() if isinstance(value, timedelta) else value
            for name, value in dataclasses.asdict(self.retry).items()
        }
        if isinstance(self.dedup_scope, timedelta):
            plain["dedup_scope"] = self.dedup_scope.total_seconds()
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> QueueConfig:
        """Read a configuration from plain data, as :meth:`to_dict` writes it.

        Raises
        ------
        InvalidConfigError
            When a name is unknown (with the name that was probably meant) or a value is wrong.
        """
        values = dict(plain)
        _require_known(values, cls)
        if isinstance(values.get("dedup_scope"), int | float):
            values["dedup_scope"] = timedelta(seconds=values["dedup_scope"])
        if isinstance(values.get("lease"), int | float):
            values["lease"] = timedelta(seconds=values["lease"])
        if isinstance(values.get("retry"), Mapping):
            values["retry"] = _retry_from_dict(values["retry"])
        return cls(**values)


def _retry_from_dict(plain: Mapping[str, Any]) -> RetryPolicy:
    values = dict(plain)
    _require_known(values, RetryPolicy)
    for name in ("delay", "cap"):
        if isinstance(values.get(name), int | float):
            values[name] = timedelta(seconds=values[name])
    return RetryPolicy(**values)


def _require_known(values: Mapping[str, Any], kind: type[QueueConfig | RetryPolicy]) -> None:
    known = [f.name for f in dataclasses.fields(kind)]
    for name in values:
        if name not in known:
            raise InvalidConfigError(f"unknown option {name!r}{did_you_mean(name, known)}")


def _require_expression(name: str, value: object) -> None:
    if value is None:
        return
    if not isinstance(value, str) or not value.strip():
        raise InvalidConfigError(f"{name} is {value!r}: it must be a SQL expression or None")


def _require_scope(scope: object) -> None:
    if isinstance(scope, timedelta):
        _require_duration("dedup_scope", scope, minimum=timedelta(milliseconds=1))
    else:
        _require_choice("dedup_scope", scope, ("live", "forever"))


def _require_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        meant = did_you_mean(str(value), choices)
        raise InvalidConfigError(f"{name} is {value!r}, which is no choice{meant}")


def _require_duration(name: str, value: object, minimum: timedelta) -> None:
    if not isinstance(value, timedelta):
        raise InvalidConfigError(f"{name} is {value!r}: it must be a timedelta")
    if value < minimum:
        raise InvalidConfigError(f"{name} is {value}: it must be at least {minimum}")


def _require_count(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidConfigError(f"{name} is {value!r}: it must be a whole number of at least 1")


def _require_weights(weights: Mapping[str, float]) -> None:
    for key, weight in weights.items():
        if not is_positive(weight):
            raise InvalidConfigError(
                f"weights[{key!r}] is {weight!r}: it must be a number above 0 that a float can hold"
            )


def is_positive(value: Any) -> bool:
    """Tell whether something is a number above 0 that can be divided by: finite as a float."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 < value <= LARGEST
