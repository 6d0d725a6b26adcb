"""Note beside a table's log: its newest version, and up to which one all is on the disk."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

FILE = "_newest_commit"

_NOTED = re.compile(rb"([0-9]{20})(?:([0-9]{20})([0-9]{20})?)?")


def write(directory: Path, version: int, *, is_forced: bool) -> None:
    """Write down the newest version of a table, for commits that leave no checksum.

    Parameters
    ----------
    directory : Path
        Where the table is.
    version : int
        The version.
    is_forced : bool
        Whether it is on the disk, with all before it.
    """
    # The commit stands, even if this fails. The numbers are of one length, and written over.
    with suppress(OSError):
        file = os.open(directory / FILE, os.O_WRONLY | os.O_CREAT, 0o666)
        try:
            # Of a copy of the table nothing is known to be on the disk: its note is another file.
            known = (version, version, os.fstat(file).st_ino) if is_forced else (version,)
            os.pwrite(file, b"%020d" * len(known) % known, 0)
        finally:
            os.close(file)


def read(directory: Path) -> tuple[str, str]:
    """Return the newest version, and one up to which all is on the disk; empty where not noted."""
    note = directory / FILE
    try:
        noted, own = _NOTED.fullmatch(note.read_bytes()), note.stat().st_ino
    except OSError:
        return "", ""
    if noted is None:
        return "", ""
    is_own = int(noted[3] or -1) == own
    return noted[1].decode(), noted[2].decode() if is_own else ""
