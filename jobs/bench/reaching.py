"""A plugin of pytest: which tests reach which lines of the package, and which of its views of SQL.

``REACHED`` names a file. Beside it each process of the tests leaves what coverage.py counted, with
a context for each test, and lines of JSON with each test's seconds and views.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coverage
import pytest

_PLACE = os.environ["REACHED"]


class _Reach:
    """What one process of the tests has counted."""

    def __init__(self) -> None:
        self.views: set[str] = set()
        self.counting = coverage.Coverage(
            data_file=f"{_PLACE}.{os.getpid()}.coverage", source=["spark_queue"], config_file=False
        )

    def note_views(self) -> None:
        """Have the library tell which views it makes statements of."""
        from spark_queue.sql import catalogue  # noqa: PLC0415 - counted from its import on

        read: Any = catalogue._of_stage  # noqa: SLF001 - of our own package

        def noting(name: str, **options: bool) -> object:
            self.views.add(name)
            return read(name, **options)

        catalogue._of_stage = noting  # type: ignore[assignment]  # noqa: SLF001 - as above

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Count what a test reaches under its own name."""
        self.counting.switch_context(item.nodeid)
        self.views.clear()
        started = time.monotonic()
        answer = yield
        told = {"test": item.nodeid, "seconds": time.monotonic() - started}
        with Path(f"{_PLACE}.{os.getpid()}.json").open("a") as lines:
            lines.write(json.dumps({**told, "views": sorted(self.views)}) + "\n")
        return answer

    def pytest_sessionfinish(self) -> None:
        """Write down what was counted."""
        self.counting.stop()
        self.counting.save()


def pytest_configure(config: pytest.Config) -> None:
    """Start to count in a process that runs tests."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        reach = _Reach()
        reach.counting.start()
        reach.note_views()
        config.pluginmanager.register(reach)
