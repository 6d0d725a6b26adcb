"""Run the tests in a browser, where the machine has chromium: ``python .ci/browser.py``.

The library that drives it is installed where it is missing. Without a browser the last line says
so, and that is no failure.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

_NAMES = ("chromium", "chromium-browser", "google-chrome")


def main() -> int:
    """Run the tests, and return the exit code of pytest."""
    browser = os.environ.get("SPARK_QUEUE_BROWSER") or next(
        filter(None, map(shutil.which, _NAMES)), None
    )
    if browser is None:
        print("skipped: there is no chromium on this machine")
        return 0
    if find_spec("playwright") is None:
        extra = f"{ROOT}[browser]"
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "-e", extra], check=True)
    command = [sys.executable, "-m", "pytest", "--quiet", "-m", "browser", "tests/browser"]
    env = {**os.environ, "SPARK_QUEUE_BROWSER": browser}
    return subprocess.run(command, cwd=ROOT, env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
