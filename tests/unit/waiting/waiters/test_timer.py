from __future__ import annotations

import logging
import threading
from datetime import timedelta

import pytest

from spark_queue.checks import limit_of
from spark_queue.errors import InvalidArgumentError
from spark_queue.memory.waiting.abort import AbortScope
from spark_queue.memory.waiting.timer import ManualTimer, ThreadTimer, seconds


def test_calls_come_in_the_order_of_their_times() -> None:
    """Alarms are called by time, then by the order in which they were set."""
    timer = ManualTimer()
    calls: list[str] = []
    timer.call_at(2, lambda: calls.append("late"))
    timer.call_at(1, lambda: calls.append("first"))
    timer.call_at(1, lambda: calls.append("second"))
    timer.advance(timedelta(seconds=2))
    assert calls == ["first", "second", "late"]


def test_a_cancelled_alarm_is_not_called() -> None:
    """A cancelled alarm makes no call and is not counted, also when it is cancelled twice."""
    timer = ManualTimer()
    calls: list[str] = []
    alarm = timer.call_at(1, lambda: calls.append("never"))
    alarm.cancel()
    alarm.cancel()
    assert len(timer) == 0
    timer.advance(5)
    assert calls == []


def test_cancelled_alarms_leave_no_memory_behind() -> None:
    """Alarms that are set far ahead and cancelled do not pile up."""
    timer = ManualTimer()
    for _ in range(5000):
        timer.call_at(1_000_000, lambda: None).cancel()
    assert len(timer._alarms._heap) < 200


def test_the_thread_timer_calls_what_is_due_and_survives_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A call that raises is logged, and later calls are made all the same."""
    timer = ThreadTimer()
    done = threading.Event()
    with caplog.at_level(logging.ERROR):
        timer.call_at(timer.now() + 3600, lambda: None)
        timer.call_at(timer.now(), lambda: 1 / 0)
        timer.call_at(timer.now() + 0.001, done.set)
        assert done.wait(10)
    assert "a timer call failed" in caplog.text
    assert len(timer) == 1


@pytest.mark.parametrize("bad", [-1, float("nan"), "soon", True, timedelta(seconds=-1)])
def test_a_bad_timeout_is_refused(bad: object) -> None:
    """A timeout that is negative or no duration is refused by its name."""
    with pytest.raises(InvalidArgumentError, match="patience"):
        seconds("patience", bad)


def test_timeouts_are_seconds_or_durations() -> None:
    """Seconds, durations and infinity are understood."""
    assert seconds("t", 1.5) == 1.5
    assert seconds("t", timedelta(minutes=1)) == 60
    assert seconds("t", float("inf")) is None
    assert seconds("t", None) is None


@pytest.mark.parametrize("ages", [10**400, 1e300, timedelta.max])
def test_longer_than_a_lock_can_wait_is_for_ever(ages: float | timedelta) -> None:
    """A number of seconds that no float, or no lock, can hold is a wait without an end."""
    assert seconds("t", ages) is None
    signal = AbortScope()
    threading.Timer(0.01, signal.abort).start()
    assert signal.signal.wait(ages)


@pytest.mark.parametrize("bad", [0, -1, 1.5, "1", True])
def test_a_bad_limit_is_refused(bad: object) -> None:
    """A limit that is no whole number of at least the minimum is refused by its name."""
    with pytest.raises(InvalidArgumentError, match="max_items"):
        limit_of("max_items", bad)
