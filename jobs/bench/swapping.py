"""A plugin of pytest: one session plays the tests of many faults, each in the code for a while.

``SWAPPING`` names a file with a line of JSON for each fault: its number, the file that it is in,
the source with it, and the tests to run until one fails. The answers are lines of the file that
``SWAPPED`` names: the number, and the test that noticed, ``""`` where none did, or ``null`` where
the fault needs a process of its own.
"""

from __future__ import annotations

import gc
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

import swap

#: Seconds for one test. One that takes longer may leave its session in any state: the last answer.
_LIMIT = 120


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Play the tests of each fault instead of all tests."""
    gc.unfreeze()
    items = {item.nodeid: item for item in session.items}
    signal.signal(signal.SIGALRM, _stop)
    with Path(os.environ["SWAPPED"]).open("a") as answers:
        for line in Path(os.environ["SWAPPING"]).read_text().splitlines():
            task = json.loads(line)
            tests = [items[name] for name in task["tests"] if name in items]
            found, ended = _find(session, task, tests)
            answers.write(json.dumps({"number": task["number"], "by": found}) + "\n")
            answers.flush()
            if not ended:
                break
    return True


def _find(
    session: pytest.Session, task: dict[str, Any], tests: list[pytest.Item]
) -> tuple[str | None, bool]:
    """Return the test that notices a fault, and whether the session may go on."""
    for test in tests:
        try:
            with _broken(task):
                failed, ended = _fails(session, test)
        except swap.ColdError:
            return None, True
        if not ended:
            return f"{test.nodeid} (did not end)", False
        # A test that fails without the fault, too, tells nothing of it.
        if failed and not _fails(session, test)[0]:
            return test.nodeid, True
    return "", True


@contextmanager
def _broken(task: dict[str, Any]) -> Iterator[None]:
    file = Path(task["file"])
    old = file.read_text()
    if file.suffix == ".py":
        # One that was imported with the fault would keep it.
        import_module(".".join(file.with_suffix("").parts[file.parts.index("spark_queue") :]))
    restore = swap.swap(str(file), old, task["source"]) if file.suffix == ".py" else None
    file.write_text(task["source"])
    swap.forget_answers("spark_queue")
    try:
        yield
    finally:
        file.write_text(old)
        swap.forget_answers("spark_queue")
        if restore is not None:
            restore()


def _fails(session: pytest.Session, test: pytest.Item) -> tuple[bool, bool]:
    """Run one test; return whether it failed, and whether it ended in time."""
    # With a test to come, the fixtures of the session stay.
    other = next(item for item in session.items if item is not test)
    signal.alarm(_LIMIT)
    try:
        reports = runtestprotocol(test, log=False, nextitem=other)
    except TimeoutError:
        return True, False
    finally:
        signal.alarm(0)
    late = any("TimeoutError: the test did not end" in report.longreprtext for report in reports)
    return any(report.failed for report in reports), not late


def _stop(*_: object) -> None:
    raise TimeoutError("the test did not end")
