"""Histories whose system calls are recorded, each told step by step."""

from __future__ import annotations

import json
import os
import sys
import zipfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from spark_queue import LocalQueue, QueueConfig, Reject, journaled_queue
from spark_queue.inprocess import WriteAheadLog
from spark_queue.log.delta import table_creation
from spark_queue.log.step_events import StepFacts

_GOLDEN = Path(__file__).parents[2] / "tests" / "data" / "queues-of-format-2.zip"

#: Seconds until a front has written what it was given.
_PATIENCE = 60.0


class Teller:
    """Tells what a caller of the library has been told, as one line each.

    Parameters
    ----------
    root : Path
        Where the history happens.
    told : Path
        The file of the lines.
    """

    def __init__(self, root: Path, told: Path) -> None:
        self.root = root
        self._file = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def say(self, **facts: Any) -> None:
        """Tell one line."""
        os.write(self._file, json.dumps(facts).encode() + b"\n")

    def step(self, facts: StepFacts) -> None:
        """Tell a step; a listener of a queue."""
        queue = str(Path(facts.queue).relative_to(self.root))
        self.say(queue=queue, log=facts.log, reader=facts.reader, step=facts.step)

    def states(self, queue: LocalQueue, *, is_one_step: bool = True) -> None:
        """Tell where all items of a queue are."""
        path = str(Path(queue.name).relative_to(self.root))
        self.say(queue=path, states=states_of(queue), is_one_step=is_one_step)


def states_of(queue: LocalQueue) -> dict[str, str]:
    """Return the state of each item, by its seq, as the first reader has it."""
    seen = queue.reader("first") if "first" in queue.readers() else queue
    rows = seen.status().select(["_seq", "_state"]).to_pylist()
    return {str(row["_seq"]): row["_state"] for row in rows}


def make(teller: Teller, path: str, **settings: Any) -> LocalQueue:
    """Make a queue, and tell it."""
    config = QueueConfig(**settings)
    queue = LocalQueue.create(teller.root / path, "id string, n long", config, listener=teller.step)
    teller.states(queue)
    return queue


def _rows(*names: str) -> list[dict[str, Any]]:
    return [{"id": name, "n": 1} for name in names]


def small_steps(teller: Teller) -> None:
    """Enqueue, claim, settle in each way, pause, and read twice: a queue below new directories."""
    queue = make(teller, "made/above/queue", dedup_key="id", max_attempts=2)
    verbs: list[Callable[[], object]] = [
        lambda: queue.enqueue(_rows("a", "b", "c", "d")),
        lambda: queue.claim(1).ack(),
        lambda: queue.claim(1).nack("once"),
        lambda: queue.claim(1).dead("never"),
        lambda: queue.cancel({"id": "d"}),
        queue.pause,
        queue.resume,
        lambda: queue.enqueue(_rows("e", "a")),
        lambda: queue.reader("first"),
        lambda: queue.reader("second", start="beginning").claim(2).ack(),
    ]
    for verb in verbs:
        verb()
        # A claim and its settle are two steps.
        teller.states(queue, is_one_step=False)


def handle_item(item: dict[str, Any]) -> dict[str, Any] | None:
    """Return a row, or none, or fail: by the item's name."""
    if item["id"].startswith("r"):
        raise Reject("not this one")
    if item["id"].startswith("f") and item["_attempts"] == 1:
        raise ValueError("not yet")
    return None if item["id"].startswith("n") else {"who": item["id"]}


def process(teller: Teller) -> None:
    """Work a queue with groups off, into an output."""
    queue = make(teller, "queue", group_key="n")
    for names in (("a", "r1", "b", "n1"), ("c", "f1", "d"), ("e",)):
        queue.enqueue(_rows(*names))
        teller.states(queue, is_one_step=False)
        work(queue, teller.root)
        teller.states(queue, is_one_step=False)


def work(queue: LocalQueue, root: Path) -> None:
    """Work a queue off, with an output below a new directory."""
    out = str(root / "results" / "out")
    queue.process(handle_item, returns="who string", output=out, limit=3, time_limit=None)


