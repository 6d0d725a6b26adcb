"""Configuration of a queue: keys, scope, limits, retries, weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast, get_args

from spark_queue.checks import (
    known_options,
    optional,
    require_choice,
    require_count,
    require_duration,
    require_expression,
    require_seq,
    require_weights,
    seconds,
)
from spark_queue.errors import InvalidArgumentError, InvalidConfigError, did_you_mean
from spark_queue.wording import shorten

if TYPE_CHECKING:
    from typing_extensions import Unpack

DedupScope = Literal["live", "forever"] | timedelta
OnFailure = Literal["block", "skip"]
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
        if not _is_number(self.jitter) or not 0 <= self.jitter <= 1:
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
        if not _is_number(draw) or not 0 <= draw <= 1:
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


class LiveSettings(TypedDict, total=False):
    """The settings that may change while a queue runs, as :class:`QueueConfig` explains them."""

    forget_sources_after: timedelta | None
    group_limit: int
    lease: timedelta
    max_attempts: int | None
    max_in_flight: int | None
    max_losses: int | None
    on_failure: OnFailure
    retry: RetryPolicy
    weights: Mapping[str, float | None]


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
    forget_sources_after: timedelta | None = timedelta(days=90)
    """How long it is known what a batch of a source did (``enqueue(batch=...)``, streams) after its
    last one; ``None`` for ever. Each step carries the sources that are known. Of a source that was
    silent for longer a repeated batch is refused."""

    def __post_init__(self) -> None:
        for name in ("dedup_key", "fair_key", "group_key", "priority"):
            value, kind = getattr(self, name), "a SQL expression or None"
            optional(require_expression, name, value, error=InvalidConfigError, kind=kind)
        _require_scope(self.dedup_scope)
        require_choice("on_failure", self.on_failure, get_args(OnFailure), InvalidConfigError)
        require_duration("lease", self.lease, InvalidConfigError)
        after = self.forget_sources_after
        optional(require_duration, "forget_sources_after", after, error=InvalidConfigError)
        require_count("group_limit", self.group_limit, InvalidConfigError)
        for name in ("max_in_flight", "max_attempts", "max_losses"):
            optional(require_count, name, getattr(self, name), error=InvalidConfigError)
        require_weights(self.weights)
        if not isinstance(self.retry, RetryPolicy):
            raise InvalidConfigError(f"retry is {shorten(self.retry)}: it must be a RetryPolicy")
        self._require_related()

    def _require_related(self) -> None:
        if self.dedup_scope != "live" and self.dedup_key is None:
            raise InvalidConfigError(
                f"dedup_scope is {shorten(self.dedup_scope)} but dedup_key is not set; name a "
                "dedup_key"
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
        return dataclasses.replace(self, **cast("dict[str, Any]", settings))

    @staticmethod
    def _why_not_live(name: str) -> str:
        if name in {f.name for f in dataclasses.fields(QueueConfig)}:
            return f"{name} is fixed when a queue is created; create another queue to change it"
        return f"unknown setting {shorten(name)}{did_you_mean(name, sorted(LIVE_SETTINGS))}"

    def to_dict(self) -> dict[str, Any]:
        """Return the configuration as plain data (durations in seconds), for JSON or YAML."""
        plain = _in_seconds(dataclasses.asdict(self))
        return {**plain, "weights": dict(self.weights), "retry": _in_seconds(plain["retry"])}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> QueueConfig:
        """Read a configuration from plain data, as :meth:`to_dict` writes it.

        Raises
        ------
        InvalidConfigError
            When a name is unknown (with the name that was probably meant) or a value is wrong.
        """
        if not isinstance(plain, Mapping):
            raise InvalidConfigError(
                f"the configuration is {shorten(plain)}: it must map names to values"
            )
        values = known_options(cls, plain)
        for name in ("dedup_scope", "lease", "forget_sources_after"):
            if _is_number(values.get(name)):
                values[name] = seconds(name, values[name])
        if isinstance(values.get("retry"), Mapping):
            values["retry"] = _retry_from_dict(values["retry"])
        return cls(**values)


def _in_seconds(values: Mapping[str, Any]) -> dict[str, Any]:
    return {n: v.total_seconds() if isinstance(v, timedelta) else v for n, v in values.items()}


def _retry_from_dict(plain: Mapping[str, Any]) -> RetryPolicy:
    values = known_options(RetryPolicy, plain)
    for name in ("delay", "cap"):
        if _is_number(values.get(name)):
            values[name] = seconds(f"retry.{name}", values[name])
    return RetryPolicy(**values)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _require_scope(scope: object) -> None:
    if isinstance(scope, timedelta):
        require_duration("dedup_scope", scope, InvalidConfigError)
    else:
        require_choice("dedup_scope", scope, ("live", "forever"), InvalidConfigError)


def require_config(config: object) -> QueueConfig:
    """Return the configuration of a new queue, the default one for ``None``.

    Raises
    ------
    InvalidConfigError
        When it is something else.
    """
    if config is None:
        return QueueConfig()
    if not isinstance(config, QueueConfig):
        raise InvalidConfigError(
            f"config is {shorten(config)}: it must be a QueueConfig, as QueueConfig.from_dict "
            "makes one"
        )
    return config


#: Options that may be a number or ``none``.
_COUNTS = ("max_attempts", "max_in_flight", "max_losses", "forget_sources_after")


def read_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given, with counts as numbers.

    Raises
    ------
    InvalidConfigError
        When a count is no whole number and not ``none``.
    """
    return {
        name: _count(name, value) if name in _COUNTS and isinstance(value, str) else value
        for name, value in options.items()
        if value is not None
    }


