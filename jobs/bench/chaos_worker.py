"""A process that works with a queue until it is killed, and writes down what it was told."""

from __future__ import annotations

import json
import os
import random
import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

import chaos_flow
import chaos_moments
import spark_queue
from chaos_moments import Doom
from spark_queue import EnqueueResult, LeaseLostError, LocalQueue
from spark_queue.log import maintenance
from spark_queue.log.delta_log import DeltaLog
from spark_queue.log.disk import liveness
from spark_queue.log.disk.leftover_files import Ages
from spark_queue.log.step_events import LogName
from spark_queue.queue_views import store_of
from spark_queue.saying import Settlement

#: Groups of items; a group has one fair key and one priority, so that its order is that of entry.
GROUPS = 8

#: Keys that many processes put.
_SHARED = 300

_SAID = ("ack", "nack", "release")

#: What nobody has committed goes at once, and what was replaced when the table forgets it.
_AGES = Ages(ours=0.0, others=0.0, most=float("inf"))

#: Seconds until the next look at what waits.
_PAUSE = 0.05

#: What becomes of a claim, and how often.
_ENDS = {"ack": 60, "each": 20, "nack": 10, "release": 10}


class Told:
    """The log of one process: a line before each call and one after it."""

    def __init__(self, place: Path, life: int) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._file = os.open(place / f"{life}.jsonl", flags, 0o666)
        self._life = life

    def tell(self, what: str, **more: object) -> None:
        """Add a line."""
        line = {"what": what, "life": self._life, "at": time.monotonic_ns(), **more}
        os.write(self._file, f"{json.dumps(line)}\n".encode())


