"""Changes of a configuration, as texts, as plain data and as settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from spark_queue.config import LIVE_SETTINGS, SETTINGS, QueueConfig, Setting
from spark_queue.errors import InvalidArgumentError, InvalidConfigError
from spark_queue.flow import merge_limits, require_limits, require_rates
from spark_queue.limit_texts import LimitTexts
from spark_queue.wording import shorten


def read_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given, as plain data: texts become what their setting takes.

    Raises
    ------
    InvalidConfigError
        When the text of a count or a duration is no number, and not ``none`` where that is a value.
    """
    rows = {row.name: row for row in SETTINGS}
    return {
        name: _read(rows[name], value) if isinstance(value, str) and name in rows else value
        for name, value in options.items()
        if value is not None
    }


def _read(row: Setting, text: str) -> object:
    if row.kind == "scope":
        return text if text in {"live", "forever"} else _number(row, text)
    if row.kind not in {"count", "duration"}:
        return text
    return None if row.is_optional and text.lower() == "none" else _number(row, text)


def _number(row: Setting, text: str) -> object:
    try:
        return int(text) if row.kind == "count" else float(text)
    except ValueError:
        kind = "a whole number" if row.kind == "count" else "a number of seconds"
        words = f"{kind} or none" if row.is_optional else kind
        words = f"live, forever or {kind}" if row.kind == "scope" else words
        raise InvalidConfigError(f"{row.name} is {text[:80]!r}: it must be {words}") from None


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


def with_options(file: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a file with those of options, which win; limits number by number."""
    limits = options.get("limits")
    if isinstance(limits, LimitTexts):
        options = {**options, "limits": replace(limits, base=file.get("limits", ()))}
    return {**file, **options}


def new_config(asked: Mapping[str, Any]) -> QueueConfig:
    """Return the configuration of a new queue, from plain data and limits as they are typed.

    Raises
    ------
    InvalidConfigError, InvalidArgumentError
        When a name is unknown or a value is wrong.
    """
    limits = asked.get("limits")
    if not isinstance(limits, LimitTexts):
        return QueueConfig.from_dict(asked)
    others = {name: value for name, value in asked.items() if name != "limits"}
    made = QueueConfig.from_dict(others)
    return QueueConfig.from_dict({**others, "limits": limits.apply_to(made)})


def changes(before: QueueConfig, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the requested settings; fixed ones only where their values differ.

    Weights and limits are changed key by key: the others keep theirs.

    Raises
    ------
    InvalidConfigError
        When a name is unknown or a value is wrong.
    """
    limits, weights = asked.get("limits"), asked.get("weights")
    if isinstance(limits, LimitTexts):
        asked = {**asked, "limits": limits.apply_to(before)}
    plain = {**before.to_dict(), **asked}
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
    """Return a configuration with live settings changed, weights and limits key by key.

    Raises
    ------
    InvalidConfigError
        As for :meth:`QueueConfig.changed`.
    """
    for name in settings:
        if not isinstance(name, str):
            raise InvalidConfigError(f"unknown setting {shorten(name)}: settings have names")
    limits, weights = settings.get("limits"), settings.get("weights")
    if isinstance(limits, tuple):
        require_limits("limits", limits)
        settings = {**settings, "limits": merge_limits(before.limits, limits)}
    if isinstance(rates := settings.get("rates"), tuple):
        require_rates("rates", rates)
        settings = {**settings, "rates": merge_limits(before.rates, rates)}
    if not isinstance(weights, Mapping):
        return before.changed(**settings)
    kept = {**before.weights, **weights}
    left = {key: weight for key, weight in kept.items() if weight is not None}
    return before.changed(**{**settings, "weights": left})


def plain_of(config: QueueConfig, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return some settings of a configuration as plain data; of weights and limits, those keys."""
    plain = config.to_dict()
    found = {name: plain[name] for name in settings}
    if isinstance(settings.get("weights"), Mapping):
        found["weights"] = {key: config.weights.get(key, 1.0) for key in settings["weights"]}
    if "limits" in settings:
        asked = {limit.by for limit in settings["limits"]}
        found["limits"] = [one for one in plain["limits"] if one["by"] in asked]
    return found
