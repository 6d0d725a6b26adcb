"""Verbs of a queue in children of a fork: ``forked.py PLACE [unused]``.

The process opens queues and fronts, uses them unless it is told not to, and forks a child for each
verb. It prints what became of each: nothing hangs longer than a child may live.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import spark_queue
from spark_queue import DurableQueue, LocalQueue, journaled_queue
from spark_queue.log import maintenance

#: Seconds that a child may take.
_LIFE = 30

Verbs = dict[str, Callable[[], object]]


def in_child(verb: Callable[[], object]) -> str:
    """Return what became of a verb in a child: its error, ``ok`` or that it was killed."""
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(_LIFE)
        try:
            verb()
            answer = "ok"
        except BaseException as exc:  # noqa: BLE001 - all of them are told
            answer = f"{type(exc).__name__}: {exc}"
        os.write(sink, answer.encode())
        os._exit(0)
    os.close(sink)
    with os.fdopen(source) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer or "killed"


def verbs_of(queue: LocalQueue, place: Path) -> Verbs:
    """Return verbs of a queue, each of which may run in a child."""
    held, other = queue.claim(1), queue.claim(1)
    where = {"id": "9"}
    return {
        "counts": queue.counts,
        "status": queue.status,
        "history": lambda: queue.history(1),
        "dead": queue.dead,
        "explain": lambda: queue.explain(9),
        "report": queue.report,
        "report_item": lambda: queue.report_item(1),
        "stats": queue.stats,
        "doctor": queue.doctor,
        "readers": queue.readers,
        "enqueue": lambda: queue.enqueue({"id": f"of {os.getpid()}"}),
        "claim": lambda: queue.claim(1).rows,
        "wait": lambda: queue.claim(1, wait=timedelta(milliseconds=10)).ack(),
        "ack": held.ack,
        "renew": lambda: other.renew(timedelta(minutes=1)),
        "process": lambda: queue.process(print, limit=1),
        "apart": lambda: queue.process(print, limit=1, using="processes"),
        "output": lambda: queue.process(
            lambda _: {"n": 1}, returns="n int", output=str(place / "out"), limit=1
        ),
        "pause": queue.pause,
        "resume": queue.resume,
        "configure": lambda: queue.configure(max_attempts=4),
        "cancel": lambda: queue.cancel(where),
        "redrive": lambda: queue.redrive(where),
        "purge": lambda: queue.purge(where),
        "maintain": queue.maintain,
        "upgrade": queue.upgrade,
        "reader": lambda: queue.reader("r").claim(1).rows,
        "clone": lambda: queue.clone(place / "clone"),
        "drop": lambda: LocalQueue.drop(queue.name, dry_run=True),
        "open": lambda: spark_queue.open(queue.name).status(),
        "create": lambda: LocalQueue.create(place / f"new {os.getpid()}", "id string"),
        "front": lambda: DurableQueue(queue).close(),
        "journal": lambda: journaled_queue(queue).close(),
    }


def verbs_of_fronts(place: Path) -> Verbs:
    """Return verbs of fronts whose threads are in the parent."""
    front = DurableQueue(_made(place / "single", "id string"))
    for name in ("a", "b"):
        front.put({"id": name}).result(60)
    delivery = front.get(timeout=60)
    journal: Any = journaled_queue(_made(place / "journal", "data binary"))
    journal.put(b"a").result(60)
    journal.put(b"b").result(60)
    reader = journal.reader()
    read = reader.get(timeout=60)
    return {
        "front.put": lambda: front.put({"id": "c"}).result(),
        "front.put_many": lambda: front.put_many([{"id": "c"}]),
        "front.get": front.get,
        "front.look": lambda: front.get(timeout=0),
        "front.ack": lambda: front.ack(delivery).result(),
        "front.nack": lambda: front.nack(delivery, "error").result(),
        "front.sync": front.sync,
        "journal.put": lambda: journal.put(b"c").result(),
        "journal.lazy": lambda: journal.put(b"c", durability="memory").result(),
        "journal.journal_reader": lambda: journal.reader("new"),
        "journal.get": reader.get,
        "journal.look": reader.get_nowait,
        "journal.ack": lambda: reader.ack(read),
        "journal.nack": lambda: reader.nack(read),
        "journal.flush": journal.flush,
        "journal.sync": journal.sync,
        "journal.checkpoint": journal.checkpoint,
        "journal.erase": journal.erase,
        "journal.stats": journal.stats,
        "front.close": front.close,
        "journal.close": journal.close,
    }


def upkeep(queue: LocalQueue) -> list[str]:
    """Return what a child logs that makes so many steps that its log is to be summed up."""
    said: list[str] = []

    def steps() -> None:
        handler = logging.Handler(logging.WARNING)
        handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
        logging.getLogger("spark_queue").addHandler(handler)
        for number in range(120):
            queue.enqueue({"id": f"upkeep {number}"})
        maintenance.wait(10)
        raise RuntimeError(json.dumps(said))

    told: list[str] = json.loads(in_child(steps).removeprefix("RuntimeError: "))
    return told


def main(place: Path, *, is_used: bool) -> None:
    """Fork for each verb, and print what became of it."""
    warnings.simplefilter("ignore", DeprecationWarning)
    if not is_used:
        sys.stdout.write("\n" + json.dumps({"unused": in_child(lambda: in_other(place))}))
        return
    queue = _made(place / "queue", "id string")
    queue.enqueue([{"id": str(number)} for number in range(20)])
    told: dict[str, object] = {"upkeep": upkeep(queue)}
    for look in (queue.status, queue.report, queue.doctor, queue.counts):
        look()
    queue.maintain()
    queue.status()
    verbs = {**verbs_of(queue, place), **verbs_of_fronts(place)}
    told |= {name: in_child(verb) for name, verb in verbs.items()}
    told["parent"] = queue.enqueue({"id": "of the parent"}).inserted
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
    # What the fronts hold is not settled by a regular end.
    os._exit(0)


def _made(place: Path, schema: str) -> LocalQueue:
    return LocalQueue.create(place, schema, durability="process")


def in_other(place: Path) -> None:
    """Use a queue in a child whose parent has used nothing."""
    queue = _made(place / "queue", "id string")
    queue.enqueue({"id": "a"})
    queue.pause()
    queue.report()
    queue.maintain()
    with DurableQueue(spark_queue.open(queue.name)) as front:
        front.put({"id": "b"}).result(20)


if __name__ == "__main__":
    main(Path(sys.argv[1]), is_used="unused" not in sys.argv)
