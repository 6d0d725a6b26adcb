"""Commands on the configuration of a queue, and the options that they share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from spark_queue.cli.command import DryRun, Name, ReaderOption, Yes, command, operating
from spark_queue.cli.display import Whole
from spark_queue.cli.scope import Scope
from spark_queue.config import LIVE_SETTINGS, SETTINGS, Setting
from spark_queue.config_changes import (
    changes,
    merge,
    plain_of,
    pop_flow_options,
    read_options,
    read_weights,
    rules_before,
    with_options,
)
from spark_queue.errors import InvalidArgumentError, InvalidConfigError, SparkNeededError
from spark_queue.flow_forms import FLOW
from spark_queue.results import Reconfigured
from spark_queue.wording import close_to, shorten, visible

if TYPE_CHECKING:
    from spark_queue.cli.choice import AnyQueue
    from spark_queue.config import QueueConfig

Lease = Annotated[float | None, Option(help="Seconds that a claim holds.")]
ConfigFile = Annotated[Path | None, Option(help="A YAML file; options on the command line win.")]


class SettingOptions:
    """Options of a command for settings of a queue; ``None`` for an option that is not given."""

    def settings(self) -> dict[str, Any]:
        """Return the settings that are given, as plain data.

        Raises
        ------
        InvalidConfigError, InvalidArgumentError
            When a text is none that its setting takes.
        """
        values = dict(vars(self))
        values["weights"] = read_weights(values.pop("weight", None))
        return read_options(values | pop_flow_options(values))


def options_for(rows: Iterable[Setting]) -> type[SettingOptions]:
    """Return options for some settings, each of which says what its row does."""
    shown = [option for row in rows if row.is_line for option in _options(row)]
    given = [(name, kind, field(default=None)) for name, kind in shown]
    return make_dataclass("SettingOptions", given, bases=(SettingOptions,))


def _options(row: Setting) -> Iterator[tuple[str, Any]]:
    """Yield the names and types of the options of a setting."""
    if row.kind == "weights":
        yield "weight", _several("<key>=<weight>", row.says)
    elif form := FLOW.get(row.name):
        yield form.word, _several(form.option, row.says)
        yield f"{form.word}_of", _several("<key>=<n>|none", "The same for one key, as in acme=20")
    else:
        yield row.name, _option(row)


def _several(metavar: str, says: str) -> Any:
    said = f"{says}; may be given several times."
    return Annotated[list[str] | None, Option(metavar=metavar, help=said)]


def _option(row: Setting) -> Any:
    """Return the type of an option; a text where ``none`` is allowed."""
    if row.kind == "choice":
        return Annotated[str | None, Option(metavar="|".join(row.choices), help=f"{row.says}.")]
    if row.kind in {"count", "duration"} and row.is_optional:
        unit = "<int>|none" if row.kind == "count" else "<seconds>|none"
        return Annotated[str | None, Option(metavar=unit, help=f"{row.says}.")]
    kinds: Mapping[str, type] = {"count": int, "duration": float}
    return Annotated[kinds.get(row.kind, str) | None, Option(help=f"{row.says}.")]


if TYPE_CHECKING:

    class FixedOptions(SettingOptions):
        """Options for the fixed settings of a queue."""

    class LiveOptions(SettingOptions):
        """Options for the live settings of a queue."""

    class RehearsedOptions(SettingOptions):
        """Options for live settings by which items are served."""

else:
    FixedOptions = options_for(row for row in SETTINGS if not row.is_live)
    LiveOptions = options_for(row for row in SETTINGS if row.is_live)
    RehearsedOptions = options_for(row for row in SETTINGS if row.is_live and row.orders)


@operating
def configure(
    scope: Scope,
    name: Name,
    config: ConfigFile = None,
    *,
    live: LiveOptions,
    reader: ReaderOption = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Change settings of a queue while it runs; all others stay.

    A retry policy is changed by a file, as in "retry: {backoff: fixed, delay: 5}". Of a limit or
    rate each number is changed by itself: --limit tenant=4 --limit-of acme=20, --rate
    tenant=100/60s,burst=10 --rate-of acme=10, and --rate 1000/1s for the whole queue; --limit-of
    tenant:acme=20 where there are several; "none" takes a number away.
    """
    asked = with_options({} if config is None else read_mapping(config), live.settings())
    if not asked:
        raise InvalidArgumentError("no setting is given; name one, as in --lease 60")
    _, queue = scope.open_queue(name, reader)
    settings = changes(queue.config, asked)
    if dry_run:
        _show_dry_run(scope, queue, settings)
        return
    unknown = [] if yes else _unknown_keys(queue, settings)
    if unknown and scope.display.asks():
        _require_consent(unknown)
    step = queue.configure(**_rules_before(queue, settings), **settings)
    shown = {"step": int(step), "settings": step.after}
    scope.display.show(shown, *step.lines(), f"in force from step {step:d} on")
    for said in [] if scope.display.asks() else unknown:
        scope.display.warn(f"{said} It is set all the same.")


