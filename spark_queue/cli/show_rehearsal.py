"""A rehearsal of a queue, for a terminal."""

from __future__ import annotations

from rich.console import RenderableType

from spark_queue.cli import words
from spark_queue.cli.display import compact_table, text_of
from spark_queue.cli.words import Plain
from spark_queue.config_changes import value_text
from spark_queue.replay.rehearsal import distrust


def render_rehearsal(data: Plain, count: int) -> list[RenderableType]:
    """Show what keys waited, and would have: those first that would wait longest."""
    tenants = sorted(data["tenants"], key=_longest)
    figures = {f"{which}\n{name}": "right" for which in ("was", "before", "after") for name in _P}
    table = compact_table(key="fold", items="right", **figures)
    for one in tenants[:count]:
        was = (one["was_p50"], one["was_p95"])
        played = (one[which][f"wait_{name}"] for which in ("before", "after") for name in _P)
        cells = (words.duration(wait) for wait in (*was, *played))
        table.add_row(text_of(one["key"]), f"{one['items']:,}", *cells)
    first = f", the first {count}" if count < len(tenants) else ""
    before = words.plural(data["workers_before"], "worker")
    lines: list[RenderableType] = [
        f"{words.plural(data['items'], 'item')} of {words.plural(len(tenants), 'key')}{first}",
        table,
        *(f"after: {name} is {value_text(name, value)}" for name, value in data["changed"].items()),
        f"before: {before}; after: {data['workers_after']:,}; was: what the queue has seen",
    ]
    if not data["is_trusted"]:
        lines.append(distrust(data["off"], data["retries"]))
    lines += [
        f"{which}: {words.plural(data[f'stuck_{which}'], 'item')} would never run: of a key whose "
        "limit is 0; shown as if waiting until the end"
        for which in ("before", "after")
        if data[f"stuck_{which}"]
    ]
    if data["guessed"]:
        its = words.agree(data["guessed"], "its key", "their keys")
        guessed = words.plural(data["guessed"], "item")
        lines.append(f"{guessed} not worked on yet: counted with the mean of {its}")
    if data["left_out"]:
        lines.append(f"{words.plural(data['left_out'], 'item')} left out: ended without work")
    return lines


#: The waits that are shown of a key.
_P = ("p50", "p95")


def _longest(tenant: Plain) -> tuple[float, str]:
    return -max(tenant["before"]["wait_p95"], tenant["after"]["wait_p95"]), tenant["key"]