def upkeep(teller: Teller) -> None:
    """Keep a queue quick: sum its logs up, merge and purge them."""
    _sum_up_often()
    queue = make(teller, "queue")
    for at in range(5):
        queue.enqueue(_rows(*(f"{at}{name}" for name in "ab")))
        queue.claim(1).ack()
    teller.states(queue, is_one_step=False)
    queue.maintain()
    teller.states(queue, is_one_step=False)
    queue.purge({"id": "0a"})
    teller.states(queue)
    queue.claim(2).ack()
    queue.maintain(retention=timedelta(milliseconds=1))
    teller.states(queue, is_one_step=False)
    queue.enqueue(_rows("z"))
    teller.states(queue)
    queue.close()


def _sum_up_often() -> None:
    """Have logs summed up after six commits, not a hundred, and older commits removed at once."""
    create = table_creation.create

    def often(session: Any, directory: Path, schema: str, properties: dict[str, str]) -> bool:
        more = {"delta.checkpointInterval": "6", "delta.logRetentionDuration": "interval 0 seconds"}
        return create(session, directory, schema, {**properties, **more})

    vars(table_creation)["create"] = often


def clone(teller: Teller) -> None:
    """Clone a queue with an item in flight into a new directory."""
    queue = make(teller, "queue")
    queue.enqueue(_rows("a", "b", "c"))
    queue.claim(1).ack()
    queue.claim(1)
    teller.states(queue, is_one_step=False)
    other = queue.clone(teller.root / "new" / "clone")
    teller.states(other)
    other.enqueue(_rows("d"))
    teller.states(other)


def upgrade(teller: Teller) -> None:
    """Upgrade a queue of an older format, and work with it."""
    queue = LocalQueue.open(teller.root / "strings", listener=teller.step)
    teller.states(queue)
    queue.upgrade()
    teller.states(queue)
    queue.enqueue([{"path": "new", "tenant": "t", "folder": "f"}])
    teller.states(queue)


def drop(teller: Teller) -> None:
    """Drop a queue with two readers and an item in flight, and make another one in its place."""
    queue = make(teller, "queue")
    first, _ = queue.reader("first"), queue.reader("second")
    queue.enqueue(_rows("a"))
    first.claim(1)
    teller.states(queue, is_one_step=False)
    LocalQueue.drop(queue.name)
    teller.say(queue="queue", dropped=True)
    make(teller, "queue")


def journal(teller: Teller) -> None:
    """Put and ack items of a journaled queue, by ones and by several."""
    queue = LocalQueue.create(teller.root / "queue", "data string", listener=teller.step)
    front = journaled_queue(queue)
    reader = front.reader("")
    for at in range(6):
        front.put(f"one {at}").result(_PATIENCE)
        teller.say(put=[f"one {at}"])
        if at % 2:
            done = reader.get(timeout=0)
            reader.ack(done)
            front.sync()
            teller.say(acked=[done.item])
    front.put_many([f"some {at}" for at in range(3)])
    front.sync()
    teller.say(put=[f"some {at}" for at in range(3)])
    front.checkpoint()
    front.close()


def records(teller: Teller) -> None:
    """Append to a write-ahead log, and open it again."""
    for begin in (0, 8):
        with WriteAheadLog[str](teller.root / "log") as opened:
            for at in range(begin, begin + 8):
                opened.append(f"{at} " + "x" * (at * 97))
                teller.say(records=at + 1)


#: The histories, by their names.
HISTORIES: dict[str, Callable[[Teller], None]] = {
    "small steps": small_steps,
    "process": process,
    "upkeep": upkeep,
    "clone": clone,
    "upgrade": upgrade,
    "drop": drop,
    "journal": journal,
    "records": records,
}


def prepare(name: str, root: Path) -> None:
    """Lay what a history begins with, and is on the disk by then."""
    root.mkdir(parents=True)
    if name == "upgrade":
        with zipfile.ZipFile(_GOLDEN) as packed:
            packed.extractall(root)


if __name__ == "__main__":
    HISTORIES[sys.argv[1]](Teller(Path(sys.argv[2]), Path(sys.argv[3])))
