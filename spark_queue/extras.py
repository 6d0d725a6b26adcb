"""Packages that extras bring, and the error where one is missing."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from types import ModuleType

from spark_queue.errors import PackageMissingError, SetupError

#: Which extra brings a package.
_EXTRAS = {
    **dict.fromkeys(("pyspark", "py4j", "delta", "pandas"), "spark"),
    "obstore": "objects",
}


#: Minor versions of Spark that the library runs on, the oldest first.
SUPPORTED = ("4.0", "4.1", "4.2")


def is_installed(package: str) -> bool:
    """Tell whether a package can be imported, without importing it."""
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def require_supported(spark_version: str) -> str:
    """Return the minor version of Spark.

    Raises
    ------
    SetupError
        When the library does not run on it.
    """
    minor = ".".join(spark_version.split(".")[:2])
    if minor not in SUPPORTED:
        *others, newest = SUPPORTED
        raise SetupError(
            f"this is Spark {spark_version}; spark_queue runs on Spark {', '.join(others)} and "
            f"{newest}: install one of these, with the delta-spark that fits it"
        )
    return minor


def load(module: str, what: str) -> ModuleType:
    """Import a module of the library for something that a caller asked for.

    Raises
    ------
    PackageMissingError
        When it needs a package that is not installed; it names the extra that brings it.
    SetupError
        When it needs more of Spark than the version that is installed has.
    """
    try:
        return import_module(module)
    except ImportError as exc:
        explain(exc, what)
        raise


def explain(exc: ImportError, what: str) -> None:
    """Say what to install, where an import failed for want of it; return where it did not.

    Raises
    ------
    PackageMissingError, SetupError
        As of :func:`load`.
    """
    package = (exc.name or "").partition(".")[0]
    if package == "pyspark" and is_installed(package):
        require_supported(version(package))
    if package in _EXTRAS and isinstance(exc, ModuleNotFoundError):
        raise PackageMissingError(what, package, _EXTRAS[package]) from exc
