"""Laws of keys with limits and rates, counted from the rows of a log alone."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from datetime import timedelta

from chaos_evidence import Evidence, Found, Row
from spark_queue import Limit, Rate

#: How many items may be in flight of each value of a column.
LIMITS = {"t": 3, "p": 4, "h": 2}

#: How many may start of each value of a column in a time, and at once beside.
RATES = {"h": (4, timedelta(seconds=2), 2)}

#: Values of the column that has both, the first of which are frequent.
HOSTS = 1_000


def limits() -> tuple[Limit, ...]:
    """Return the limits of a queue."""
    return tuple(Limit(by=by, default=most) for by, most in LIMITS.items())


def rates() -> tuple[Rate, ...]:
    """Return its rates."""
    return tuple(
        Rate(by=by, limit=limit, per=per, burst=burst) for by, (limit, per, burst) in RATES.items()
    )


def _in_flight(evidence: Evidence, found: Found) -> None:
    """Check that no claim has started an item of a key that had its limit in flight."""
    keys = {
        row["_seq"]: [(by, row[by]) for by in LIMITS if by in row] for row in evidence.entered()
    }
    held: dict[int, int] = {}
    for step, rows in evidence.steps().items():
        before = Counter(key for seq in held for key in keys.get(seq, ()))
        for row in rows:
            held.pop(row["_seq"], None)
            if row["_state"] == "claimed":
                held[row["_seq"]] = row["_lease"]
        after = Counter(key for seq in held for key in keys.get(seq, ()))
        for (by, key), count in after.items():
            if count > max(LIMITS[by], before[by, key]):
                found.note("above a limit", [f"step {step}: {count} of {by} {key}"])
        found.counts["full"] = found.counts.get("full", 0) + sum(
            count == LIMITS[by] for (by, _), count in after.items()
        )


def _starts(evidence: Evidence) -> Iterator[Row]:
    """Return the rows by which items were leased; a renewal says it of many at once."""
    for step, rows in evidence.steps().items():
        yield from (row for row in rows if row["_state"] == "claimed" and row["_lease"] == step)


def _in_windows(evidence: Evidence, found: Found) -> None:
    """Check that in no window of a rate more started of a key than its limit and burst."""
    entered = {row["_seq"]: row for row in evidence.entered()}
    times = defaultdict(list)
    for row in _starts(evidence):
        item = entered.get(row["_seq"], {})
        for by in RATES:
            if by in item:
                times[by, item[by]].append(row["_at"])
    highest = 0
    for (by, key), starts in times.items():
        limit, per, burst = RATES[by]
        starts.sort()
        counts = (at + 1 - bisect_left(starts, end - per) for at, end in enumerate(starts))
        most = max(counts)
        highest = max(highest, most)
        if most > limit + burst:
            found.note("above a rate", [f"{most} of {by} {key} within {per}"])
    found.counts["most in a window"] = highest
    found.counts["keys with a rate"] = len(times)


def _in_turn(evidence: Evidence, found: Found) -> None:
    """Check that none starts before one that has the same keys, entered earlier and waits."""
    alike: dict[tuple[object, ...], set[int]] = defaultdict(set)
    for item in evidence.entered():
        if item["_group_key"] is None and all(by in item for by in LIMITS):
            alike[tuple(item[by] for by in LIMITS)].add(item["_seq"])
    steps = evidence.steps()
    for seqs in alike.values():
        _in_turn_among(seqs, steps, found)
    found.counts["in line behind others"] = sum(len(seqs) - 1 for seqs in alike.values())


def _in_turn_among(seqs: set[int], steps: Mapping[int, list[Row]], found: Found) -> None:
    waiting = set(seqs)
    for step, rows in steps.items():
        moved = {row["_seq"]: row for row in rows if row["_seq"] in seqs}
        waiting -= {seq for seq, row in moved.items() if row["_state"] != "ready"}
        late = [
            seq
            for seq, row in moved.items()
            if row["_state"] == "claimed" and row["_lease"] == step
            if min(waiting, default=seq) < seq
        ]
        found.note("overtaken", [f"step {step}: by {late}"] if late else [])
        waiting |= {seq for seq, row in moved.items() if row["_state"] == "ready"}


LAWS = (_in_flight, _in_windows, _in_turn)
