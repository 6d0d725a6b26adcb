"""Packages that extras bring, and the error where one is missing."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from spark_queue.errors import PackageMissingError

#: Which extra brings a package.
_EXTRAS = dict.fromkeys(("pyspark", "py4j", "delta", "pandas"), "spark")


def is_installed(package: str) -> bool:
    """Tell whether a package can be imported, without importing it."""
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def load(module: str, what: str) -> ModuleType:
    """Import a module of the library for something that a caller asked for.

    Raises
    ------
    PackageMissingError
        When it needs a package that is not installed; it names the extra that brings it.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as exc:
        package = (exc.name or "").partition(".")[0]
        if package not in _EXTRAS:
            raise
        raise PackageMissingError(what, package, _EXTRAS[package]) from exc
