"""Draw what ``compare.py`` has printed: ``python compare_plot.py LINES.json docs/images``."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure as Picture

#: Colours that are told apart by those who see few of them; ours is the first.
_COLOURS = ("#0072b2", "#e69f00", "#999999")

#: From here on a figure is a whole number.
_WHOLE = 100

_ORDERS = {"turns": "turns of tenants", "sqs": "SQS' rule", "came": "as they came"}

Values = Mapping[str, float]


def main(lines: str, folder: str) -> None:
    """Write a picture of the sides and one of the trace."""
    rows = [
        json.loads(line) for line in Path(lines).read_text("utf-8").splitlines() if line[:1] == "{"
    ]
    values = {row["name"]: float(row["value"]) for row in rows}
    _sides(values).savefig(Path(folder, "compare-sides.svg"), bbox_inches="tight")
    _trace(values).savefig(Path(folder, "compare-trace.svg"), bbox_inches="tight")


def _sides(values: Values) -> Picture:
    """Draw a bar for each side, in each of four panels."""
    picture = Picture(figsize=(9, 4.5))
    panels = {
        "neighbours.{}.longest": "a quiet tenant waits, s (log)",
        "kill.{}": "from a kill to the item again, s (log)",
        "drain.{}": "worked off, items/s",
        "drain.{}.core": "worked off, items/s of a core",
    }
    for number, (name, title) in enumerate(panels.items(), start=1):
        axes = picture.add_subplot(2, 2, number)
        sides = [
            side
            for side in ("spark_queue", "PgQueuer", "SQLiteAckQueue")
            if name.format(side) in values
        ]
        found = [values[name.format(side)] for side in sides]
        bars = axes.barh(sides, found, color=_COLOURS[: len(sides)], log="log" in title)
        axes.bar_label(
            bars,
            list(map(_shown, found)),
            padding=3,
        )
        axes.invert_yaxis()
        axes.margins(x=0.25)
        axes.set_title(title, fontsize=10, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
    picture.tight_layout()
    return picture


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= _WHOLE else f"{value:.2g}"


def _trace(values: Values) -> Picture:
    """Draw how long users wait in each order, on each number of servers."""
    picture = Picture(figsize=(9, 3))
    for number, servers in enumerate((40, 100), start=1):
        axes = picture.add_subplot(1, 2, number)
        _grouped(axes, values, servers)
        axes.set_title(
            f"{servers} servers: 95 % of a user's waits, s (log)", fontsize=10, loc="left"
        )
        axes.spines[["top", "right"]].set_visible(False)
    picture.tight_layout()
    return picture


def _grouped(axes: object, values: Values, servers: int) -> None:
    kinds: Sequence[str] = ("quiet", "users", "worst")
    for place, (order, title) in enumerate(_ORDERS.items()):
        found = [values[f"trace.{servers}.{order}.{kind}"] for kind in kinds]
        at = [number + 0.27 * (place - 1) for number in range(len(kinds))]
        axes.bar(at, found, 0.25, label=title, color=_COLOURS[place], log=True)  # type: ignore[attr-defined]
    axes.set_xticks(range(len(kinds)), ["the quiet half", "half of the users", "the worst"])  # type: ignore[attr-defined]
    axes.legend(fontsize=8, frameon=False)  # type: ignore[attr-defined]


if __name__ == "__main__":
    main(*sys.argv[1:])
