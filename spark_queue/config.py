"""Configuration of a queue: keys, scope, limits, retries, weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast, get_args

from spark_queue.checks import (
    is_number,
    known_options,
    require_choice,
    require_count,
    require_duration,
    require_expression,
    require_weights,
    seconds,
)
from spark_queue.errors import InvalidConfigError, did_you_mean
from spark_queue.flow import (
    RULES,
    Limit,
    Rate,
    require_debounce,
    require_rules,
    require_same_texts,
    rules_of,
)
from spark_queue.retry_policy import RetryPolicy, require_policy, retry_from_dict
from spark_queue.wording import shorten

if TYPE_CHECKING:
    from typing_extensions import Unpack

DedupScope = Literal["live", "forever"] | timedelta
OnFailure = Literal["block", "skip"]
OnDuplicate = Literal["skip", "raise", "replace"]


class LiveSettings(TypedDict, total=False):
    """The settings that may change while a queue runs, as :class:`QueueConfig` explains them."""

    at_most: timedelta | None
    debounce: timedelta | None
    forget_sources_after: timedelta | None
    group_limit: int
    lease: timedelta
    lease_grace: timedelta
    limits: tuple[Limit, ...]
    max_attempts: int | None
    max_deferrals: int | None
    max_in_flight: int | None
    max_losses: int | None
    on_duplicate: OnDuplicate
    on_failure: OnFailure
    rates: tuple[Rate, ...]
    retry: RetryPolicy
    weights: Mapping[str, float | None]


#: Their names; everything else is fixed when a queue is created.
LIVE_SETTINGS = frozenset(LiveSettings.__annotations__)

#: How a setting is checked, written and typed in: by the type of its field.
Kind = Literal["expression", "scope", "count", "duration", "choice", "weights", "retry", "rules"]
_KINDS: Mapping[str, Kind] = {
    "str": "expression",
    "DedupScope": "scope",
    "int": "count",
    "timedelta": "duration",
    "OnDuplicate": "choice",
    "OnFailure": "choice",
    "Mapping[str, float]": "weights",
    "RetryPolicy": "retry",
    "tuple[Limit, ...]": "rules",
    "tuple[Rate, ...]": "rules",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting of a queue: a row of :data:`SETTINGS`, from which all its faces are made."""

    name: str
    kind: Kind
    default: Any
    says: str
    """Its meaning in a few words: for an option, a form and a table."""
    is_live: bool
    """Whether it may change while a queue runs."""
    is_optional: bool
    """Whether ``None`` is a value."""
    takes_zero: bool
    """Whether 0 is a value, of a duration."""
    is_asked: bool
    """Whether SQL has it, a count or microseconds, as a column of ``sq_asked``."""
    orders: bool
    """Whether the order of service depends on it, so that a rehearsal tries it."""
    since: int
    """The format of a queue from which on the setting is known."""
    choices: tuple[str, ...] = ()
    """The words of a choice."""

    @property
    def is_line(self) -> bool:
        """Whether an option, or a field of a form, holds it; a policy takes a file."""
        return self.kind != "retry"

    def check(self, value: object) -> None:
        """Raise :class:`InvalidConfigError` where a value is not one of this setting."""
        if self.takes_zero and isinstance(value, timedelta) and not value:
            return
        if self.choices:
            require_choice(self.name, value, self.choices, InvalidConfigError)
        elif value is not None or not self.is_optional:
            _CHECKS[self.kind](self.name, value)


