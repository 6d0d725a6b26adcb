"""Environment of fresh processes that find their modules compiled, as an installation has them."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache


@cache
def environment() -> dict[str, str]:
    """Return this environment, with a folder of compiled modules while this process lives.

    The first run of a command compiles what it loads. Where Python may not keep that, each run
    does: a status took 1.2 to 1.6 times the work.
    """
    kept = tempfile.mkdtemp(prefix="compiled-")
    atexit.register(shutil.rmtree, kept, ignore_errors=True)
    rest = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**rest, "PYTHONPYCACHEPREFIX": kept}
