"""User of this process, and its machine."""

from __future__ import annotations

import getpass
import os
import socket


def whoami() -> str:
    """Return whom to name: ``user@host``."""
    return f"{_user()}@{socket.gethostname()}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        # A container may have no name for who runs in it.
        return f"user {os.getuid()}"