def _setting(
    default: Any,
    says: str,
    *,
    zero: bool = False,
    asked: bool = False,
    orders: bool = False,
    since: int = 1,
) -> Any:
    """Declare a field by its row of :data:`SETTINGS`."""
    row = {"says": says, "takes_zero": zero, "is_asked": asked, "orders": orders, "since": since}
    if callable(default):
        return field(default_factory=default, metadata=row)
    return field(default=default, metadata=row)


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

    dedup_key: str | None = _setting(None, "SQL expression: items with equal keys are duplicates")
    """Items with equal keys are duplicates within ``dedup_scope``. A null key never is one."""
    dedup_scope: DedupScope = _setting("live", "How long a key is taken: live, forever or seconds")
    """``"live"``: unique until acked, dead, expired or cancelled (default); a ``timedelta``: also
    that long from the enqueue of the first; ``"forever"``: once accepted, never again."""
    on_duplicate: OnDuplicate = _setting(
        "skip", "What becomes of a row whose key an item has", since=6
    )
    """``"skip"``: it is refused, which is said (default); ``"raise"``: all rows are; ``"replace"``:
    it enters, instead of the item that waits, or to run when the one is over that has begun."""
    debounce: timedelta | None = _setting(
        None, "Seconds that a replacing row waits for the next one", since=6
    )
    """How long a row that replaces others of its key waits for one that replaces it."""
    at_most: timedelta | None = _setting(
        None, "Seconds that rows may so put off the first of them", since=6
    )
    """How long after the first of them the last one is available at the latest."""
    fair_key: str | None = _setting(None, "SQL expression: keys take turns", orders=True)
    """Keys are served in rounds, one turn each. Null keys share one key. ``None``: one line."""
    group_key: str | None = _setting(
        None, "SQL expression: items of a group run in order", orders=True
    )
    """Items of one group run in order, ``group_limit`` at a time. A null key is in no group."""
    priority: str | None = _setting(
        None, "SQL expression: a higher number is served first", orders=True
    )
    """An integer expression; a higher number is served first. Null counts as 0."""
    weights: Mapping[str, float] = _setting(dict, "Turns per round of a fair key", orders=True)
    """Turns per round of a fair key; 1 for keys that are not named. A key of weight 2 is served
    twice as often as one of weight 1. A change applies to the backlog at the next claim."""
    group_limit: int = _setting(
        1, "Items of a group that may be in flight", asked=True, orders=True
    )
    """How many items of one group may be in flight. More than 1 gives up strict order."""
    max_in_flight: int | None = _setting(
        None, "Items that may be in flight", asked=True, orders=True
    )
    """How many items of the queue may be in flight at once; ``None`` (default) for no limit."""
    limits: tuple[Limit, ...] = _setting(
        (), "Items of a key that may be in flight", orders=True, since=6
    )
    """How many items of a key may be in flight, by each of several keys. Which keys is fixed when a
    queue is created, but for the texts of ``fair_key`` and ``group_key``; all numbers are live."""
    rates: tuple[Rate, ...] = _setting(
        (), "Units of a key that may start in a time", orders=True, since=6
    )
    """How many units of a key, or of the whole queue, may start in a time. Which keys and units is
    fixed as for ``limits``; the numbers are live, but for ``per``."""
    lease: timedelta = _setting(timedelta(minutes=5), "Seconds that a claim holds")
    """How long a claim holds its items. Too short: slow work runs twice. Too long: the items of a
    dead worker wait that long."""
    lease_grace: timedelta = _setting(
        timedelta(0),
        "Seconds after its end that a lease is left alone",
        zero=True,
        asked=True,
        orders=True,
        since=6,
    )
    """How long after its end no claim takes over the items of a lease. Its holder can settle and
    renew it until then: for workers whose renewal may be late. What a process held that has ended
    comes back at once, as without it."""
    max_attempts: int | None = _setting(5, "Failures after which an item is dead", asked=True)
    """Failed attempts (nacks) after which an item is dead; ``None`` retries for ever."""
    max_losses: int | None = _setting(5, "Lost leases after which an item is dead", asked=True)
    """Leases that may run out, and workers that may die of an item, before it is dead; ``None`` for
    no limit. Items that kill their worker end here instead of circulating for ever."""
    max_deferrals: int | None = _setting(
        100, "Deferrals after which an item is dead", asked=True, since=6
    )
    """How often a handler may defer an item (``RetryAfter``) until it is dead; ``None`` for no
    limit."""
    retry: RetryPolicy = _setting(RetryPolicy, "How long a failed item waits")
    """How long a failed item waits."""
    on_failure: OnFailure = _setting("block", "What a failed item does to its group")
    """``"block"``: a failed head holds its group until it is acked or dead (default);
    ``"skip"``: later items of the group pass while it waits. A dead head never blocks."""
    forget_sources_after: timedelta | None = _setting(
        timedelta(days=90), "Seconds that a silent source of batches is remembered", since=5
    )
    """How long it is known what a batch of a source did (``enqueue(batch=...)``, streams) after its
    last one; ``None`` for ever. Each step carries the sources that are known. Of a source that was
    silent for longer a repeated batch is refused."""

    def __post_init__(self) -> None:
        for row in SETTINGS:
            row.check(getattr(self, row.name))
        self._require_related()

    def _require_related(self) -> None:
        if self.dedup_scope != "live" and self.dedup_key is None:
            raise InvalidConfigError(
                f"dedup_scope is {shorten(self.dedup_scope)} but dedup_key is not set; name a "
                "dedup_key"
            )
        if self.on_duplicate == "replace" and self.dedup_key is None:
            raise InvalidConfigError(
                "on_duplicate is 'replace' but dedup_key is not set; name a dedup_key"
            )
        require_debounce(self.on_duplicate, self.debounce, self.at_most, InvalidConfigError)
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
            When a name is unknown, or a setting or the key of a limit is fixed at creation.
        """
        for name in settings:
            if name not in LIVE_SETTINGS:
                raise InvalidConfigError(_why_not_live(name))
        after = dataclasses.replace(self, **cast("dict[str, Any]", settings))
        require_same_texts(self, after)
        return after

    def to_dict(self) -> dict[str, Any]:
        """Return the configuration as plain data (durations in seconds), for JSON or YAML."""
        plain = _in_seconds(dataclasses.asdict(self))
        return {
            **plain,
            "weights": dict(self.weights),
            "retry": _in_seconds(plain["retry"]),
            **{name: [_in_seconds(rule) for rule in plain[name]] for name in RULES},
        }

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
        for row in SETTINGS:
            if row.kind in {"scope", "duration"} and is_number(values.get(row.name)):
                values[row.name] = seconds(row.name, values[row.name])
        values |= {name: rules_of(name, values.get(name, ())) for name in RULES}
        if isinstance(values.get("retry"), Mapping):
            values["retry"] = retry_from_dict(values["retry"])
        return cls(**values)


def _why_not_live(name: str) -> str:
    if any(row.name == name for row in SETTINGS):
        return f"{name} is fixed when a queue is created; create another queue to change it"
    return f"unknown setting {shorten(name)}{did_you_mean(name, sorted(LIVE_SETTINGS))}"


def _in_seconds(values: Mapping[str, Any]) -> dict[str, Any]:
    return {n: v.total_seconds() if isinstance(v, timedelta) else v for n, v in values.items()}


def _require_scope(name: str, scope: object) -> None:
    if isinstance(scope, timedelta):
        require_duration(name, scope, InvalidConfigError)
    else:
        require_choice(name, scope, ("live", "forever"), InvalidConfigError)


_CHECKS: Mapping[Kind, Callable[[str, Any], None]] = {
    "expression": partial(
        require_expression, error=InvalidConfigError, kind="a SQL expression or None"
    ),
    "scope": _require_scope,
    "count": partial(require_count, error=InvalidConfigError),
    "duration": partial(require_duration, error=InvalidConfigError),
    "weights": lambda _, value: require_weights(value),
    "retry": require_policy,
    "rules": require_rules,
}


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


def _row(one: dataclasses.Field[Any]) -> Setting:
    kind = str(one.type)
    words = {"OnFailure": get_args(OnFailure), "OnDuplicate": get_args(OnDuplicate)}
    default = one.default if one.default_factory is dataclasses.MISSING else one.default_factory()
    return Setting(
        name=one.name,
        kind=_KINDS[kind.removesuffix(" | None")],
        default=default,
        is_live=one.name in LIVE_SETTINGS,
        is_optional=kind.endswith(" | None"),
        choices=words.get(kind, ()),
        **one.metadata,
    )


#: Every setting of a queue, in the order of the fields of :class:`QueueConfig`.
SETTINGS: tuple[Setting, ...] = tuple(map(_row, dataclasses.fields(QueueConfig)))
