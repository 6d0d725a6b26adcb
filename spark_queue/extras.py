"""Packages that extras bring, a Java that Spark runs on, and errors where one is missing."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from spark_queue.errors import PackageMissingError, SetupError
from spark_queue.log_errors import FileAccessError, using

#: Why the system refuses a shared library that is there.
_REFUSED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)

#: Which extra brings a package.
_EXTRAS = {
    **dict.fromkeys(("pyspark", "py4j", "delta", "pandas"), "spark"),
    "obstore": "objects",
}


#: Minor versions of Spark that the library runs on, the oldest first.
SUPPORTED = ("4.0", "4.1", "4.2")

#: Those for which there is no Delta yet: what keeps no table by a session runs on them, too.
WITHOUT_DELTA = ("4.3",)

_INSTALL = (
    f"Spark {', '.join(SUPPORTED[:-1])} and {SUPPORTED[-1]}: install one of these, with the "
    "delta-spark that fits it"
)


def is_installed(package: str) -> bool:
    """Whether a package can be imported, without importing it."""
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def is_of(given: object, *packages: str) -> bool:
    """Tell whether a value is of a class of some packages, or of one that derives from it."""
    return any(kind.__module__.partition(".")[0] in packages for kind in type(given).__mro__)


def require_supported(spark_version: str) -> str:
    """Return the minor version of Spark.

    Raises
    ------
    SetupError
        When the library does not run on it.
    """
    minor = ".".join(spark_version.split(".")[:2])
    if minor not in (*SUPPORTED, *WITHOUT_DELTA):
        raise SetupError(f"this is Spark {spark_version}; spark_queue runs on {_INSTALL}")
    return minor


def require_delta(spark_version: str) -> str:
    """Return the minor version of Spark, whose sessions can have Delta.

    Raises
    ------
    SetupError
        When the library does not run on it, or there is no Delta for it yet.
    """
    minor = require_supported(spark_version)
    if minor in WITHOUT_DELTA:
        raise SetupError(
            f"this is Spark {spark_version}, for which there is no Delta yet; DeltaQueue and "
            f"DeltaIdempotencyKeyStore run on {_INSTALL}, or use LocalQueue, format('spark_queue') "
            "and the operators, which need no Delta"
        )
    return minor


def load(module: str, what: str) -> ModuleType:
    """Import a module of the library that may need an extra.

    Raises
    ------
    FileAccessError
        When the system refuses one of its files: no descriptor is free.
    PackageMissingError
        When it needs a package that is not installed; it names the extra that brings it.
    SetupError
        When it needs more of Spark than the version that is installed has.
    """
    try:
        return import_late(module)
    except ImportError as exc:
        explain(exc, what)
        raise


def import_late(module: str) -> ModuleType:
    """Import a module that only a verb needs.

    Raises
    ------
    FileAccessError
        When the system refuses one of its files: no descriptor is free.
    """
    try:
        with using(module):
            return import_module(module)
    except ImportError as exc:
        # A shared library that the system refuses is told by the loader, in its words alone.
        refused = (one for one in _REFUSED if os.strerror(one) in str(exc))
        if (number := next(refused, None)) is None:
            raise
        raise FileAccessError(exc.path or module, number) from exc


def submodules(package: str) -> Callable[[str], ModuleType]:
    """Return a package's ``__getattr__`` that loads a module when it is first used.

    A cold process needs few modules, and to load them all takes longer than most answers.
    """

    def load_module(name: str) -> ModuleType:
        module = f"{package}.{name}"
        try:
            return import_late(module)
        except ModuleNotFoundError as exc:
            if exc.name != module:
                raise
            raise AttributeError(f"module {package!r} has no attribute {name!r}") from None

    return load_module


def explain(exc: ImportError, what: str) -> None:
    """Say what to install, where an import failed for want of it; return where it did not.

    Raises
    ------
    PackageMissingError, SetupError
        As of :func:`load`.
    """
    package = (exc.name or "").partition(".")[0]
    if package == "pyspark" and is_installed(package):
        from importlib.metadata import version  # noqa: PLC0415 - takes a while

        require_supported(version(package))
    if package in _EXTRAS and isinstance(exc, ModuleNotFoundError):
        raise PackageMissingError(what, package, _EXTRAS[package]) from exc


#: Versions that Spark 4 runs on.
JAVAS = (17, 21)

_HINT = (
    "install Java 17 or 21 (Debian, Ubuntu: apt install openjdk-17-jre-headless; "
    "macOS: brew install openjdk@17) and put java on PATH, or set JAVA_HOME"
)

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def java_problem() -> str | None:
    """Return the problem with this machine's Java, and how to solve it.

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
    if version not in JAVAS:
        return f"{java} is Java {version}, which Spark does not run on: {_HINT}"
    return None


def _java() -> str | None:
    """Return the Java that Spark would start, from JAVA_HOME if set."""
    home = os.environ.get("JAVA_HOME")
    if home:
        return str(Path(home) / "bin" / "java")
    return shutil.which("java")


def _version(java: str) -> int | None:
    import subprocess  # noqa: PLC0415 - takes a while

    try:
        asked = subprocess.run(  # noqa: S603 - the Java that Spark is about to start anyway
            [java, "-version"], capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(asked.stderr + asked.stdout)
    return int(found.group(1)) if found else None