def _show_dry_run(scope: Scope, queue: AnyQueue, settings: Mapping[str, Any]) -> None:
    """Say what would change, and write nothing."""
    before, after = queue.config, merge(queue.config, settings)
    would = Reconfigured(0, before=plain_of(before, settings), after=plain_of(after, settings))
    shown = {"step": 0, "settings": would.after}
    scope.display.show(shown, *(would.lines() or ["nothing would change"]), "nothing was written")


def _rules_before(queue: AnyQueue, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what rules that change were: numbers that are not named stay as they are by then."""
    expected = {name: rules_before(queue.config, name, settings) for name in FLOW}
    found = {name: was for name, was in expected.items() if was}
    return {"expected": found} if found else {}


def _unknown_keys(queue: AnyQueue, settings: Mapping[str, Any]) -> list[str]:
    """Warn of each new number whose fair key no item has, with the key it resembles."""
    before, after = queue.config, merge(queue.config, settings)
    known_by_number = {*before.weights, *_ruled_keys(before)}
    asked = [key for key in (*after.weights, *_ruled_keys(after)) if key not in known_by_number]
    if not asked:
        return []
    from spark_queue.cli import views  # noqa: PLC0415 - help works without Arrow

    try:
        known = views.fair_keys(queue)
    except SparkNeededError:
        # The setting needs no Spark, and a question is not worth one.
        return []
    if not known:
        return []
    return [
        f"no item has the fair key {shorten(key)}{close_to(key, known) or '.'}"
        for key in dict.fromkeys(asked)
        if key not in known
    ]


def _ruled_keys(config: QueueConfig) -> list[str]:
    """Return the fair keys with numbers of their own."""
    rules = [rule for name in FLOW for rule in getattr(config, name)]
    return [key for rule in rules if rule.by == config.fair_key for key in rule.overrides]


def _require_consent(unknown: Sequence[str]) -> None:
    said = " ".join(unknown)
    if not typer.confirm(visible(f"{said} Set it all the same?"), err=True):
        raise InvalidArgumentError(f"{said} Nothing was changed: say --yes to set it")


@command
def config(scope: Scope, name: Name, reader: ReaderOption = None) -> None:
    """Show the configuration of a queue, as a file that create and configure read."""
    from spark_queue.cli import views  # noqa: PLC0415 - help works without Arrow

    queue = scope.open_queue(name, reader)[1]
    columns, found = views.columns(queue), queue.config.to_dict()
    shown = {"queue": queue.name, "schema": columns, "paused": queue.paused, "config": found}
    lines = config_text(queue.name, columns, found).split("\n")
    scope.display.show(shown, *map(Whole, lines))


def config_text(name: str, columns: str, values: Mapping[str, Any]) -> str:
    """Return a configuration as YAML: fixed settings first, then live ones."""
    fixed = {key: value for key, value in values.items() if key not in LIVE_SETTINGS}
    live = {key: value for key, value in values.items() if key in LIVE_SETTINGS}
    parts = (
        f"# Queue {visible(name)}",
        f"# Columns: {visible(columns)}\n\n# Fixed. Durations are seconds.",
        _yaml(fixed),
        "# May be changed while the queue runs, by configure.",
        _yaml(live).rstrip(),
    )
    return "\n".join(parts)


def _yaml(values: Mapping[str, Any]) -> str:
    import yaml  # noqa: PLC0415 - takes a while

    said = yaml.safe_dump(dict(values), sort_keys=False, allow_unicode=True)
    if said == visible(said, lines=True):
        return said
    # Escapes of YAML are read back as what they stand for; ours would not be.
    return yaml.safe_dump(dict(values), sort_keys=False)


def read_mapping(file: Path) -> dict[str, Any]:
    """Read names and values from a YAML file.

    Raises
    ------
    InvalidConfigError
        When the file cannot be read, or is no mapping of names.
    """
    import yaml  # noqa: PLC0415 - takes a while

    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as exc:
        raise InvalidConfigError(f"configuration {str(file)!r}: {exc.strerror}") from exc
    except (yaml.YAMLError, UnicodeError) as exc:
        why = " ".join(str(exc).split())
        raise InvalidConfigError(f"configuration {str(file)!r} is no YAML: {why}") from exc
    if found is None:
        return {}
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise InvalidConfigError(
            f"configuration {str(file)!r} must be a mapping of names to values"
        )
    return found
