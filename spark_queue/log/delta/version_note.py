"""Note beside a table's log: its newest version, and up to which one all is on the disk."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

FILE = "_newest_commit"

_NOTED = re.compile(rb"([0-9]{20})([0-9]{20})?")


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
    # The commit stands, even if this fails. The two numbers are of one length, and written over.
    with suppress(OSError):
        file = os.open(directory / FILE, os.O_WRONLY | os.O_CREAT, 0o666)
        try:
            os.pwrite(file, b"%020d" % version * (2 if is_forced else 1), 0)
        finally:
            os.close(file)


def read(directory: Path) -> tuple[str, str]:
    """Return the newest version, and one up to which all is on the disk; empty where not noted."""
    try:
        noted = _NOTED.fullmatch((directory / FILE).read_bytes())
    except OSError:
        noted = None
    return ("", "") if noted is None else (noted[1].decode(), (noted[2] or b"").decode())
