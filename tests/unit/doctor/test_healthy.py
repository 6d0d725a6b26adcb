"""A queue that is well, and what a checkup is."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from spark_queue.clock import ManualClock
from spark_queue.doctor.examine import CHECKS
from spark_queue.errors import InvalidArgumentError, QueueNotFoundError
from spark_queue.local_queue import LocalQueue
from spark_queue.report.alarms import ALARMS
from spark_queue.report.finding import Checkup, Finding, Thresholds
from tests.unit.doctor.conftest import Make, anew


def test_a_healthy_queue_has_no_finding(make: Make, clock: ManualClock) -> None:
    """Items that wait, run, failed once and are done, two readers, upkeep: nothing is wrong."""
    queue = make("id string", fair_key="id", group_key="id")
    queue.reader("mail")
    queue.reader("audit")
    for name in "abcd":
        queue.enqueue([{"id": name}, {"id": name}])
        clock.advance(timedelta(seconds=1))
    mail = queue.reader("mail")
    mail.claim(2).ack()
    mail.claim(1).nack("try again")
    mail.claim(1)
    queue.maintain()
    queue.close()
    files = sorted(Path(queue.name).rglob("*"))

    for seen in (mail, anew(queue, clock)):
        checkup = seen.doctor(Thresholds(oldest=timedelta(days=1), retention=timedelta(days=1)))
        assert (checkup.findings, checkup.unchecked) == ((), {})
        assert checkup.worst is None
    assert sorted(Path(queue.name).rglob("*")) == files


def test_what_is_no_queue_is_not_examined(tmp_path: Path) -> None:
    """A place without a queue is an error, and no finding."""
    queue = LocalQueue.create(tmp_path / "q", "id string")
    LocalQueue.drop(queue.name)

    with pytest.raises(QueueNotFoundError):
        queue.doctor()


@pytest.mark.parametrize(
    "wrong",
    [
        {"oldest": 5},
        {"window": timedelta(0)},
        {"failures": 0},
        {"clock_skew": timedelta(-1)},
        {"retention": timedelta(0)},
    ],
)
def test_a_threshold_out_of_its_range_is_named(wrong: dict[str, Any]) -> None:
    """Its error names the threshold."""
    with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
        Thresholds(**wrong)


def test_thresholds_have_to_be_thresholds(queue: LocalQueue) -> None:
    """A mapping is refused."""
    with pytest.raises(InvalidArgumentError, match="they must be Thresholds"):
        queue.doctor({"oldest": 5})  # type: ignore[arg-type]


def test_a_checkup_shows_itself_in_a_notebook() -> None:
    """Texts of a queue are no HTML, and what was not checked is counted."""
    found = Finding(
        id="paused",
        severity="warning",
        what="<b>it</b>",
        since=datetime(2026, 1, 1, tzinfo=timezone.utc),
        command="spark-queue resume q",
    )
    checkup = Checkup(
        queue="q", at=datetime.now(timezone.utc), findings=(found,), unchecked={"x": "why"}
    )

    said = checkup._repr_html_()

    assert "&lt;b&gt;it&lt;/b&gt;" in said
    assert "1 check could not be made" in said
    assert "2026-01-01 00:00:00" in said


def test_every_finding_has_a_test_that_makes_it_true() -> None:
    """Each id is what some test has found on a queue."""
    tests = "".join(file.read_text() for file in Path(__file__).parent.glob("test_*.py"))
    found = set(re.findall(r'only\([^"]*"([a-z-]+)"\)', tests)) | {"files-gone"}

    assert found == set(CHECKS)
    assert '"files-gone"} if damage' in tests


def test_every_check_has_a_name_of_its_own() -> None:
    """What a check finds has the id under which it is registered."""
    assert len(set(CHECKS.values())) == len(CHECKS)
    for name, check in CHECKS.items():
        assert ALARMS.get(name, check).__name__.removeprefix("find_").replace("_", "-") == name
