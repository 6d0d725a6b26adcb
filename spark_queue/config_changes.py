"""Changes of a configuration, as texts, as plain data and as settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from spark_queue.config import LIVE_SETTINGS, SETTINGS, QueueConfig, Setting
from spark_queue.errors import InvalidArgumentError, InvalidConfigError
from spark_queue.flow import merge_limits
from spark_queue.flow_forms import FLOW
from spark_queue.flow_texts import FlowTexts
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
    """Return the settings of a file with those of options, which win; rules number by number."""
    typed = {
        name: replace(texts, base=file.get(name, ()))
        for name, texts in options.items()
        if isinstance(texts, FlowTexts)
    }
    return {**file, **options, **typed}


def new_config(asked: Mapping[str, Any]) -> QueueConfig:
    """Return the configuration of a new queue, from plain data and rules as they are typed.

    Raises
    ------
    InvalidConfigError, InvalidArgumentError
        When a name is unknown or a value is wrong.
    """
    others = {name: value for name, value in asked.items() if not isinstance(value, FlowTexts)}
    made = QueueConfig.from_dict(others)
    return made if len(others) == len(asked) else QueueConfig.from_dict(_read_typed(asked, made))


def _read_typed(asked: Mapping[str, Any], before: QueueConfig) -> dict[str, Any]:
    """Return settings of which rules are typed with these rules, as they will be."""
    return {
        name: value.apply_to(before) if isinstance(value, FlowTexts) else value
        for name, value in asked.items()
    }


def changes(before: QueueConfig, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the requested settings; fixed ones only where their values differ.

    Weights, limits and rates are changed key by key: the others keep theirs.

    Raises
    ------
    InvalidConfigError
        When a name is unknown or a value is wrong.
    """
    asked, weights = _read_typed(asked, before), asked.get("weights")
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
    """Return a configuration with live settings changed, weights, limits and rates key by key.

    Raises
    ------
    InvalidConfigError
        As for :meth:`QueueConfig.changed`.
    """
    for name in settings:
        if not isinstance(name, str):
            raise InvalidConfigError(f"unknown setting {shorten(name)}: settings have names")
    for name in FLOW.keys() & settings.keys():
        if isinstance(rules := settings[name], tuple):
            next(row for row in SETTINGS if row.name == name).check(rules)
            settings = {**settings, name: merge_limits(getattr(before, name), rules)}
    weights = settings.get("weights")
    if not isinstance(weights, Mapping):
        return before.changed(**settings)
    kept = {**before.weights, **weights}
    left = {key: weight for key, weight in kept.items() if weight is not None}
    return before.changed(**{**settings, "weights": left})


def plain_of(config: QueueConfig, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return some settings of a configuration as plain data; of weights and rules, those named."""
    plain = config.to_dict()
    found = {name: plain[name] for name in settings}
    if isinstance(settings.get("weights"), Mapping):
        found["weights"] = {key: config.weights.get(key, 1.0) for key in settings["weights"]}
    for name in FLOW.keys() & settings.keys():
        asked = {rule.by for rule in settings[name]}
        found[name] = [one for one in plain[name] if one["by"] in asked]
    return found


def rules_before(config: QueueConfig, name: str, settings: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what the limits, or rates, were that some settings change."""
    changed = {rule.by for rule in settings.get(name, ())}
    return tuple(rule for rule in getattr(config, name) if rule.by in changed)
