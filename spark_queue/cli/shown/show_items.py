"""Items as text: their states, causes of death, and history."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table

from spark_queue.cli.shown import words
from spark_queue.cli.shown.display import compact_table, text_of
from spark_queue.cli.shown.words import Plain

#: States as they are shown: what went wrong, what goes on, what is over.
STATES = ("dead", "expired", "claimed", "ready", "cancelled", "acked")

#: What states mean that are a problem.
NOTES = {
    "dead": "failed for good; the command dead says why",
    "expired": "their time was over before they were done",
}


def status(data: Plain) -> list[RenderableType]:
    """Show counts per state with what is wrong first, and items."""
    total = sum(data["states"].values())
    if total == 0:
        return [*_pause_line(data), f"no items in {data['queue']}"]
    shown = data["items"]
    lines: list[RenderableType] = [*_pause_line(data), _state_table(data)]
    if shown:
        first = "" if len(shown) == total else f"the first {len(shown):,} of "
        lines += ["", f"{first}{words.plural(total, 'item')}:", _item_table(shown, data["at"])]
    return lines


def _pause_line(data: Plain) -> list[RenderableType]:
    return [f"PAUSED: claims of {data['queue']} get nothing; resume it"] if data["paused"] else []


def _state_table(data: Plain) -> Table:
    waiting = (
        _some(data["retrying"], "to be tried again"),
        _some(data["delayed"], "not due yet"),
    )
    notes = {
        **NOTES,
        "claimed": _some(data["lapsed"], "with a lease that has run out"),
        "ready": ", ".join(part for part in waiting if part),
    }
    table = compact_table("state", items="right", note="left")
    for state in STATES:
        if data["states"].get(state):
            table.add_row(state, f"{data['states'][state]:,}", notes.get(state, ""))
    return table


def _some(count: int, what: str) -> str:
    return f"{count:,} {what}" if count else ""


def _item_table(items: Sequence[Plain], at: str) -> Table:
    table = compact_table(seq="right", state="left", since="left", item="fold")
    for row in items:
        state, since, note = _standing(row, at)
        said = text_of(*filter(None, (note, words.item(row))))
        table.add_row(*map(text_of, (str(row["_seq"]), state, words.instant(since))), said)
    return table


def _standing(row: Plain, at: str) -> tuple[str, str | None, str]:
    """Return the state of an item, since when it is in it, and what more is to be said."""
    state, tries = row["_state"], words.tries(row)
    if state == "claimed":
        until, holder = row["_lease_expires_at"], row["_worker_id"] or "a claim"
        ended = "until" if words.is_later(until, at) else "its lease ran out"
        return state, row["_claimed_at"], f"{holder}, {ended} {words.instant(until)}"
    if state == "ready":
        due = row["_available_at"]
        waits = f"not before {words.instant(due)}" if words.is_later(due, at) else ""
        said = "; ".join(part for part in (waits, tries, words.error(row)) if part)
        return state, row["_enqueued_at"], said
    said = "; ".join(part for part in (words.error(row), tries) if part)
    return state, row["_finished_at"], said


def dead(data: Plain, where: str | None) -> list[RenderableType]:
    """Show dead letters, each with its error in full width."""
    which = "" if where is None else f" for which {where}"
    count, shown = data["count"], data["items"]
    if count == 0:
        return [f"no dead letters in {data['queue']}{which}"]
    first = "" if len(shown) == count else f"the first {len(shown):,} of "
    head = f"{first}{words.plural(count, 'dead letter')} in {data['queue']}{which}"
    return [head, *(part for row in shown for part in _letter(row))]


def _letter(row: Plain) -> list[RenderableType]:
    again = f", redriven as item {row['_successor']}" if row.get("_successor") else ""
    how = words.tries(row) or "without a retry"
    head = f"item {row['_seq']}, {words.instant(row['_finished_at'])}, {how}{again}"
    return [
        "",
        head,
        _indent(words.error(row) or "no error is known"),
        _indent(words.item(row)),
    ]


def _indent(text: str) -> Padding:
    folded = text_of(text)
    folded.overflow = "fold"
    return Padding(folded, (0, 0, 0, 4))


def render_affected(what: str, data: Plain) -> list[RenderableType]:
    """Show what a change would be about: how many items in which state, and the first of them."""
    lines: list[RenderableType] = [f"{data['count']:,} item(s) would be {what}"]
    ends = [f"{count:,} {end}" for end, count in data["becomes"].items()]
    if len(ends) > 1:
        lines.append(f"of these: {', '.join(ends)}")
    if not data["sample"]:
        return lines
    states = compact_table("state", items="right")
    for state, count in data["states"].items():
        states.add_row(state, f"{count:,}")
    shown = compact_table(seq="right", state="left", item="fold")
    for row in data["sample"]:
        said = text_of(*filter(None, (words.error(row), words.item(row))))
        shown.add_row(text_of(str(row["_seq"])), text_of(row["_state"]), said)
    first = f"the first {len(data['sample'])}:" if len(data["sample"]) < data["count"] else ""
    return [*lines, states, first, shown]


def history(data: Plain) -> list[RenderableType]:
    """Show what happened to an item, oldest first."""
    table = compact_table(time="left", step="left", state="left", note="fold")
    for row in data["transitions"]:
        step = f"{row['log']} {row['_step']}"
        cells = (words.instant(row["_at"]), step, row["_state"], _transition(row))
        table.add_row(*map(text_of, cells))
    return [f"item {data['seq']} of {data['queue']}", table]


def _transition(row: Plain) -> str:
    parts = [words.tries(row)]
    if row["_state"] == "claimed":
        holder = row["_worker_id"] or f"claim {row['_claim_id']}"
        parts = [f"{holder}, until {words.instant(row['_lease_expires_at'])}", *parts]
    if row["_state"] == "ready" and row["_available_at"] is not None:
        parts.append(f"not before {words.instant(row['_available_at'])}")
    if row["_duplicate_of"] is not None:
        parts.append(f"its key is held by item {row['_duplicate_of']}")
    if row["_origin"] is not None:
        parts.append(f"item {row['_origin']}, redriven")
    return "; ".join(part for part in (*parts, words.error(row)) if part)


def explanation(data: Plain) -> list[RenderableType]:
    """Show why an item is not running."""
    return [f"item {data['seq']}: {data['reason']}", _indent(data["detail"])]
