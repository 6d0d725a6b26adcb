"""The benchmarks, imported as they import each other: from the folder that they lie in."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

_BENCH = Path(__file__).parents[3] / "jobs" / "bench"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Import a script by its name; all of them are forgotten after the test."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(_BENCH))
    yield import_module
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(_BENCH)):
            del sys.modules[name]
