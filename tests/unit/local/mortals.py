"""Workers with an output that are killed, one after another: ``mortals.py PLACE KILLS SEED``.

Each is forked from this process, which has imported everything and opened nothing, so that a life
takes a moment to begin. It enqueues some items, and works the queue off until it kills itself at a
moment that was drawn, is killed, or ends. The last one works off what is left.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from spark_queue import LocalQueue, QueueConfig, RetryPolicy
from spark_queue.log.disk import append_files
from spark_queue.log.output.outputs import ResultTable
from spark_queue.processing import claim_parts, loop

RETURNS = "twice bigint, who string"

#: How many work at the same time, how many items each brings, and how long they are held.
_WORKERS, _ITEMS, _LEASE = 2, 12, timedelta(seconds=0.6)

#: Seconds after which a worker is killed at the latest.
_LONGEST = 3.0

#: What the libraries import when they are first used: once, before the first life.
_LATER = ("deltalake.fs.fs_handler", "pyarrow.acero", "pyarrow.dataset", "zoneinfo")

_fork = multiprocessing.get_context("fork")


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _dying(owner: Any, name: str, *, before: bool) -> Callable[[int], None]:
    """Return what has a process kill itself at a call of a function, before or behind it."""

    def install(nth: int) -> None:
        was, left = getattr(owner, name), [nth]

        def call(*args: Any, **named: Any) -> Any:
            left[0] -= 1
            if before and left[0] == 0:
                _die()
            answer = was(*args, **named)
            if not before and left[0] == 0:
                _die()
            return answer

        setattr(owner, name, call)

    return install


def _silent(_: int) -> None:
    """Let a worker be late: it renews nothing, and somebody takes over from it."""
    setattr(claim_parts, "_renew", lambda *_: None)  # noqa: B010 - its own


#: Where a worker can come to its end, and how often it comes there.
MOMENTS: dict[str, tuple[Callable[[int], None], int]] = {
    "output not begun": (_dying(ResultTable, "write", before=True), 3),
    "file written": (_dying(append_files.Appending, "written", before=False), 20),
    "commit written": (_dying(os, "link", before=True), 20),
    "commit made": (_dying(os, "link", before=False), 20),
    "commit made in output": (_dying(ResultTable, "_commit", before=False), 3),
    "output written": (_dying(ResultTable, "write", before=False), 3),
    "output shut": (_dying(ResultTable, "shut_out", before=False), 1),
    "settled": (_dying(loop._Ahead, "settle", before=False), 3),
    "late": (_silent, 1),
}


def live(place: Path, number: int, seed: int, moment: str | None) -> None:
    """Work the queue off, until the end that was drawn."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    queue = LocalQueue.open(place / "queue", durability="process")
    new = [{"id": 1000 * number + at, "grp": f"g{at % 5}"} for at in range(_ITEMS)]
    queue.enqueue(new)
    slow = 0.0
    if moment is not None:
        install, most = MOMENTS[moment]
        install(rng.randint(1, most))
        slow = 0.5 if moment == "late" else 0.0
    work(queue, place, rng, slow)


def work(queue: LocalQueue, place: Path, rng: random.Random, slow: float = 0.0) -> None:
    """Work the queue off; it may wait for others, whose leases end soon."""

    def handle(item: dict[str, Any]) -> dict[str, Any]:
        time.sleep(slow)
        return {"twice": 2 * item["id"], "who": str(os.getpid())}

    queue.process(
        handle,
        limit=rng.randint(1, 8),
        lease=_LEASE,
        returns=RETURNS,
        output=str(place / "out"),
        using=rng.choice(["threads", "processes"]),
        max_workers=2,
    )


def drain(place: Path) -> None:
    """Work off what is left."""
    queue = LocalQueue.open(place / "queue", durability="process")
    until = time.monotonic() + 60
    while queue.counts()["ready"] + queue.counts()["claimed"] and time.monotonic() < until:
        work(queue, place, random.Random(0))  # noqa: S311 - no secret
        time.sleep(0.1)


def main(place: Path, kills: int, seed: int) -> None:
    """Have workers until so many were killed; print at which moments."""
    for name in _LATER:
        import_module(name)
    rng = random.Random(seed)  # noqa: S311 - no secret
    _run(_make, place)
    killed: Counter[str] = Counter()
    living: list[tuple[BaseProcess, str, float]] = []
    number = 0
    while killed.total() < kills:
        while len(living) < _WORKERS:
            number += 1
            moment = rng.choice(["any", *MOMENTS])
            life = (place, number, rng.random(), None if moment == "any" else moment)
            process: BaseProcess = _fork.Process(target=live, args=life)
            process.start()
            patience = rng.uniform(0.05, 1.0) if moment == "any" else _LONGEST
            living.append((process, moment, time.monotonic() + patience))
        living = [one for one in living if not _is_over(one, killed)]
        time.sleep(0.005)
    for process, *_ in living:
        process.kill()
        process.join()
    _run(drain, place)
    sys.stdout.write(json.dumps({"killed": killed, "lives": number}))


def _is_over(life: tuple[BaseProcess, str, float], killed: Counter[str]) -> bool:
    process, moment, until = life
    if process.is_alive() and time.monotonic() < until:
        return False
    process.kill()
    process.join()
    if process.exitcode == -signal.SIGKILL:
        killed[moment] += 1
    elif process.exitcode:
        raise RuntimeError(f"a worker ({moment}) ended with {process.exitcode}")
    return True


def _make(place: Path) -> None:
    config = QueueConfig(
        dedup_key="id", dedup_scope="forever", group_key="grp", max_losses=None,
        retry=RetryPolicy(delay=timedelta(0)),
    )  # fmt: skip
    LocalQueue.create(place / "queue", "id long, grp string", config, durability="process")


def _run(target: Callable[..., None], *arguments: object) -> None:
    process = _fork.Process(target=target, args=arguments)
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"{target.__name__} ended with {process.exitcode}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
