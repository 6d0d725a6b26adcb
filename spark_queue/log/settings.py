"""The configuration in force: a row of the status log, so that a change takes effect at a step."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa

from spark_queue.config import SETTINGS, QueueConfig
from spark_queue.errors import FormatVersionError, InvalidConfigError, LogDamagedError
from spark_queue.flow import RULES, Pause, key_texts
from spark_queue.log import kernels as pc
from spark_queue.log.heads import Checkpoint, Pointer
from spark_queue.log.schema import FORMAT_VERSION
from spark_queue.rules.fairness import Scale

#: Pinned together where nothing is said: the tag, and the turn.
_UNPINNED = (0.0, 0.0)

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

#: The format with which pauses of keys came.
_PAUSES_SINCE = 6

#: By how much a bound of tags is wider than what it is worked out from, in parts of it.
SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class Stretch:
    """How the stored tags of a weighted key map to turns, at each priority.

    A key's tags count its own cost, at any weight. When a weight changes, tags and turns are pinned
    together where the pointer stands, so what waits moves at once and what was served stays.
    """

    weight: float
    pins: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """Per priority, the (tag, turn) that are pinned together; (0, 0) for others."""

    _scales: dict[int, Scale] = field(default_factory=dict, init=False, repr=False, compare=False)

    def turn(self, priority: int, tag: float) -> float:
        """Return the turn of a stored tag."""
        return self._at(priority).tag(tag)

    def tag(self, priority: int, turn: float) -> float:
        """Return the stored tag of a turn."""
        return self._at(priority).raw(turn)

    def reweighted(self, weight: float, pointers: Mapping[int, Pointer]) -> Stretch:
        """Return the map after a change of weight while the pointers stand where they do."""
        pins = dict(self.pins)
        for priority, (turn, _) in pointers.items():
            scale = Scale(self.weight, *pins.get(priority, _UNPINNED))
            scale.stretch(turn, weight)
            pins[priority] = (scale.raw_pin, scale.pin)
        return Stretch(weight, pins)

    def _at(self, priority: int) -> Scale:
        found = self._scales.get(priority)
        if found is None:
            found = Scale(self.weight, *self.pins.get(priority, _UNPINNED))
            self._scales[priority] = found
        return found


#: A key whose weight is, and was, 1.
UNWEIGHTED = Stretch(1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a configuration row says."""

    config: QueueConfig
    paused: bool = False
    pauses: tuple[Pause, ...] = ()
    """Keys that are paused, or were until a moment ago."""
    stretches: Mapping[str, Stretch] = field(default_factory=dict)
    """Fair keys whose weight is, or once was, not 1."""
    format: int = FORMAT_VERSION
    """The version that the queue was made in, or upgraded to: what its rows are like."""

    @classmethod
    def initial(cls, config: QueueConfig) -> Settings:
        """Return the settings of a new queue."""
        return cls(config=config, stretches={k: Stretch(w) for k, w in config.weights.items()})

    def reconfigured(self, config: QueueConfig, pointers: Mapping[int, Pointer]) -> Settings:
        """Return the settings with another configuration, from a step with these pointers on.

        Raises
        ------
        InvalidConfigError
            When a setting is changed that came after the queue's format.
        """
        for row in SETTINGS:
            value = getattr(config, row.name)
            if row.since > self.format and value != getattr(self.config, row.name):
                raise InvalidConfigError(
                    f"{row.name} is {value}: it came with format {row.since}, and the queue is of "
                    f"format {self.format}; upgrade it"
                )
        stretches = dict(self.stretches)
        for key in {*stretches, *config.weights}:
            old = stretches.get(key, UNWEIGHTED)
            weight = config.weights.get(key, 1.0)
            if weight != old.weight:
                stretches[key] = old.reweighted(weight, pointers)
        return replace(self, config=config, stretches=stretches)

    def paused_at(self, now: datetime) -> tuple[Pause, ...]:
        """Return the pauses of keys that are in force."""
        return tuple(one for one in self.pauses if one.is_in_force(now))

    def pause_of(self, by: str, key: str, now: datetime) -> Pause | None:
        """Return the pause of a key that is in force, if there is one."""
        return next((one for one in self.paused_at(now) if (one.by, one.key) == (by, key)), None)

    def pause_on(self, keys: Sequence[Hashable], now: datetime) -> Pause | None:
        """Return the pause that keeps an item of these keys back for longest."""
        of = dict(zip(key_texts(self.config), keys, strict=False))
        found = (one for one in self.paused_at(now) if of.get(one.by) == one.key)
        return max(found, key=lambda one: (one.until is None, one.until or one.at), default=None)

    def key_ends(self) -> dict[tuple[str, Hashable], float]:
        """Return until when each key is paused, since 1970; infinity for an open end."""
        ends = {(one.by, one.key): one.until for one in self.pauses}
        return {key: math.inf if end is None else end.timestamp() for key, end in ends.items()}

    def paused_as(self, other: Settings) -> Settings:
        """Return the settings with the pauses of keys of other ones."""
        return replace(self, pauses=other.pauses)

    # rule: pause of a key
    def with_pause(self, pause: Pause) -> Settings:
        """Return the settings with a key paused: of two pauses the longer one wins.

        Raises
        ------
        InvalidConfigError
            When the queue's format has no pauses of keys.
        """
        self.require_pauses()
        known = {(one.by, one.key): one for one in self._pauses_left(pause.at)}
        old = known.get((pause.by, pause.key))
        if old is not None:
            pause = replace(pause, times=old.times + 1)
            if old.is_in_force(pause.at):
                until = old.until if old.lasts(pause.until) else pause.until
                pause = replace(pause, at=old.at, until=until)
        return replace(self, pauses=tuple({**known, (pause.by, pause.key): pause}.values()))

    def without_pause(self, by: str, key: str, now: datetime) -> Settings:
        """Return the settings with a key resumed."""
        self.require_pauses()
        left = (one for one in self._pauses_left(now) if (one.by, one.key) != (by, key))
        return replace(self, pauses=tuple(left))

    def _pauses_left(self, now: datetime) -> Iterator[Pause]:
        """Return the pauses that have not ended as long ago as they lasted."""
        for one in self.pauses:
            if one.until is None or one.until + (one.until - one.at) > now:
                yield one

    def require_pauses(self) -> None:
        """Raise where the format has no pauses of keys."""
        if self.format < _PAUSES_SINCE:
            raise InvalidConfigError(
                f"a pause of a key came with format {_PAUSES_SINCE}, and the queue is of format "
                f"{self.format}; upgrade it"
            )

    def turn(self, priority: int, fair_key: str | None, tag: float) -> float:
        """Return the turn of the stored tag of a key, at its weight."""
        return self.stretch(fair_key).turn(priority, tag)

    def stretch(self, fair_key: str | None) -> Stretch:
        """Return how the stored tags of a key map to turns."""
        return UNWEIGHTED if fair_key is None else self.stretches.get(fair_key, UNWEIGHTED)

    def is_clamped(self) -> bool:
        """Tell whether members of a group may stand in an order of their own.

        Where they have turns of several lines, or priorities, a later one may stand before an
        earlier one, and an item of a line before one that has its turn.
        """
        config = self.config
        has_lines = config.fair_key is not None or config.priority is not None
        return config.group_key is not None and has_lines

    def least_tag(self, priority: int, turn: float) -> float:
        """Return a bound below the stored tags of all keys at a turn of a priority."""
        return min(_slack(tag, -1) for tag in self._tags_of(priority, turn))

    def highest_tag(self, priority: int, turn: float) -> float:
        """Return a bound above the stored tags of all keys at a turn of a priority."""
        return max(_slack(tag, 1) for tag in self._tags_of(priority, turn))

    def _tags_of(self, priority: int, turn: float) -> list[float]:
        return [turn, *(stretch.tag(priority, turn) for stretch in self.stretches.values())]

    def to_json(self) -> str:
        """Write the settings as the text of their row."""
        plain = {
            "format": self.format,
            "config": self._config(),
            "paused": self.paused,
            "stretches": {
                key: {"weight": s.weight, "pins": {str(p): pin for p, pin in s.pins.items()}}
                for key, s in self.stretches.items()
            },
        }
        if self.pauses:
            texts = key_texts(self.config)
            # With the place of the key in an item: SQL reads them.
            plain["pauses"] = [
                [*_pause_to_list(pause), texts.index(pause.by)] for pause in self.pauses
            ]
        return json.dumps(plain, separators=(",", ":"))

    def _config(self) -> dict[str, Any]:
        # To older releases the name of a newer setting is unknown.
        plain = self.config.to_dict()
        # As pairs, which SQL can count: a key may have any sign in it.
        for rule in (rule for name in RULES for rule in plain[name]):
            rule["overrides"] = list(rule["overrides"].items())
        return {row.name: plain[row.name] for row in SETTINGS if row.since <= self.format}

    @classmethod
    def from_json(cls, name: str, text: str) -> Settings:
        """Read the settings of a queue from the text of their row.

        Raises
        ------
        FormatVersionError
            When the row was written by a release with a newer format.
        LogDamagedError
            When it is no row of settings.
        """
        try:
            return cls._from_json(name, text)
        except (LookupError, TypeError, ValueError, AttributeError) as exc:
            why = f"a row of its configuration cannot be read ({exc}): {text[:100]!r}"
            raise LogDamagedError(name, "status", 0, why) from exc

    @classmethod
    def _from_json(cls, name: str, text: str) -> Settings:
        plain: dict[str, Any] = json.loads(text)
        if plain["format"] > FORMAT_VERSION:
            raise FormatVersionError(name, plain["format"], FORMAT_VERSION)
        stretches = {
            key: Stretch(s["weight"], {int(p): (pin[0], pin[1]) for p, pin in s["pins"].items()})
            for key, s in plain["stretches"].items()
        }
        return cls(
            config=QueueConfig.from_dict(plain["config"]),
            paused=plain["paused"],
            pauses=tuple(_pause_of(*one) for one in plain.get("pauses", ())),
            stretches=stretches,
            format=plain["format"],
        )