def _count(name: str, text: str) -> int | None:
    if text.lower() == "none":
        return None
    try:
        return int(text)
    except ValueError:
        raise InvalidConfigError(f"{name} is {text!r}: it must be a whole number or none") from None


def read_weights(texts: Sequence[str] | None) -> dict[str, float] | None:
    """Read weights of keys; ``None`` where none is given.

    Raises
    ------
    InvalidArgumentError
        When one is not ``KEY=WEIGHT``; a key may hold a ``=`` itself.
    """
    if not texts:
        return None
    weights = {}
    for text in texts:
        key, _, number = text.rpartition("=")
        try:
            weights[key] = float(number)
        except ValueError:
            key = ""
        if not key:
            raise InvalidArgumentError(f"weight is {text!r}: give it as KEY=WEIGHT")
    return weights


def changes(before: QueueConfig, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is asked for as settings: what is fixed only where it would change.

    Weights are changed key by key: the others keep theirs.

    Raises
    ------
    InvalidConfigError
        When a name is unknown or a value is wrong.
    """
    plain, weights = {**before.to_dict(), **asked}, asked.get("weights")
    if isinstance(weights, Mapping):
        plain["weights"] = {**before.weights, **weights}
    after = QueueConfig.from_dict(plain)
    found = {
        name: getattr(after, name)
        for name in asked
        if name in LIVE_SETTINGS or getattr(after, name) != getattr(before, name)
    }
    if isinstance(weights, Mapping):
        found["weights"] = {key: after.weights[key] for key in weights}
    return found


def merge(before: QueueConfig, settings: Mapping[str, Any]) -> QueueConfig:
    """Return a configuration with live settings changed, and weights key by key.

    Raises
    ------
    InvalidConfigError
        As for :meth:`QueueConfig.changed`.
    """
    for name in settings:
        if not isinstance(name, str):
            raise InvalidConfigError(f"unknown setting {shorten(name)}: settings have names")
    weights = settings.get("weights")
    if not isinstance(weights, Mapping):
        return before.changed(**settings)
    kept = {**before.weights, **weights}
    left = {key: weight for key, weight in kept.items() if weight is not None}
    return before.changed(**{**settings, "weights": left})


def plain_of(config: QueueConfig, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what settings are in a configuration, as plain data; of weights those of the keys."""
    plain = config.to_dict()
    found = {name: plain[name] for name in settings}
    if isinstance(settings.get("weights"), Mapping):
        found["weights"] = {key: config.weights.get(key, 1.0) for key in settings["weights"]}
    return found
