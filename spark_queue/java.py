"""Is there a Java that Spark can run on: asked before anything is started. Needs nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

#: Versions that Spark 4 runs on.
SUPPORTED = (17, 21)

_HINT = (
    "install Java 17 or 21 (Debian, Ubuntu: apt install openjdk-17-jre-headless; "
    "macOS: brew install openjdk@17) and put java on PATH, or set JAVA_HOME"
)

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def java_problem() -> str | None:
    """Say what is wrong with this machine's Java and what to install.

    Returns
    -------
    str or None
        One line, or ``None`` where there is a Java that Spark runs on.
    """
    java = _java()
    if java is None:
        return f"Java was not found: {_HINT}"
    version = _version(java)
    if version is None:
        return f"{java} does not run: {_HINT}"
    if version not in SUPPORTED:
        return f"{java} is Java {version}, which Spark does not run on: {_HINT}"
    return None


def _java() -> str | None:
    """Return the Java that Spark would start: that of JAVA_HOME where it is set."""
    home = os.environ.get("JAVA_HOME")
    if home:
        return str(Path(home) / "bin" / "java")
    return shutil.which("java")


def _version(java: str) -> int | None:
    try:
        asked = subprocess.run(  # noqa: S603 - the Java that Spark is about to start anyway
            [java, "-version"], capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(asked.stderr + asked.stdout)
    return int(found.group(1)) if found else None
