"""Workers of a queue that kill themselves at named points of ``process``.

As a program it reads a job from each line, forks a worker for it, and answers with its exit code.
It has imported everything, so that a worker begins in milliseconds. With a gateway, a worker uses
the JVM of somebody else, which outlives it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from spark_queue import LocalQueue, QueueConfig, Reject, RetryPolicy
from spark_queue.commands import admin

RETURNS = "id bigint"

_HANDS = {
    "without Spark": "spark_queue.processing.local_processing LocalHands",
    "Spark": "spark_queue.processing.worker SparkHands",
}
_OUTPUT = {
    "without Spark": "spark_queue.log.output.outputs ResultTable",
    "Spark": "spark_queue.commands.evidence Output",
}
_RUN = {**_HANDS, "without Spark": "spark_queue.processing.local_processing"}
_LOOP = dict.fromkeys(_HANDS, "spark_queue.processing.loop")
_AHEAD = dict.fromkeys(_HANDS, "spark_queue.processing.loop _Ahead")
_RECOVERY = dict.fromkeys(_HANDS, "spark_queue.commands.recovery")
_CHECKPOINT = dict.fromkeys(_HANDS, "spark_queue.commands.admin")
_FORWARD = dict.fromkeys(_HANDS, "spark_queue.commands.forward_items")

#: Each point: where the function is for each runner, its name, the kill before or behind its call,
#: and at which call.
POINTS: dict[str, tuple[dict[str, str], str, str, int]] = {
    "dead holders are recovered": (_RECOVERY, "recover", "behind", 1),
    "a checkpoint begins": (_CHECKPOINT, "checkpoint", "before", 1),
    "a checkpoint is there": (_CHECKPOINT, "checkpoint", "behind", 1),
    "a claim begins": (_LOOP, "make_claim", "before", 1),
    "a claim is made": (_LOOP, "make_claim", "behind", 1),
    "a handler runs": ({}, "", "", 3),
    "handlers have run": (_RUN, "_write", "before", 1),
    "the output begins": (_OUTPUT, "write", "before", 1),
    "the output is committed": (_OUTPUT, "_commit", "behind", 1),
    "the output is written": (_OUTPUT, "write", "behind", 1),
    "the handler is done": (_HANDS, "work", "behind", 1),
    "the outcomes are known": (_HANDS, "tell", "behind", 1),
    "the settle begins": (_AHEAD, "settle", "before", 1),
    "the settle is there": (_AHEAD, "settle", "behind", 1),
    "nothing is left to forward": (_FORWARD, "forward", "behind", 2),
    "the settle is told": (_HANDS, "after_settle", "behind", 1),
    "the claim is told": ({}, "", "", 1),
    "the next claim is taken": (_AHEAD, "take", "behind", 2),
    "the next output is committed": (_OUTPUT, "_commit", "behind", 2),
    "the next settle begins": (_AHEAD, "settle", "before", 2),
}

#: Points of a rescuer, which takes over where the output of a dead worker is committed.
RESCUES: dict[str, tuple[dict[str, str], str, str, int]] = {
    "the output is shut": (_OUTPUT, "shut_out", "behind", 1),
    "the rescue begins": (_RECOVERY, "_settle", "before", 1),
    "the rescue is there": (_RECOVERY, "_settle", "behind", 1),
}

_SETTLE = dict.fromkeys(_HANDS, "spark_queue.commands.settle")
_PARTS = dict.fromkeys(_HANDS, "spark_queue.processing.claim_parts ClaimParts")

#: Points of a claim that is written and settled in three parts: see :func:`work`.
PARTS: dict[str, tuple[dict[str, str], str, str, int]] = {
    "part 1 begins": (_OUTPUT, "write_part", "before", 1),
    "part 1 is committed": (_OUTPUT, "_commit", "behind", 1),
    "the settle of part 1 begins": (_SETTLE, "settle", "before", 1),
    "part 1 is settled": (_SETTLE, "settle", "behind", 1),
    "part 1 is renewed": (_PARTS, "_renew", "behind", 1),
    "part 2 begins": (_OUTPUT, "write_part", "before", 2),
    "part 2 is committed": (_OUTPUT, "_commit", "behind", 2),
    "part 3 is committed": (_OUTPUT, "_commit", "behind", 3),
    "the settle of part 3 begins": (_AHEAD, "settle", "before", 1),
    "part 3 is settled": (_AHEAD, "settle", "behind", 1),
}

#: Items whose handler waits until what was done before it is settled.
_WAITS = (4, 9)

#: Items of each group in order, and what their handlers do.
ITEMS = {
    1: ("a", "nothing"), 2: ("a", "row"), 3: ("a", "row"),
    4: ("b", "reject"), 5: ("b", "row"), 6: ("b", "nothing"),
    7: ("c", "fail once"), 8: ("c", "row"), 9: ("c", "row"),
    10: (None, "row"), 11: (None, "nothing"), 12: (None, "fail once"),
}  # fmt: skip


#: Before and behind each commit of a run without Spark: a claim, an output, a settle.
COMMITS: dict[str, tuple[dict[str, str], str, str, int]] = {
    f"{when} commit {nth}": ({"without Spark": "os"}, "link", when, nth)
    for nth in range(1, 8)
    for when in ("before", "behind")
}


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call of a handler."""

    who: str
    id: int
    attempts: int
    lease: int


