"""The user's module of each program, ``../night.py``, with the faults of a play.

``NIGHT_FAULTS`` names them, each of which happens once in ``NIGHT_PLACE``: ``enqueue`` kills the
process (``SIGKILL``) when its files are in the queue and it does not know yet, ``answer`` has it
fail there instead, and ``read`` kills it at its tenth file. With ``run`` its parent is killed
before it.
"""

from __future__ import annotations

import functools
import os
import runpy
import signal
import time
from pathlib import Path
from typing import Any

from spark_queue.queue import Queue

_OWN = runpy.run_path(str(Path(__file__).resolve().parent.parent / "night.py"))

TENANTS, find_files = _OWN["TENANTS"], _OWN["find_files"]

FAULTS = {*os.environ.get("NIGHT_FAULTS", "").split()}


def read_file(item: dict[str, Any]) -> dict[str, Any]:
    """Read a file, as slowly as ``NIGHT_SECONDS`` says, and note that it was read."""
    with Path(os.environ["NIGHT_PLACE"], "read").open("a", encoding="utf-8") as log:
        log.write(f"{item['path']}\n")
        position = log.tell()
    time.sleep(float(os.environ.get("NIGHT_SECONDS", "0.01")))
    if "read" in FAULTS and position > 10 * len(item["path"]) and is_first("read"):
        die()
    row: dict[str, Any] = _OWN["read_file"](item)
    return row


def lose_answer_of_enqueue() -> None:
    """Let the first enqueue end its process, or fail, when its rows are there."""
    enqueue = Queue.enqueue

    @functools.wraps(enqueue)
    def enqueue_in_vain(*given: Any, **options: Any) -> Any:
        done = enqueue(*given, **options)
        if "enqueue" in FAULTS and is_first("enqueue"):
            die()
        if "answer" in FAULTS and is_first("answer"):
            raise ConnectionError("the answer is lost")
        return done

    Queue.enqueue = enqueue_in_vain  # type: ignore[method-assign]


def die() -> None:
    """End this process as a crash does."""
    if "run" in FAULTS:
        os.kill(os.getppid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def is_first(fault: str) -> bool:
    """Return whether a fault has not been yet; from now on it has."""
    try:
        Path(os.environ["NIGHT_PLACE"], f"fault of {fault}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


if FAULTS & {"enqueue", "answer"}:
    lose_answer_of_enqueue()
