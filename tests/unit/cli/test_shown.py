"""What commands print for people, on a screen of eighty columns."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pytest
from rich.console import Console, RenderableType

from spark_queue.cli import show_counts, words
from spark_queue.cli.display import fit

NOW = "2026-11-22T12:00:00+00:00"
BEFORE = "2026-11-22T11:00:00.123456+00:00"
AFTER = "2026-11-23T11:00:00+00:00"


def printed(parts: Sequence[RenderableType]) -> list[str]:
    """Return the lines of eighty columns that are printed."""
    console = Console(width=80, file=io.StringIO(), color_system=None)
    for part in parts:
        for line in fit(part, 80) if isinstance(part, str) else [part]:
            console.print(line, markup=False)
    lines: list[str] = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert max(map(len, lines)) <= 80
    return [line.rstrip() for line in lines]


def item(seq: int, state: str, **more: Any) -> dict[str, Any]:
    """Make an item as status hands it over."""
    ended = BEFORE if state in {"dead", "acked", "cancelled", "expired"} else None
    return {
        "path": f"/data/landing/{'a-long-name/' * 8}part.csv",
        "tenant": "[red]acme",
        "size": 12_345,
        "_seq": seq,
        "_state": state,
        "_attempts": 0,
        "_losses": 0,
        "_enqueued_at": BEFORE,
        "_available_at": None,
        "_claimed_at": BEFORE,
        "_finished_at": ended,
        "_worker_id": None,
        "_lease_expires_at": None,
        "_error": None,
        **more,
    }


def status(*items: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Make what status shows."""
    states: dict[str, int] = {}
    for row in items:
        states[row["_state"]] = states.get(row["_state"], 0) + 1
    counts = {"lapsed": 0, "retrying": 0, "delayed": 0, "redriven": {}}
    base = {
        "queue": "/q",
        "at": NOW,
        "paused": False,
        "kept_back": [],
        "states": states,
        "items": items,
    }
    return {**base, **counts, "items": items, **more}


def test_status_begins_with_what_is_wrong() -> None:
    """How the queue does is said first, then dead and lapsed items; what went well is last."""
    lines = printed(
        show_counts.status(
            status(
                item(9, "acked"),
                item(12, "dead", _attempts=5, _error="ValueError: no bucket\nmore"),
                item(7, "claimed", _worker_id="host/4711", _lease_expires_at=BEFORE),
                lapsed=1,
                states={"acked": 1_200_000, "dead": 1, "claimed": 1, "ready": 3},
                retrying=2,
                delayed=1,
            ),
            "▲ FAILING: 1 failure in 60 min, 1 of them final; 0 done",
        )
    )

    assert lines[0] == "▲ FAILING: 1 failure in 60 min, 1 of them final; 0 done"
    states = [line.split()[:2] for line in lines[3:7]]
    assert states == [["dead", "1"], ["claimed", "1"], ["ready", "3"], ["acked", "1,200,000"]]
    assert "1 with a lease that has run out" in lines[4]
    assert "2 to be tried again, 1 not due yet" in lines[5]
    assert "the first 3 of 1,200,005 items:" in lines


def test_an_item_says_since_when_it_is_in_its_state_and_why() -> None:
    """The holder of a lease, an error, and what an item waits for stand beside it."""
    text = " ".join(
        " ".join(
            printed(
                show_counts.status(
                    status(
                        item(1, "claimed", _worker_id="host/1", _lease_expires_at=AFTER),
                        item(2, "claimed", _worker_id="host/2", _lease_expires_at=BEFORE),
                        item(3, "ready", _attempts=1, _available_at=AFTER, _error="KeyError: 'x'"),
                        item(4, "dead", _losses=5, _error="its worker ended, or its lease ran out"),
                        item(5, "ready", _available_at=BEFORE),
                    ),
                    "✓ OK: 2 items wait, 2 in flight",
                )
            )
        ).split()
    )

    assert "1 claimed 2026-11-22 11:00:00Z host/1, until 2026-11-23 11:00:00Z" in text
    assert "host/2, its lease ran out 2026-11-22 11:00:00Z" in text
    assert "not before 2026-11-23 11:00:00Z; 1 failed attempt; KeyError: 'x'" in text
    assert "its worker ended, or its lease ran out; 5 lost leases" in text
    assert "5 ready 2026-11-22 11:00:00Z path=" in text
    # A value is no markup, and is cut where it is long.
    assert "tenant=[red]acme size=12345" in text
    assert "part.csv" not in text