def make(place: str, on_failure: Any, group_limit: int = 1) -> None:
    """Make a queue of the items, and an empty place for its output."""
    config = QueueConfig(
        group_key="grp", on_failure=on_failure, group_limit=group_limit, max_losses=None,
        retry=RetryPolicy(delay=timedelta(0)),
    )  # fmt: skip
    queue = LocalQueue.create(f"{place}/queue", "id long, grp string", config, durability="process")
    queue.enqueue([{"id": number, "grp": group} for number, (group, _) in ITEMS.items()])


def work(
    queue: Any, place: str, who: str, driver: int = 0, told: Any = None, *, parts: bool = False
) -> Any:
    """Work the queue off; with a driver, that is killed by the third call. A claim may have parts.

    Of these there are three: two handlers wait until what came before them is settled.
    """
    items, most, log = ITEMS, POINTS["a handler runs"][3], f"{place}/calls"
    # What is sent to executors must not have the queue in it.
    waits = dict.fromkeys(_WAITS, lambda: _await_settle(queue)) if parts else {}
    options = {"limit": 12, "lease": timedelta(seconds=0.6)} if parts else {"limit": 7}

    def handle(item: dict[str, Any]) -> dict[str, Any] | None:
        number, attempts = item["id"], item["_attempts"]
        line = json.dumps({"who": who, "id": number, "attempts": attempts, "lease": item["_lease"]})
        with open(log, "a") as file:  # noqa: PTH123 - it is sent to executors
            file.write(f"{line}\n")
        if driver and len(open(log).readlines()) >= most:  # noqa: PTH123, SIM115
            os.kill(driver, signal.SIGKILL)
            os._exit(9)
        if number in waits:
            waits[number]()
        does = items[number][1]
        if does == "reject":
            raise Reject("never")
        if does == "fail once" and attempts == 0:
            raise ValueError("the first time")
        return None if does == "nothing" else {"id": number}

    return queue.process(handle, returns=RETURNS, output=f"{place}/out", on_claim=told, **options)


def _await_settle(queue: Any) -> None:
    left = queue.counts()["claimed"]
    while queue.counts()["claimed"] == left:
        time.sleep(0.01)


def calls(place: str) -> list[Call]:
    """Return the calls of all handlers, as they began."""
    log = Path(place) / "calls"
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return [Call(**json.loads(line)) for line in lines]


