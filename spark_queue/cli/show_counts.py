"""Counts and items of a queue, for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table

from spark_queue.cli import words
from spark_queue.cli.display import Whole, compact_table, text_of
from spark_queue.cli.words import Plain
from spark_queue.config_changes import undo_lines
from spark_queue.results import LINKED, NEEDED
from spark_queue.wording import shell_command

if TYPE_CHECKING:
    from spark_queue.report.model import Place

#: States in the order shown: failed, open, done.
STATES = ("dead", "expired", "claimed", "ready", "cancelled", "acked")

#: What states mean that are a problem.
NOTES = {
    "dead": "failed for good; the command dead says why",
    "expired": "not done before their time was over",
}


def status(data: Plain, condition: str) -> list[RenderableType]:
    """Show a queue's condition, counts per state, problems first, and items."""
    total = sum(data["states"].values())
    if total == 0:
        way = shell_command("spark-queue", "enqueue", data["queue"], "--files", "items.csv")
        return [condition, Whole(f"no items in {data['queue']}; the first come by"), Whole(way)]
    shown = data["items"]
    lines: list[RenderableType] = [condition, _state_table(data), *data["kept_back"]]
    if shown:
        lines += [
            "",
            f"{_first_of(shown, total)}{words.plural(total, 'item')}:",
            _item_table(shown, data["at"]),
        ]
    return lines


def _first_of(shown: Sequence[Plain], total: int) -> str:
    if len(shown) == total:
        return ""
    return words.agree(len(shown), "the first of ", f"the first {len(shown):,} of ")


