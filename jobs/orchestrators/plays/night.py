"""The user's own part of each program: files that came in a night, and a handler that reads one.

``NIGHT_FAULTS`` names the faults of a play, each of which happens once in ``NIGHT_PLACE``:
``enqueue`` kills the process (``SIGKILL``) when its files are in the queue and it does not know
yet, ``answer`` has it fail there instead, and ``read`` kills it at its tenth file.
"""

from __future__ import annotations

import functools
import os
import signal
import time
from pathlib import Path
from typing import Any

import spark_queue

COUNT = 12

TENANTS = ("ann", "bob")

FAULTS = {*os.environ.get("NIGHT_FAULTS", "").split()}


def find_files(run: str) -> list[dict[str, str]]:
    """Return the files of a run, a dozen of each tenant."""
    return [
        {"tenant": tenant, "path": f"{run}/{tenant}/{number}"}
        for tenant in TENANTS
        for number in range(COUNT)
    ]


def read_file(item: dict[str, Any]) -> dict[str, Any]:
    """Return the size of a file; there are none in a run named ``broken``."""
    if "broken" in item["path"]:
        raise spark_queue.Reject("it is empty")
    with Path(os.environ["NIGHT_PLACE"], "read").open("a", encoding="utf-8") as log:
        log.write(f"{item['path']}\n")
        position = log.tell()
    time.sleep(float(os.environ.get("NIGHT_SECONDS", "0.01")))
    if "read" in FAULTS and position > 10 * len(item["path"]) and is_first("read"):
        os.kill(os.getpid(), signal.SIGKILL)
    return {"path": item["path"], "size": len(item["path"])}


def lose_answer_of_enqueue() -> None:
    """Let the first enqueue end its process, or fail, when its rows are there."""
    enqueue = spark_queue.LocalQueue.enqueue

    @functools.wraps(enqueue)
    def enqueue_in_vain(*given: Any, **options: Any) -> Any:
        done = enqueue(*given, **options)
        if "enqueue" in FAULTS and is_first("enqueue"):
            os.kill(os.getpid(), signal.SIGKILL)
        if "answer" in FAULTS and is_first("answer"):
            raise ConnectionError("the answer is lost")
        return done

    spark_queue.LocalQueue.enqueue = enqueue_in_vain  # type: ignore[method-assign]


def is_first(fault: str) -> bool:
    """Return whether a fault has not been yet; from now on it has."""
    try:
        Path(os.environ["NIGHT_PLACE"], f"fault of {fault}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


if FAULTS & {"enqueue", "answer"}:
    lose_answer_of_enqueue()
