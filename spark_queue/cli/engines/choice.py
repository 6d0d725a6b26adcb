"""Choice of the engine of a command."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from enum import Enum
from importlib.util import find_spec
from pathlib import Path

from spark_queue.delta.tables import address, paths
from spark_queue.delta.tables.address import QueueAddress
from spark_queue.delta.tables.wishes import PlainSession

#: By these a path, or a name, may mean something to Spark that is not on this machine's disk.
_SPARK_IS_SET_UP = (
    *("SPARK_HOME", "SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR"),
    *("SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS"),
)


class EngineChoice(str, Enum):
    """Who answers a command."""

    AUTO = "auto"
    SPARK = "spark"
    LOCAL = "local"


def local_path(name: str) -> str:
    """Return the path that a name or a path of a queue is on this machine's disk.

    A plain name is one of the working directory, as it is to a session whose catalog is in memory.
    """
    return address.placed(name) if "/" in name else os.path.abspath(name)  # noqa: PTH100 - a string


def is_local(name: str) -> bool:
    """Tell whether a queue is, or would be, on this machine's disk, for all that a path can say."""
    return _directory_of(name) is not None


def is_local_to_spark(name: str) -> bool:
    """Tell whether it is there to Spark, too.

    It is where there is a queue, and where nobody has set Spark up in another way.
    """
    return is_local(name) and (is_queue(name) or not is_spark_set_up())


def is_queue(name: str) -> bool:
    """Tell whether a queue is on this machine's disk."""
    directory = _directory_of(name)
    if directory is None:
        return False
    return all(paths.has_log(directory.parent / log) for log in ("queue", "status"))


def is_spark_set_up() -> bool:
    """Tell whether paths and names may mean something else to Spark than to this process."""
    return any(map(os.environ.get, _SPARK_IS_SET_UP))


def absolute(path: str) -> str:
    """Return a path of files as the JVM finds it, whose working directory may be another."""
    return path if "://" in path else os.path.abspath(path)  # noqa: PTH100 - it may be a pattern


def spark_problem() -> str | None:
    """Say in a line what is missing for Spark; ``None`` where nothing is."""
    if find_spec("pyspark") is None:
        return "pyspark is not installed; pip install 'spark-queue[spark]'"
    return java_problem()


def _directory_of(name: str) -> Path | None:
    """Return where the status log of a queue is or would be."""
    return paths.directory_of(PlainSession(), QueueAddress(local_path(name)).status)


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