def _state_table(data: Plain) -> Table:
    waiting = (
        _some(data["retrying"], "to be tried again"),
        _some(data["delayed"], "not due yet"),
    )
    again = {
        state: f"{_some(count, 'of them redriven')}" for state, count in data["redriven"].items()
    }
    notes = {
        **{
            state: "; ".join(filter(None, (again.get(state), NOTES.get(state)))) for state in STATES
        },
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
    """Return an item's state, since when, and more facts about it."""
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
        return [Whole(f"no dead letters in {data['queue']}{which}")]
    first = _first_of(shown, count)
    head = Whole(f"{first}{words.plural(count, 'dead letter')} in {data['queue']}{which}")
    return [head, *(part for row in shown for part in _letter(row))]


def _letter(row: Plain) -> list[RenderableType]:
    again = f", redriven as item {row['_successor']}" if row.get("_successor") else ""
    how = words.tries(row) or "without a retry"
    head = f"item {row['_seq']}, {words.instant(row['_finished_at'])}, {how}{again}"
    return ["", head, f"    {words.error(row) or 'no error is known'}", f"    {words.item(row)}"]


def render_affected(what: str, data: Plain) -> list[RenderableType]:
    """Show what a change would be about: how many items in which state, and the first of them."""
    lines: list[RenderableType] = [f"{words.plural(data['count'], 'item')} would be {what}"]
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


#: Why items stay that a purge means: of one, and of several.
_WHY_STAYS = {
    NEEDED: ("a reader is not done with it", "a reader is not done with them"),
    LINKED: (
        "it was enqueued again from an item that stays",
        "they were enqueued again from items that stay",
    ),
}
_UNFINISHED = (
    "purge takes finished items; cancel it first",
    "purge takes finished items; cancel them first",
)


def render_stays(stays: Mapping[str, int]) -> list[RenderableType]:
    """Say how many items stay that a purge means, and why."""
    return [_staying(count, why) for why, count in stays.items()]


def _staying(count: int, why: str) -> str:
    kind = "finished" if why in _WHY_STAYS else why
    one, many = _WHY_STAYS.get(why, _UNFINISHED)
    if count == 1:
        return f"1 {kind} item stays: {one}"
    return f"{count:,} {kind} items stay: {many}"


def history(data: Plain) -> list[RenderableType]:
    """Show what happened to an item, oldest first."""
    table = compact_table(time="left", step="left", state="left", note="fold")
    for row in data["transitions"]:
        step = f"{row['log']} {row['_step']}"
        cells = (words.instant(row["_at"]), step, row["_state"], _transition(row))
        table.add_row(*map(text_of, cells))
    return [Whole(f"item {data['seq']} of {data['queue']}"), table]


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


def explanation(data: Plain, place: Place | None) -> list[RenderableType]:
    """Show why an item is not running, and where it stands in line."""
    said = [data["detail"], *([] if place is None else [str(place)])]
    return [f"item {data['seq']}: {data['reason']}", *(f"    {line}" for line in said)]


#: Columns shown of a key; there is room for no more, and ``--json`` has the rest.
_OF_A_KEY = ("dead", "ready", "claimed", "acked")

#: Columns left out where all are zero.
_RARE = ("expired", "cancelled")

_ENDS = {
    "empty": "nothing is left",
    "paused": "the queue is paused, with items left",
    "waiting": "no item may run now",
    "time limit": "the time is over",
}


_DUPLICATES = "duplicates, which are no items"


def stats(data: Plain) -> list[RenderableType]:
    """Show counts per state with faults first, then keys and their waits."""
    table = compact_table("state", items="right", note="left")
    for state in (s for s in STATES if data[s] or s not in _RARE):
        table.add_row(state, f"{data[state]:,}", _note(data, state))
    if data["refused"]:
        note = words.agree(data["refused"], "a duplicate, which is no item", _DUPLICATES)
        table.add_row("refused", f"{data['refused']:,}", note)
    paused = " PAUSED: claims get nothing; resume it" if data["paused"] else ""
    head = f"step {data['step']}, {words.instant(data['at'])}{paused}"
    keys = data["per_key"]
    if not keys:
        return [head, table]
    return [head, table, "", "per fair key:", _key_table(keys)]


def _note(data: Plain, state: str) -> str:
    if state == "ready" and data["oldest_age"] is not None:
        return f"the oldest has waited for {words.duration(data['oldest_age'])}"
    return NOTES.get(state, "") if data[state] else ""


def _key_table(keys: Sequence[Plain]) -> RenderableType:
    waits = ("oldest\nwaits", "waited\np50", "waited\np95", "waited\nmax")
    table = compact_table(key="fold", **dict.fromkeys((*_OF_A_KEY, *waits), "right"))
    for row in keys:
        times = (row["oldest_age"], row["wait_p50"], row["wait_p95"], row["wait_max"])
        key = "(none)" if row["fair_key"] is None else row["fair_key"]
        counts = (words.number(row[name]) for name in _OF_A_KEY)
        table.add_row(text_of(key), *counts, *map(words.duration, times))
    return table


def readers(data: Plain) -> list[RenderableType]:
    """Show how far readers are behind, with what they missed first."""
    rows = data["readers"]
    missed = [name for name in ("lost", "dropped") if any(row[name] for row in rows)]
    counts = (*missed, "items", "open_items", "steps")
    heads = {name.replace("open_items", "open"): "right" for name in counts}
    table = compact_table(reader="fold", **heads, oldest="right", size="right")
    for row in rows:
        age, size = words.duration(row["age"]), words.size(row["bytes"])
        table.add_row(
            text_of(row["reader"] or "(default)"), *(f"{row[name]:,}" for name in counts), age, size
        )
    return [table]


def render_enqueue(data: Plain) -> list[RenderableType]:
    """Show what an enqueue did."""
    if (repeated := data["repeated"]) is not None:
        return [_repeat_line(repeated)]
    lines = []
    if data["duplicates"]:
        busy = f", {data['busy']:,} of them of items that have begun" if data["busy"] else ""
        lines.append(f"{words.plural(data['duplicates'], 'duplicate')} refused{busy}")
    return [*lines, f"{words.plural(data['inserted'], 'item')} enqueued, step {data['step']}"]


def _repeat_line(batch: Plain) -> str:
    """Say that a repeated batch wrote nothing, and what its first time did."""
    if batch["inserted"] is None:
        return (
            f"repeated: nothing was written; batch {batch['number']} comes after batch "
            f"{batch['last']}, the last one of its source"
        )
    inserted = words.plural(batch["inserted"], "item")
    return f"repeated: nothing was written; batch {batch['number']} had {inserted} enqueued before"


def render_process(data: Plain) -> list[RenderableType]:
    """Show what processing did: what went wrong first, and why it ended."""
    rate = _rate(data)
    done = words.plural(data["acked"], "item")
    problems = {
        "dead": words.plural(data["dead"], "item") + " died; the command dead says why",
        "failed": words.plural(data["failed"], "attempt") + " failed, to be tried again",
        "deferred": words.plural(data["deferred"], "item") + " deferred, to be called later",
        "released": words.plural(data["released"], "item") + " given back untouched",
    }
    lines: list[RenderableType] = [said for name, said in problems.items() if data[name]]
    claims = words.plural(data["claims"], "claim")
    lines.append(f"{done} acked in {claims}, {words.duration(data['seconds'])}{rate}")
    lines.append(f"ended: {_ENDS.get(data['stopped'], data['stopped'])}{_waiting(data)}")
    return lines


def _waiting(data: Plain) -> str:
    """Say how many items wait, for which reasons, and until when."""
    left = ", ".join(f"{count:,} {reason}" for reason, count in data["waiting"].items())
    until = f", until {words.instant(data['until'])}" if data["until"] else ""
    return f": {left}{until}" if left else ""


def _rate(data: Plain) -> str:
    settled = data["acked"] + data["failed"] + data["dead"]
    if not settled or not data["seconds"]:
        return ""
    return f" ({settled / data['seconds']:,.1f} items a second)"


def claim_line(data: Plain) -> str:
    """Return what one claim did, in a line."""
    wrong = [f"{data[n]:,} {n}" for n in ("dead", "failed", "deferred", "released") if data[n]]
    counts = ", ".join([*wrong, f"{data['acked']:,} acked"])
    return f"claim {data['claim']}: {counts}, after {words.duration(data['seconds'])}"


def undone(data: Plain, *, dry_run: bool = False) -> list[RenderableType]:
    """Show which items an undo restores, or would restore, and which not."""
    if data["what"] != "cancel":
        verb = "would be" if dry_run else "is"
        lines = undo_lines(data["before"], data["settings"], verb)
        if not lines:
            return ["nothing is left to take back"]
        return [*lines] if dry_run else [*lines, f"in force from step {data['step']} on"]
    new = f", by step {data['enqueue_step']} of the item log" if data["enqueue_step"] else ""
    back = "would be back" if dry_run else "back"
    lines = [f"{words.plural(data['restored'], 'item')} {back}{new}"]
    if data["taken"]:
        first = data["holders"][:SHOWN_HOLDERS]
        named = ", ".join(f"item {seq} by item {holder}" for seq, holder in first)
        more = ", …" if data["taken"] > len(first) else ""
        out = words.agree(data["taken"], *_STAYS_OUT)
        whose = f"{words.plural(data['taken'], 'item')} {out}"
        lines.append(f"{whose}: {named}{more}" if named else whose)
    if data["left"]:
        are = words.agree(data["left"], "is", "are")
        lines.append(f"{words.plural(data['left'], 'item')} came back before, or {are} gone")
    return [*lines]


def wait_result(data: Plain) -> list[RenderableType]:
    """Show what became of the items that were waited for."""
    states = [f"{count:,} {state}" for state, count in data["states"].items() if count]
    said = {"done": "all have ended", "failed": "some have failed", "timeout": "the time is over"}
    return [f"{said[data['outcome']]}: {', '.join(states) or 'no items'}"]


#: Why items do not come back: one, and several.
_STAYS_OUT = ("stays out, as its key is taken", "stay out, as their keys are taken")

#: How many items are named whose key is taken.
SHOWN_HOLDERS = 10


def render_maintenance(data: Plain) -> list[RenderableType]:
    """Show what maintenance did."""
    dropped = words.plural(data["dropped_items"], "item")
    ended = f"{data['expired']:,} expired, {data['replaced']:,} replaced"
    return [
        f"{words.plural(data['dead'], 'item')} died, {ended}",
        f"{dropped} dropped, in {words.plural(data['dropped_generations'], 'generation')}",
        f"checkpoint at step {data['checkpoint']}, {words.duration(data['seconds'])}",
    ]
