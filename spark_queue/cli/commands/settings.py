"""Commands on the configuration of a queue, and the options that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import yaml
from typer import Option

from spark_queue.cli.command import Name, ReaderOption, command
from spark_queue.cli.config_file import read_mapping
from spark_queue.cli.scope import Scope
from spark_queue.config import LIVE_SETTINGS, QueueConfig
from spark_queue.errors import InvalidArgumentError, InvalidConfigError

Lease = Annotated[float | None, Option(help="Seconds that a claim holds.")]
ConfigFile = Annotated[Path | None, Option(help="A YAML file; options on the command line win.")]


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """Options for what may change while a queue runs."""

    group_limit: Annotated[int | None, Option(help="Items of a group that may be in flight.")] = (
        None
    )
    max_in_flight: Annotated[
        str | None, Option(metavar="<int>|none", help="Items that may be in flight.")
    ] = None
    max_attempts: Annotated[
        str | None, Option(metavar="<int>|none", help="Failures after which an item is dead.")
    ] = None
    max_losses: Annotated[
        str | None,
        Option(metavar="<int>|none", help="Lost leases after which an item is dead."),
    ] = None
    lease: Lease = None
    on_failure: Annotated[
        str | None, Option(help="block or skip: what a failed item does to its group.")
    ] = None
    weight: Annotated[
        list[str] | None, Option(help="KEY=WEIGHT of a fair key; may be given several times.")
    ] = None

    def settings(self) -> dict[str, Any]:
        """Return the settings by their names; ``None`` for what is not given."""
        values = asdict(self)
        values["weights"] = read_weights(values.pop("weight"))
        return values


#: Options that may be a number or ``none``.
_COUNTS = ("max_attempts", "max_in_flight", "max_losses")


@command
def configure(
    scope: Scope,
    name: Name,
    config: ConfigFile = None,
    *,
    live: LiveOptions,
    reader: ReaderOption = None,
) -> None:
    """Change settings of a queue while it runs; what is not named stays as it is.

    A retry policy is changed by a file, as in "retry: {backoff: fixed, delay: 5}".
    """
    asked = {**({} if config is None else read_mapping(config)), **given(live.settings())}
    if not asked:
        raise InvalidArgumentError("no setting is given; name one, as in --lease 60")
    _, queue = scope.opened(name, reader)
    before = queue.config
    settings = changes(before, asked)
    step = queue.configure(**settings)
    old, new = before.to_dict(), before.changed(**settings).to_dict()
    shown = {"step": step, "settings": {setting: new[setting] for setting in settings}}
    lines = [f"{setting}: {old[setting]} -> {new[setting]}" for setting in settings]
    scope.display.show(shown, *lines, f"in force from step {step} on")


def given(options: Mapping[str, Any]) -> dict[str, Any]:
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


@command
def config(scope: Scope, name: Name, reader: ReaderOption = None) -> None:
    """Show the configuration of a queue, as a file that create and configure read."""
    engine, queue = scope.opened(name, reader)
    columns, found = engine.columns(queue), queue.config.to_dict()
    shown = {"queue": queue.name, "schema": columns, "paused": queue.paused, "config": found}
    scope.display.show(shown, config_text(queue.name, columns, found))


def config_text(name: str, columns: str, values: Mapping[str, Any]) -> str:
    """Return a configuration as YAML, with what may be changed after what is fixed."""
    fixed = {key: value for key, value in values.items() if key not in LIVE_SETTINGS}
    live = {key: value for key, value in values.items() if key in LIVE_SETTINGS}
    parts = (
        f"# Queue {name}\n# Columns: {columns}\n\n# Fixed. Durations are seconds.",
        yaml.safe_dump(fixed, sort_keys=False, allow_unicode=True),
        "# May be changed while the queue runs, by configure.",
        yaml.safe_dump(live, sort_keys=False, allow_unicode=True).rstrip(),
    )
    return "\n".join(parts)
