"""Share of this machine's memory for a local session's driver."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

#: The part of the machine's memory that a heap takes. Python workers and other programs need the
#: rest.
_SHARE = 4

#: In MiB: the first is Spark's own default, and beyond the last one pauses grow.
_LEAST, _MOST = 1 << 10, 16 << 10

#: What limits a container, by the two versions of control groups.
_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def heap(memory: int | None) -> str | None:
    """Return the heap for a driver on a machine.

    Parameters
    ----------
    memory : int, optional
        The machine's memory in bytes; ``None`` where it is not known.

    Returns
    -------
    str or None
        A quarter of the memory, between 1 and 16 GiB, as Spark spells it; ``None`` where that is
        Spark's own default, or nothing is known.
    """
    if memory is None:
        return None
    size = min(memory // _SHARE >> 20, _MOST)
    return f"{size}m" if size > _LEAST else None


def machine_memory(limits: Sequence[Path] = _LIMITS) -> int | None:
    """Return the bytes of memory that this machine, or the container in it, has.

    Parameters
    ----------
    limits : sequence of Path
        Files that may hold a limit.
    """
    known = [_physical(), *(_limit(path) for path in limits)]
    return min((size for size in known if size is not None), default=None)


def _physical() -> int | None:
    with suppress(AttributeError, ValueError, OSError):  # a system that does not say
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return size if size > 0 else None
    return None


def _limit(path: Path) -> int | None:
    # The file is not there, or says "max".
    with suppress(OSError, ValueError):
        return int(path.read_text())
    return None
