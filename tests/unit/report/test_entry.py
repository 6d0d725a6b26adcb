"""What an item is, as its report tells; and which tenants a report has first."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest

from spark_queue.cli import show_report
from spark_queue.clock import ManualClock
from spark_queue.local_queue import LocalQueue
from spark_queue.reader_config import ReaderConfig
from spark_queue.report import sheets
from spark_queue.wording import instant
from tests.conftest import CommandLine
from tests.unit.report.conftest import Make

_COLUMNS = "id string, n bigint, at timestamp, day date, raw binary, is_new boolean, none double"

#: Prints what a command prints.
Run = Callable[..., str]


@pytest.fixture
def run(command_line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command of this process's engine."""
    monkeypatch.setenv("COLUMNS", "120")

    def run(*argv: str) -> str:
        ended = command_line(*argv, "--engine", "local")
        assert not ended.code, ended.err
        return ended.out

    return run


def _row(clock: ManualClock) -> dict[str, Any]:
    return {
        "id": "a\nb",
        "n": 7,
        "at": datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=1))),
        "day": date(2026, 1, 2),
        "raw": b"\x00\x01",
        "is_new": True,
        "none": None,
        "cost": 2.5,
        "available_at": clock.now() + timedelta(hours=1),
        "expires_at": clock.now() + timedelta(hours=2),
    }


@pytest.fixture
def queue(make: Make, clock: ManualClock) -> LocalQueue:
    """Make a queue of an item that has everything, and a row that was refused."""
    made = make(_COLUMNS, dedup_key="id", fair_key="n", group_key="id", priority="n")
    made.enqueue([_row(clock), _row(clock)])
    return made


def test_an_item_is_shown_with_all_that_it_is(
    queue: LocalQueue, clock: ManualClock, run: Run
) -> None:
    """Its columns, keys, priority, cost and times are there, for programs and for people."""
    entry = queue.report_item(1).entry

    assert entry is not None
    assert entry.columns == {
        "id": "a\nb",
        "n": 7,
        "at": datetime(2026, 1, 2, 2, tzinfo=timezone.utc),
        "day": date(2026, 1, 2),
        "raw": b"\x00\x01",
        "is_new": True,
        "none": None,
    }
    assert (entry.dedup_key, entry.fair_key, entry.group_key) == ("a\nb", "7", "a\nb")
    assert (entry.priority, entry.cost, entry.origin) == (7, 2.5, None)
    assert entry.enqueued_at == clock.now()
    assert entry.available_at == clock.now() + timedelta(hours=1)
    assert entry.expires_at == clock.now() + timedelta(hours=2)
    told = json.loads(run("report", queue.name, "--item", "1", "--json"))["entry"]
    assert (told["columns"]["day"], told["columns"]["at"]) == (
        "2026-01-02",
        "2026-01-02T02:00:00+00:00",
    )
    lines = [line.split() for line in run("report", queue.name, "--item", "1").splitlines()]
    assert ["id", r"a\nb"] in lines
    assert ["none", "(none)"] in lines
    assert ["_priority", "7"] in lines
    assert ["_expires_at", *instant(entry.expires_at).split()] in lines


def test_a_refused_row_and_none_are_told(queue: LocalQueue, run: Run) -> None:
    """What was refused has its columns, and where there is no item there are none."""
    refused = queue.report_item(2)
    assert refused.entry is not None
    assert refused.entry.columns["n"] == 7
    assert "_dedup_key" in refused.html()
    nothing = queue.report_item(3)
    assert nothing.entry is None
    assert "_dedup_key" not in nothing.html()
    assert "What it is: nothing" in run("report", queue.name, "--item", "3")


def test_a_deadline_is_that_of_the_reader(queue: LocalQueue, clock: ManualClock) -> None:
    """The sooner one holds: the item's own, or by the age that the reader allows."""
    queue.reader("hasty", config=ReaderConfig(max_age=timedelta(minutes=10)))

    entry = queue.report_item(1).entry

    assert entry is not None
    assert entry.expires_at == clock.now() + timedelta(minutes=10)


def test_a_long_value_has_an_end(make: Make) -> None:
    """A page has room for the begin of it, and says how long it is; the entry has all of it."""
    queue = make("id string")
    queue.enqueue({"id": "x" * 5_000})

    told = queue.report_item(1)

    assert told.entry is not None
    assert len(told.entry.columns["id"]) == 5_000
    assert f">{'x' * 2_000}… (5,000 characters)<" in told.html()


def test_tenants_that_starve_come_first_and_idle_ones_share_a_line(
    make: Make, clock: ManualClock
) -> None:
    """Who waits for the whole window is named before who fails most, and who has nothing, last."""
    queue = make("tenant string", fair_key="tenant", weights={"poor": 0.001}, max_attempts=1)
    queue.enqueue([{"tenant": "done"}, {"tenant": "dead"}])
    queue.claim(1).ack()
    queue.claim(1).nack("boom")
    queue.enqueue([{"tenant": "poor"}] * 2)
    clock.advance(timedelta(hours=2))
    queue.enqueue([{"tenant": "rich"}] * 90)
    queue.claim(1).ack()
    for _ in range(40):
        queue.claim(1).nack("boom")
    clock.advance(timedelta(minutes=30))

    report = queue.report()

    assert [one.fair_key for one in report.tenants] == ["poor", "rich", "dead", "done"]
    assert [one.starving for one in report.tenants] == [True, False, False, False]
    assert [one.idle for one in report.tenants] == [False, False, True, True]
    sheet = next(one for one in sheets.sheets(report) if one.name == "tenants")
    assert [row[0] for row in sheet.rows] == ["poor STARVES", "rich"]
    assert sheet.foot == "2 more, all idle, with 1 dead"
    assert sheet.note == ""
    assert show_report.live(report)


def test_a_queue_of_idle_tenants_says_so(make: Make, clock: ManualClock) -> None:
    """They share the only line, however many there are."""
    queue = make("tenant string", fair_key="tenant")
    queue.enqueue([{"tenant": str(n)} for n in range(120)])
    queue.claim(120).ack()
    clock.advance(timedelta(hours=2))

    report = queue.report()

    sheet = next(one for one in sheets.sheets(report) if one.name == "tenants")
    assert (sheet.rows, sheet.foot) == ((), "120 all idle")
    assert len(report.tenants) == 100
    queue.enqueue([{"tenant": str(n)} for n in range(110)])
    (sheet,) = (one for one in sheets.sheets(queue.report()) if one.name == "tenants")
    assert (len(sheet.rows), sheet.foot) == (100, "10 more, all idle")
    assert sheet.note == "100 of 110"
