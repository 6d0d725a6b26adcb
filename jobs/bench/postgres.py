"""A PostgreSQL of its own: in a temporary folder, by its own user, gone when it is done."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

#: Where Debian has what is not on the PATH.
_DEBIAN = "/usr/lib/postgresql"

#: It refuses to be run by root; Debian's package makes a user for it.
USER = "postgres"

#: No step is told before it is on the disk; nobody but this machine's sockets reaches it.
_SETTINGS = ("listen_addresses=", "fsync=on", "synchronous_commit=on", "full_page_writes=on")

#: Seconds for the server to come up.
_PATIENCE = 60.0


def programs() -> Path | None:
    """Return the folder of PostgreSQL's programs, of the newest release that is installed."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    folders = Path(_DEBIAN).glob("*/bin/initdb")
    return max((path.parent for path in folders), key=_release, default=None)


def _release(folder: Path) -> float:
    return float(folder.parent.name)


@contextmanager
def server(place: Path) -> Iterator[Path]:
    """Run a server in a folder below a place; what is given is the folder of its socket."""
    found = programs()
    if found is None:
        raise FileNotFoundError("initdb, of the package postgresql")
    root = Path(tempfile.mkdtemp(prefix="postgres-", dir=place))
    who = _user(root)
    data = ("-D", str(root / "data"))
    subprocess.run(  # noqa: S603 - programs of the package
        [found / "initdb", *data, "--auth=trust", f"--username={USER}"],
        check=True,
        stdout=subprocess.DEVNULL,
        **who,
    )
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    with (root / "log").open("w") as log:
        running = subprocess.Popen(  # noqa: S603
            [found / "postgres", *data, "-k", str(root), *settings], stdout=log, stderr=log, **who
        )
    try:
        _wait(found, root, running)
        yield root
    finally:
        running.terminate()
        running.wait()
        shutil.rmtree(root, ignore_errors=True)


def _user(root: Path) -> Mapping[str, Any]:
    """Return how its programs are started: not by root, to whom they would refuse to run."""
    if os.geteuid() != 0:
        return {"cwd": root}
    shutil.chown(root, USER, USER)
    # The way to it was made for us alone; it is passed through, not read.
    for folder in root.parents:
        if folder.stat().st_uid == 0 and not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o001)
    return {"cwd": root, "user": USER, "group": USER, "extra_groups": ()}


def _wait(found: Path, root: Path, running: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _PATIENCE
    asked = (found / "pg_isready", "-q", "-h", root)
    while subprocess.run(asked, check=False).returncode != 0:  # noqa: S603
        if running.poll() is not None or time.monotonic() > until:
            raise RuntimeError((root / "log").read_text())
        time.sleep(0.05)