def test_an_empty_queue_says_so() -> None:
    """Nothing is said in words, not by an empty table."""
    lines = printed(show_counts.status(status(), "✓ OK: nothing is open"))
    assert lines == [
        "✓ OK: nothing is open",
        "no items in /q; the first come by",
        "spark-queue enqueue /q --files items.csv",
    ]


def test_dead_letters_show_their_errors_in_full_width() -> None:
    """Each letter is a heading with its end, the first line of its error, and the item."""
    data = {
        "queue": "/q",
        "count": 1_132,
        "items": [
            item(12, "dead", _attempts=5, _losses=1, _error="ValueError: no bucket\nmore"),
            item(13, "dead", _successor=20),
        ],
    }

    lines = printed(show_counts.dead(data, "tenant = 'a'"))

    assert lines[0] == "the first 2 of 1,132 dead letters in /q for which tenant = 'a'"
    assert lines[2] == "item 12, 2026-11-22 11:00:00Z, 5 failed attempts, 1 lost lease"
    assert lines[3] == "    ValueError: no bucket"
    assert "item 13, 2026-11-22 11:00:00Z, without a retry, redriven as item 20" in lines
    assert "    no error is known" in lines


@pytest.mark.parametrize(
    ("where", "said"),
    [(None, "no dead letters in /q"), ("n > 1", "no dead letters in /q for which n > 1")],
)
def test_no_dead_letters_is_said(where: str | None, said: str) -> None:
    """Where there are none, that is the answer."""
    assert printed(show_counts.dead({"queue": "/q", "count": 0, "items": []}, where)) == [said]


def test_stats_fit_and_have_their_units() -> None:
    """Counts of any size, keys of any length and all waiting times fit, each with its unit."""
    key = {
        "ready": 1_234_567,
        "claimed": 999_999,
        "acked": 2_345_678_901,
        "dead": 12_345,
        "oldest_age": 200_000.0,
        "wait_p50": 119.9,
        "wait_p95": 7_199.0,
        "wait_max": 172_799.0,
    }
    counts = {"ready": 5, "claimed": 36, "acked": 3, "dead": 3, "expired": 0, "cancelled": 0}
    data = {
        **counts,
        "step": 17,
        "at": NOW,
        "paused": True,
        "refused": 9,
        "oldest_age": 200_000.0,
        "per_key": [{"fair_key": "a" * 40, **key}, {"fair_key": None, **key, "wait_p50": None}],
    }

    lines = printed(show_counts.stats(data))

    assert lines[0] == "step 17, 2026-11-22 12:00:00Z PAUSED: claims get nothing; resume it"
    order = [line.split()[0] for line in lines[3:8]]
    assert order == ["dead", "claimed", "ready", "acked", "refused"]
    assert "the oldest has waited for 2.3 d" in lines[5]
    (none,) = (line for line in lines if line.startswith("(none)"))
    assert none.endswith("2.3 d           120.0 min  48.0 h")
    for said in ("12,345", "1.2 M", "2.3 G", "2.3 d", "120.0 min", "48.0 h"):
        assert any(said in line for line in lines), said


def test_readers_show_what_they_missed_first() -> None:
    """Lost and dropped items come before how far behind a reader is, where there are any."""
    lag = {"items": 3, "bytes": 123_456, "open_items": 1, "age": 77.0, "steps": 4}
    rows = [
        {"reader": "", **lag, "lost": 0, "dropped": 2},
        {"reader": "audit", **lag, "age": None, "lost": 0, "dropped": 0},
    ]

    head, _, first, second = printed(show_counts.readers({"readers": rows}))

    assert head.split() == ["reader", "dropped", "items", "open", "steps", "oldest", "size"]
    assert first.split("  ")[0] == "(default)"
    assert first.endswith("77.0 s  120.6 KiB")
    assert second.split()[:2] == ["audit", "0"]


def test_processing_tells_failed_from_released() -> None:
    """What went wrong comes first; what was deferred, or only given back, has not failed."""
    done = {"claims": 1, "acked": 120, "failed": 1, "deferred": 4, "released": 2, "dead": 3}

    ended = {"seconds": 12.4, "stopped": "empty", "waiting": {}, "until": None}
    lines = printed(show_counts.render_process({**done, **ended}))

    assert lines == [
        "3 items died; the command dead says why",
        "1 attempt failed, to be tried again",
        "4 items deferred, to be called later",
        "2 items given back untouched",
        "120 items acked in 1 claim, 12.4 s (10.0 items a second)",
        "ended: nothing is left",
    ]


