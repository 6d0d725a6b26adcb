"""Name of an operator, which the rows of a step carry."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from spark_queue.errors import InvalidArgumentError

#: Signs that a name may have.
_LONGEST = 200

_operator: ContextVar[str | None] = ContextVar("spark_queue_operator", default=None)


@contextmanager
def acting_as(name: str) -> Iterator[None]:
    """Sign commands with an operator's name, in a scope and on this thread.

    It is the ``worker_id`` of the rows that are written, and ``who`` of a report's steps.

    Parameters
    ----------
    name : str
        Who it is: one line of 200 signs at most.

    Raises
    ------
    InvalidArgumentError
        When it is empty, longer, or has signs that cannot be shown.

    Examples
    --------
    >>> with acting_as("ann"):
    ...     operator()
    'ann'
    """
    name = name.strip()
    if not name or len(name) > _LONGEST or not name.isprintable():
        raise InvalidArgumentError(
            f"operator must be a name: one line of at most {_LONGEST} signs that can be shown"
        )
    before = _operator.set(name)
    try:
        yield
    finally:
        _operator.reset(before)


def operator() -> str | None:
    """Return the operator's name; ``None`` if it was not given."""
    return _operator.get()


def whoami() -> str:
    """Return the default operator: ``user@host``."""
    return f"{_user()}@{socket.gethostname()}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        # A container may have no name for who runs in it.
        return f"user {os.getuid()}"
