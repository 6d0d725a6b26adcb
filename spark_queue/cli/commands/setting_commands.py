"""Commands on the configuration of a queue, and the options that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from spark_queue.cli.command import Name, ReaderOption, Yes, looking, operating
from spark_queue.cli.display import Whole
from spark_queue.cli.scope import Scope
from spark_queue.config import LIVE_SETTINGS, changes, read_options, read_weights
from spark_queue.errors import InvalidArgumentError, InvalidConfigError, SparkNeededError
from spark_queue.wording import close_to, shorten, visible

if TYPE_CHECKING:
    from spark_queue.cli.choice import AnyQueue

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
    forget_sources_after: Annotated[
        str | None,
        Option(
            metavar="<seconds>|none",
            help="How long a source of batches may be silent, and is remembered.",
        ),
    ] = None
    weight: Annotated[
        list[str] | None,
        Option(metavar="<key>=<weight>", help="Of a fair key; may be given several times."),
    ] = None

    def settings(self) -> dict[str, Any]:
        """Return the settings by their names; ``None`` for what is not given."""
        values = asdict(self)
        values["weights"] = read_weights(values.pop("weight"))
        return values


@operating
def configure(
    scope: Scope,
    name: Name,
    config: ConfigFile = None,
    *,
    live: LiveOptions,
    reader: ReaderOption = None,
    yes: Yes = False,
) -> None:
    """Change settings of a queue while it runs; what is not named stays as it is.

    A retry policy is changed by a file, as in "retry: {backoff: fixed, delay: 5}".
    """
    asked = {**({} if config is None else read_mapping(config)), **read_options(live.settings())}
    if not asked:
        raise InvalidArgumentError("no setting is given; name one, as in --lease 60")
    _, queue = scope.open_queue(name, reader)
    settings = changes(queue.config, asked)
    unknown = [] if yes else _unknown_keys(queue, settings.get("weights", {}))
    if unknown and scope.display.asks():
        _require_consent(unknown)
    step = queue.configure(**settings)
    shown = {"step": int(step), "settings": step.after}
    scope.display.show(shown, *step.lines(), f"in force from step {step:d} on")
    for said in [] if scope.display.asks() else unknown:
        scope.display.warn(f"{said} Its weight is set all the same.")


def _unknown_keys(queue: AnyQueue, weights: Mapping[str, float]) -> list[str]:
    """Say of each key that gets its first weight, and that no item has, which one it resembles."""
    asked = [key for key in weights if key not in queue.config.weights]
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
        for key in asked
        if key not in known
    ]


def _require_consent(unknown: Sequence[str]) -> None:
    said = " ".join(unknown)
    if not typer.confirm(visible(f"{said} Set the weight all the same?"), err=True):
        raise InvalidArgumentError(f"{said} Nothing was changed: say --yes to set the weight")


@looking
def config(scope: Scope, name: Name, reader: ReaderOption = None) -> None:
    """Show the configuration of a queue, as a file that create and configure read."""
    from spark_queue.cli import views  # noqa: PLC0415 - help works without Arrow

    queue = scope.open_queue(name, reader)[1]
    columns, found = views.columns(queue), queue.config.to_dict()
    shown = {"queue": queue.name, "schema": columns, "paused": queue.paused, "config": found}
    lines = config_text(queue.name, columns, found).split("\n")
    scope.display.show(shown, *map(Whole, lines))


def config_text(name: str, columns: str, values: Mapping[str, Any]) -> str:
    """Return a configuration as YAML, with what may be changed after what is fixed."""
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
