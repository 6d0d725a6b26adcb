"""What every benchmark prints: one JSON line for each figure, and a table of all at the end.

The scripts beside this one import it as ``report``: a script's own folder is on Python's path.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import typer
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure should be."""

    bound: float
    """The last value that is good enough."""
    side: Literal[">=", "<="]
    """On which side of it the good ones are."""

    def holds(self, value: float) -> bool:
        """Tell whether a value is good enough."""
        return value >= self.bound if self.side == ">=" else value <= self.bound

    def __str__(self) -> str:
        return f"{self.side} {self.bound:g}"


def at_least(bound: float) -> Target:
    """Make the target of a figure that should be high."""
    return Target(bound, ">=")


def at_most(bound: float) -> Target:
    """Make the target of a figure that should be low."""
    return Target(bound, "<=")


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number."""

    name: str
    """What was measured, from the general to the particular, with dots between."""
    value: float
    """The number; of several rounds, the median."""
    target: Target | None = None
    """What it should be; ``None`` where it is only of interest."""
    unit: str = "x"
    """What the number counts; ``x`` is a ratio of two times of the same run."""
    detail: str = ""
    """How it was measured, in a few words."""
    spread: tuple[float, float] | None = None
    """The quartiles of the rounds, where there were several."""

    @property
    def met(self) -> bool | None:
        """Whether the target is met; ``None`` where there is none."""
        return None if self.target is None else self.target.holds(self.value)

    def as_dict(self) -> dict[str, Any]:
        """Return what the JSON line holds."""
        return {
            "name": self.name,
            "value": _round(self.value),
            "target": None if self.target is None else str(self.target),
            "met": self.met,
            "unit": self.unit,
            "spread": None if self.spread is None else [_round(end) for end in self.spread],
            "details": self.detail,
        }


def emit(figure: Figure) -> Figure:
    """Print the JSON line of a figure, at once, and return the figure."""
    typer.echo(json.dumps(figure.as_dict()))
    return figure


def table(figures: Iterable[Figure]) -> None:
    """Print all figures as a table; how each was measured is in its JSON line."""
    shown = Table(box=None, pad_edge=False, caption=_machine(), caption_justify="left")
    for title, justify in _COLUMNS:
        shown.add_column(title, justify=justify, no_wrap=True)
    for figure in figures:
        shown.add_row(*_cells(figure))
    # A pipe has no width, and is no reason to cut names off.
    Console(width=None if sys.stdout.isatty() else 120).print(shown)


def measure(
    sections: Mapping[str, Callable[[], Iterable[Figure]]],
    only: Sequence[str] | None,
    *,
    as_json: bool,
    strict: bool,
) -> int:
    """Print the figures of all sections, or of those that were asked for; return the exit code."""
    for name in only or ():
        if name not in sections:
            raise typer.BadParameter(f"{name!r} is none of {', '.join(sections)}")
    chosen = [sections[name] for name in only or sections]
    figures = [emit(figure) for section in chosen for figure in section()]
    if not as_json:
        table(figures)
    return exit_code(figures, strict=strict)


def exit_code(figures: Iterable[Figure], *, strict: bool) -> int:
    """Return 1 when a strict run misses a target, else 0: a missed target is a result."""
    return int(strict and any(figure.met is False for figure in figures))


_COLUMNS: tuple[tuple[str, Literal["left", "right"]], ...] = (
    ("figure", "left"),
    ("value", "right"),
    ("spread", "right"),
    ("target", "right"),
    ("met", "left"),
)

_WORDS = {True: "yes", False: "NO", None: ""}


def _cells(figure: Figure) -> tuple[str, ...]:
    spread = "" if figure.spread is None else "{:,.4g} .. {:,.4g}".format(*figure.spread)
    target = "" if figure.target is None else str(figure.target)
    value = f"{_round(figure.value):,} {figure.unit}"
    return figure.name, value, spread, target, _WORDS[figure.met]


def _machine() -> str:
    name = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{name}, {os.cpu_count()} cores"


def _round(value: float) -> float:
    return float(f"{value:.4g}")


def seconds(call: Callable[[], object]) -> float:
    """Time one call, after the garbage of others was collected; the collector stays on."""
    gc.collect()
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def rounds(contenders: Mapping[str, Callable[[], float]], count: int) -> dict[str, list[float]]:
    """Let every contender measure itself once a round, a different one first each time.

    What disturbs the machine for a while so disturbs all of them, and the ratio of two results of
    one round stands where the results themselves do not.
    """
    names = list(contenders)
    results: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(count):
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            results[name].append(contenders[name]())
    return results


def ratio_figure(
    name: str,
    over: Sequence[float],
    under: Sequence[float],
    target: Target | None,
    detail: str,
) -> Figure:
    """Make the figure of what one contender measured in ratio to another, round by round."""
    return median_figure(name, [a / b for a, b in zip(over, under, strict=True)], target, detail)


def median_figure(
    name: str, values: Sequence[float], target: Target | None, detail: str, unit: str = "x"
) -> Figure:
    """Make the figure of several rounds: their median, with the quartiles as its spread."""
    ends = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]]
    return Figure(name, statistics.median(values), target, unit, detail, (ends[0], ends[-1]))