def require_law(
    place: str, states: dict[int, tuple[str, int]], *, in_order: bool, is_whole: bool = True
) -> None:
    """Assert what holds when a rescuer has worked the queue off, wherever the first was killed.

    ``states`` has the state and the failed attempts of each item. A claim that is written whole is
    decided with its output.
    """
    rows = DeltaTable(f"{place}/out").to_pyarrow_table().to_pylist()
    with_row = [number for number, (_, does) in ITEMS.items() if does in ("row", "fail once")]
    assert sorted(row["id"] for row in rows) == with_row
    assert states == {
        number: ("dead" if does == "reject" else "acked", int(does == "fail once"))
        for number, (_, does) in ITEMS.items()
    }
    made = calls(place)
    last = {call.id: at for at, call in enumerate(made)}
    for group in ("a", "b", "c") if in_order else ("a", "b"):
        places = [last[number] for number, (its, _) in ITEMS.items() if its == group]
        assert places == sorted(places), f"group {group} is out of order: {made}"
    if is_whole:
        # Of a row's item the last call is that of the claim which wrote it.
        _require_decided_once(made, {made[last[row["id"]]].lease for row in rows})


def _require_decided_once(made: list[Call], written: set[int]) -> None:
    """Assert that no item ran again that was decided in a run whose output is there."""
    for at, call in enumerate(made):
        if call.lease in written:
            again = [(one.id, one.attempts) for one in made[at + 1 :]]
            assert (call.id, call.attempts) not in again, f"{call} ran again: {made}"


class Workers:
    """The program, which starts workers that kill themselves."""

    def __init__(self, **environment: str) -> None:
        self._program = subprocess.Popen(  # noqa: S603 - our own script
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, **environment},
        )  # fmt: skip

    def kill_at(self, point: str, place: str, runner: str) -> None:
        """Have a worker work a queue off until it kills itself at a point."""
        job = {"point": point, "place": place, "runner": runner}
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.write(f"{json.dumps(job)}\n")
        self._program.stdin.flush()
        assert self._program.stdout.readline().strip() == "-9"

    def end(self) -> None:
        """End the program."""
        self._program.communicate()


def _install(point: str, runner: str) -> None:
    """Have this process kill itself at a point."""
    where, name, when, nth = {**POINTS, **RESCUES, **COMMITS, **PARTS}[point]
    if not where:
        return
    module, _, inner = where[runner].partition(" ")
    owner: Any = import_module(module)
    owner = getattr(owner, inner) if inner else owner
    was, left = getattr(owner, name), [nth]

    def call(*args: Any, **named: Any) -> Any:
        left[0] -= 1
        if when == "before" and left[0] == 0:
            _die()
        answer = was(*args, **named)
        if when == "behind" and left[0] == 0:
            _die()
        return answer

    setattr(owner, name, call)
    if name == "checkpoint":
        admin.LONG_FOLD, admin._CLAIMS = 1, 0


def _die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _live(point: str, place: str, runner: str) -> None:
    """Be a worker."""
    queue = _opened(place, runner)
    _install(point, runner)
    driver = os.getpid() if point == "a handler runs" else 0
    told = _die if point == "the claim is told" else None
    work(queue, place, "first", driver, told, parts=point in PARTS)


def _opened(place: str, runner: str) -> Any:
    if runner == "without Spark":
        return LocalQueue.open(f"{place}/queue", durability="process")
    from spark_queue import DeltaQueue  # noqa: PLC0415 - not without Spark

    return DeltaQueue.open(_session(), f"{place}/queue")


def _session() -> Any:
    """Return a session of the JVM, or the server, that the environment names."""
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - not without Spark
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    if (server := os.environ.get("SPARK_REMOTE")) is not None:
        return SparkSession.builder.remote(server).getOrCreate()
    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    jvm = gateway.jvm
    SparkContext._ensure_initialized(gateway=gateway)
    shared = jvm.org.apache.spark.SparkContext.getOrCreate()
    jsc = jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(shared)
    context = SparkContext(gateway=gateway, jsc=jsc, conf=SparkConf(_jconf=shared.conf()))
    return SparkSession(context)


def main() -> None:
    """Fork a worker for each line, and say how it ended."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                _live(**json.loads(line))
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