class Worker:
    """One life.

    Parameters
    ----------
    queue : LocalQueue or DeltaQueue
        The queue.
    told : Told
        Where it is written down.
    name : str
        What its keys begin with.
    rng : random.Random
        Decides what it does.
    """

    recovers = True
    """Whether its claims settle what the dead have held."""

    def __init__(self, queue: Any, told: Told, name: str, rng: random.Random) -> None:
        self._queue = queue
        self._told, self._name, self._rng = told, name, rng
        self._made = 0
        told.tell("life", name=liveness.mine(Path(queue.name) / "status"))

    def work(self, *, tidies: bool) -> NoReturn:
        """Go on for ever.

        Parameters
        ----------
        tidies : bool
            Whether it merges and sweeps the files of the logs more often than others do.
        """
        acts = {self._put: 35, self._serve: 65, self._compact: 40 if tidies else 4}
        while True:
            (act,) = self._rng.choices(list(acts), list(acts.values()))
            act()

    def drain(self) -> None:
        """Work off what there is."""
        while any(self._queue.counts()[state] for state in ("ready", "claimed")):
            claim = self._claim(limit=500, run=500)
            if claim is None:
                # What lacks units of a rate waits for them.
                time.sleep(_PAUSE)
            else:
                self._settle(claim, dict.fromkeys(self.seqs(claim), "ack"))
        # Nothing is left behind of those who were killed.
        self._compact()
        self._told.tell("drained", counts=self._queue.counts())

    def _put(self) -> None:
        rows = [self._item() for _ in range(self._rng.randrange(1, 12))]
        keys = [row["k"] for row in rows]
        self._told.tell("put?", keys=keys)
        done = self.enqueue(rows)
        counts = {"inserted": done.inserted, "duplicates": done.duplicates}
        self._told.tell("put", keys=keys, step=done.step, **counts)

    def _item(self) -> dict[str, Any]:
        self._made += 1
        is_shared = self._rng.random() < 0.1  # noqa: PLR2004 - one of ten
        key = f"all-{self._rng.randrange(_SHARED)}" if is_shared else f"{self._name}-{self._made}"
        group = self._rng.randrange(GROUPS + 2)
        name = f"g{group}" if group < GROUPS else None
        host = f"h{int(chaos_flow.HOSTS * self._rng.random() ** 3)}"
        return {"k": key, "g": name, "t": f"t{group % 3}", "p": group % 2, "h": host}

    def _serve(self) -> None:
        claim = self._claim(limit=self._rng.randrange(1, 5), run=self._rng.randrange(1, 3))
        if claim is None:
            return
        if self._rng.random() < 0.15:  # noqa: PLR2004 - now and then
            self._renew(claim)
        (end,) = self._rng.choices(list(_ENDS), list(_ENDS.values()))
        draw = self._rng.choice
        said = {seq: draw(_SAID) if end == "each" else end for seq in self.seqs(claim)}
        self._settle(claim, said)

    def _claim(self, limit: int, run: int) -> Any:
        self._told.tell("claim?")
        claim = self._queue.claim(limit, run=run)
        if not claim.count:
            return None
        facts = {"seqs": self.seqs(claim), "recovers": self.recovers}
        self._told.tell("claim", lease=claim.lease, step=claim.lease, **facts)
        return claim

    def _renew(self, claim: Any) -> None:
        self._told.tell("renew?", lease=claim.lease)
        try:
            claim.renew()
        except LeaseLostError as error:
            self._told.tell("lost", lease=claim.lease, error=str(error))
        else:
            self._told.tell("renew", lease=claim.lease)

    def _settle(self, claim: Any, said: dict[int, str]) -> None:
        self._told.tell("settle?", lease=claim.lease, said=said)
        try:
            done = claim.settle_each(said) if len(set(said.values())) > 1 else _all(claim, said)
        except LeaseLostError as error:
            self._told.tell("lost", lease=claim.lease, error=str(error))
        else:
            self._told.tell("settle", lease=claim.lease, said=said, step=done.step)

    def _compact(self) -> None:
        """Merge small files, as whoever keeps a queue in order does."""
        for which in self.logs:
            self._told.tell("compact?", log=which)
            self.compact(which)
            self._told.tell("compact", log=which)

    # What another kind of process does in another way

    logs: tuple[LogName, ...] = ("queue", "status")
    """What is merged, one after the other."""

    def enqueue(self, rows: list[dict[str, Any]]) -> EnqueueResult[Any]:
        """Put rows."""
        result: EnqueueResult[Any] = self._queue.enqueue(rows)
        return result

    def seqs(self, claim: Any) -> list[int]:
        """Return what a claim has."""
        return [row["_seq"] for row in claim.rows]

    def compact(self, which: LogName) -> None:
        """Merge the small files of a log."""
        log = store_of(self._queue).native(which)
        if isinstance(log, DeltaLog):
            maintenance.tidy(log, _AGES)


def live(place: Path, life: int, seed: int, doom: Doom | None, ready: Connection) -> None:
    """Say when it begins, and work until killed; what should not happen is written down."""
    told, rng = Told(place / "told", life), random.Random(seed)  # noqa: S311 - to be repeatable
    if doom is not None:
        chaos_moments.install(doom, rng)
    try:
        worker = Worker(_opened(place), told, str(life), rng)
        ready.send_bytes(b"!")
        worker.work(tidies=doom is not None and doom.moment in chaos_moments.UPKEEP)
    except BaseException:  # noqa: BLE001 - whatever it is, it is the finding
        told.tell("raised", error=traceback.format_exc())


def drain(place: Path, life: int) -> None:
    """Work off, in peace, what all others have left."""
    told = Told(place / "told", life)
    try:
        Worker(_opened(place), told, "drain", random.Random(0)).drain()  # noqa: S311
    except BaseException:  # noqa: BLE001 - as above
        told.tell("raised", error=traceback.format_exc())


def _opened(place: Path) -> LocalQueue:
    return spark_queue.open(place / "queue", durability="process")


def _all(claim: Any, said: dict[int, str]) -> Settlement:
    """Settle all items in one way."""
    (outcome,) = set(said.values())
    if outcome == "nack":
        done: Settlement = claim.nack("no")
    else:
        done = claim.ack() if outcome == "ack" else claim.release()
    return done