def test_processing_says_what_still_waits() -> None:
    """Where items are left, how many wait for what is said, and when time alone may free one."""
    done = dict.fromkeys(("claims", "acked", "failed", "deferred", "released", "dead"), 0)
    waits = {"waiting": {"delayed": 1_200, "held by group": 3}, "until": AFTER}

    lines = printed(
        show_counts.render_process({**done, "seconds": 0.0, "stopped": "waiting", **waits})
    )

    assert " ".join(lines[1:]) == (
        "ended: no item may run now: 1,200 delayed, 3 held by group, until 2026-11-23 11:00:00Z"
    )


def test_a_history_is_read_from_top_to_bottom() -> None:
    """Each transition has its time, its step, and who, until when or why."""
    row = {
        "log": "status",
        "_step": 3,
        "_at": BEFORE,
        "_attempts": 0,
        "_losses": 0,
        "_claim_id": "abc",
        "_worker_id": None,
        "_lease_expires_at": None,
        "_available_at": None,
        "_error": None,
        "_duplicate_of": None,
        "_origin": None,
    }
    transitions = [
        {**row, "log": "queue", "_state": "ready", "_step": 1, "_origin": 2},
        {**row, "_state": "claimed", "_lease_expires_at": AFTER},
        {**row, "_state": "ready", "_attempts": 1, "_available_at": AFTER, "_error": "KeyError"},
        {**row, "log": "queue", "_state": "refused", "_duplicate_of": 7},
    ]

    lines = printed(show_counts.history({"queue": "/q", "seq": 3, "transitions": transitions}))
    text = " ".join(" ".join(lines).split())

    assert lines[0] == "item 3 of /q"
    assert "2026-11-22 11:00:00Z queue 1 ready item 2, redriven" in text
    assert "status 3 claimed claim abc, until 2026-11-23 11:00:00Z" in text
    assert "1 failed attempt; not before 2026-11-23 11:00:00Z; KeyError" in text
    assert "refused its key is held by item 7" in text


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(None, ""), (0.04, "0.0 s"), (119.0, "119.0 s"), (120, "2.0 min"), (7_200, "2.0 h")],
)
def test_durations_have_their_unit(seconds: float | None, said: str) -> None:
    """A duration is said in the largest unit of which it has two."""
    assert words.duration(seconds) == said


def test_a_purge_says_what_stays_and_why() -> None:
    """Items that are not finished are to be cancelled first; others a reader needs, or a link."""
    assert show_counts.render_stays({"ready": 1_200, "claimed": 1, "needed": 2, "linked": 1}) == [
        "1,200 ready items stay: purge takes finished items; cancel them first",
        "1 claimed item stays: purge takes finished items; cancel it first",
        "2 finished items stay: a reader is not done with them",
        "1 finished item stays: it was enqueued again from an item that stays",
    ]


def test_the_first_of_several_is_told_as_that() -> None:
    """A limit of one is no "first 1"."""
    letters = {"queue": "/q", "count": 3, "items": [item(1, "dead")]}
    assert printed(show_counts.dead(letters, None))[0] == "the first of 3 dead letters in /q"
    letters["items"] = [item(1, "dead"), item(2, "dead")]
    assert printed(show_counts.dead(letters, None))[0] == "the first 2 of 3 dead letters in /q"


def _undone(taken: int, left: int) -> list[str]:
    data = {"what": "cancel", "restored": 1, "enqueue_step": 0, "taken": taken, "left": left}
    return printed(show_counts.undone({**data, "holders": [(5, 7), (6, 8)][:taken]}))


def test_what_was_taken_back_agrees_with_its_number() -> None:
    """One item stays out, and several do; the holders of their keys are named."""
    assert _undone(1, 1) == [
        "1 item back",
        "1 item stays out, as its key is taken: item 5 by item 7",
        "1 item came back before, or is gone",
    ]
    assert _undone(2, 3)[1:] == [
        "2 items stay out, as their keys are taken: item 5 by item 7, item 6 by item 8",
        "3 items came back before, or are gone",
    ]


@pytest.mark.parametrize(
    ("refused", "note"),
    [(1, "a duplicate, which is no item"), (2, "duplicates, which are no items")],
)
def test_refused_rows_are_no_items(refused: int, note: str) -> None:
    """What was refused is told of beside the states, one or several."""
    states = dict.fromkeys(show_counts.STATES, 0)
    data = {**states, "refused": refused, "paused": False, "oldest_age": None, "step": 1, "at": NOW}
    assert printed(show_counts.stats({**data, "per_key": []}))[-1].split(maxsplit=2)[2] == note