def _pause_to_list(pause: Pause) -> list[Any]:
    until = None if pause.until is None else _micros(pause.until)
    return [pause.by, pause.key, until, _micros(pause.at), pause.who, pause.times]


def _pause_of(
    by: str, key: str, until: int | None, at: int, who: str, times: int, *_: int
) -> Pause:
    end = None if until is None else _instant(until)
    return Pause(by=by, key=key, until=end, at=_instant(at), who=who, times=times)


def _micros(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)


def _instant(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def format_of(text: str) -> int:
    """Return the format that the text of a row of settings names; 0 where it names none."""
    try:
        return int(json.loads(text)["format"])
    except (LookupError, TypeError, ValueError):
        return 0


def _slack(tag: float, side: int) -> float:
    """Return a tag moved to one side: to a turn and back is not the same to the last digit."""
    return tag + side * SLACK * max(1.0, abs(tag))


# rule again: weight of a key
def turns_of(rows: pa.Table, settings: Settings) -> pa.ChunkedArray:
    """Return the turn at which each row's ``_round`` comes up; weighted ones name their key.

    The order of the sums is that of Spark's plans, and of :class:`Scale`, so that the last
    digit is, too.
    """
    tags = rows["_round"]
    if not settings.stretches:
        return tags
    keys, stretches = list(settings.stretches), list(settings.stretches.values())
    at = pc.index_in(rows["_fair_key"], pa.array(keys, pa.string()))
    weights = _take([stretch.weight for stretch in stretches], at, 1.0)
    pin_tags, pin_turns = (_pins(rows, stretches, at, end) for end in (0, 1))
    return pc.add(pin_turns, pc.divide(pc.subtract(tags, pin_tags), weights))


# rule: untouched item
def are_unpassed(rows: pa.Table, turns: pa.ChunkedArray, checkpoint: Checkpoint) -> pa.ChunkedArray:
    """Tell of items whether a checkpoint knows nothing of them: they were ahead, or came later."""
    later = pc.greater(rows["_step"], checkpoint.queue_step)
    return pc.or_kleene(are_ahead(rows, turns, checkpoint.pointers), later)


# rule again: overdue item
def are_ahead(
    rows: pa.Table, turns: pa.ChunkedArray, pointers: Mapping[int, Pointer]
) -> pa.ChunkedArray:
    """Tell of rows whether the order has yet to reach them, by turn, ``_seq`` and ``_priority``."""
    last = _by_priority(rows, {p: seq for p, (_, seq) in pointers.items()}, pa.scalar(0))
    return are_after(rows, turns, (pointer_turns(rows, pointers), last))


def are_after(
    rows: pa.Table, turns: pa.ChunkedArray, place: tuple[pa.Array | float, pa.Array | float]
) -> pa.ChunkedArray:
    """Tell of rows whether they stand behind a turn and a seq, of all or of each."""
    turn, seq = place
    tied = pc.and_(pc.equal(turns, turn), pc.greater(rows["_seq"], seq))
    return pc.or_(pc.greater(turns, turn), tied)


def pointer_turns(rows: pa.Table, pointers: Mapping[int, Pointer]) -> pa.ChunkedArray:
    """Return the turn that the order has reached at the priority of each row."""
    return _by_priority(rows, {p: turn for p, (turn, _) in pointers.items()}, pa.scalar(0.0))


def _by_priority(rows: pa.Table, values: Mapping[int, object], default: pa.Scalar) -> pa.Array:
    """Return one of some values for each row, by its ``_priority``."""
    chosen = pa.repeat(default, rows.num_rows)
    for priority, value in values.items():
        is_it = pc.fill_null(pc.equal(rows["_priority"], priority), False)
        chosen = pc.if_else(is_it, pa.scalar(value, default.type), chosen)
    return chosen


def _pins(rows: pa.Table, stretches: list[Stretch], at: pa.Array, end: int) -> pa.Array:
    """Return one end of what is pinned for the key and the priority of each row."""
    pins = pa.repeat(pa.scalar(0.0), rows.num_rows)
    for priority in sorted({p for stretch in stretches for p in stretch.pins}):
        known = [stretch.pins.get(priority, _UNPINNED)[end] for stretch in stretches]
        is_it = pc.fill_null(pc.equal(rows["_priority"], priority), False)
        pins = pc.if_else(is_it, _take(known, at, 0.0), pins)
    return pins


def _take(values: list[float], at: pa.Array, otherwise: float) -> pa.Array:
    return pc.fill_null(pc.take(pa.array(values, pa.float64()), at), otherwise)
