"""Programs of tests, each in a Python of its own."""

from __future__ import annotations

import subprocess
import sys
from typing import Any


def run_python(
    *words: object, check: bool = False, timeout: float = 300, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run Python with some words; what it says is kept, and any end is taken unless asked."""
    return subprocess.run(  # noqa: S603 - our own program
        [sys.executable, *map(str, words)],
        capture_output=True,
        text=True,
        check=check,
        timeout=timeout,
        **options,
    )
