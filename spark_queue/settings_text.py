"""Settings as people type them: options of a command, fields of a form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spark_queue.config import LIVE_SETTINGS, QueueConfig
from spark_queue.errors import InvalidArgumentError, InvalidConfigError

#: Options that may be a number or ``none``.
_COUNTS = ("max_attempts", "max_in_flight", "max_losses")


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
    plain = {**before.to_dict(), **asked}
    if isinstance(asked.get("weights"), Mapping):
        plain["weights"] = {**before.weights, **asked["weights"]}
    after = QueueConfig.from_dict(plain)
    return {
        name: getattr(after, name)
        for name in asked
        if name in LIVE_SETTINGS or getattr(after, name) != getattr(before, name)
    }
