"""Code of a running process, replaced by that of another source, and put back.

A function has its code in one place, so it runs the new code at its next call, whoever holds it.
Statements of a module or of a class body have run already: a source that differs in these needs a
new process.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from functools import _lru_cache_wrapper
from inspect import CO_OPTIMIZED
from types import CodeType, FunctionType
from typing import Any


class ColdError(Exception):
    """A process that has imported the old source cannot run the new one."""


def swap(file: str, old: str, new: str) -> Callable[[], None]:
    """Run the new source of a module from now on; the answer puts the old one back.

    Raises
    ------
    ColdError
        When statements outside functions differ, or what a function closes over.
    """
    before, after = compile(old, file, "exec"), compile(new, file, "exec")
    if _statements(before) != _statements(after):
        raise ColdError(file)
    pairs = list(zip(_functions(before), _functions(after), strict=False))
    if any(was.co_name != will.co_name for was, will in pairs):
        raise ColdError(file)
    places = {(was.co_name, was.co_firstlineno): will for was, will in pairs if was != will}
    done: list[tuple[FunctionType, CodeType]] = []
    for function in _living(file):
        code = function.__code__
        will = places.get((code.co_name, code.co_firstlineno), code)
        if will.co_freevars != code.co_freevars:
            _restore(done)
            raise ColdError(file)
        done.append((function, code))
        function.__code__ = will
    return lambda: _restore(done)


def forget_answers(package: str) -> None:
    """Empty the caches of all functions of a package: what they have read may have changed."""
    for cached in gc.get_objects():
        if isinstance(cached, _lru_cache_wrapper) and cached.__module__.startswith(package):
            cached.cache_clear()


def _restore(done: list[tuple[FunctionType, CodeType]]) -> None:
    for function, code in done:
        function.__code__ = code


def _living(file: str) -> list[FunctionType]:
    found = [thing for thing in gc.get_objects() if isinstance(thing, FunctionType)]
    return [function for function in found if function.__code__.co_filename == file]


def _functions(code: CodeType) -> Iterator[CodeType]:
    """Yield each function of a module, in the order of the source."""
    for const in code.co_consts:
        if isinstance(const, CodeType):
            if const.co_flags & CO_OPTIMIZED:
                yield const
            yield from _functions(const)


def _statements(code: CodeType) -> Any:
    """Return what a module runs as it is imported, with its class bodies."""
    return code.co_code, code.co_names, [_constant(const) for const in code.co_consts]


def _constant(const: Any) -> Any:
    if not isinstance(const, CodeType):
        return const
    return const.co_name if const.co_flags & CO_OPTIMIZED else _statements(const)
