"""Random histories of a queue, each the same whenever its seed is: what it is, and what is done."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from spark_queue import DeltaQueue, QueueConfig, ReaderConfig, RetryPolicy
from spark_queue.claim import Claim
from spark_queue.clock import ManualClock
from spark_queue.commands.claims import settle_and_claim
from spark_queue.commands.readers import Start
from spark_queue.config import OnDuplicate
from spark_queue.errors import DuplicateItemError, LeaseLostError, ReaderFullError
from spark_queue.reader import SparkVerbs
from spark_queue.state.request import Request
from spark_queue.state.settle_decision import Every

SCHEMA = "n long, id string, tenant string, grp string, urgency int"

_ROWS = pa.schema(
    [
        ("n", pa.int64()),
        ("id", pa.string()),
        ("tenant", pa.string()),
        ("grp", pa.string()),
        ("urgency", pa.int32()),
        ("cost", pa.float64()),
        ("available_at", pa.timestamp("us", "UTC")),
        ("expires_at", pa.timestamp("us", "UTC")),
    ]
)

_LEASE = timedelta(seconds=30)

_TENANTS = (None, "a", "b", "c", "d")
_WEIGHTS = (0.5, 1.0, 2.0, 3.0, 0.7)
_VERBS = ("ack", "ack", "nack", "defer", "release", "dead")

#: How many seconds may pass before a command: most of the time none.
_PAUSES = (0.0, 0.0, 0.0, 1.0, 7.5, 31.0, 65.0)

#: How many claims are remembered, to be settled late or twice.
_REMEMBERED = 4


@dataclass
class History:
    """One queue, and what has been done to it.

    Parameters
    ----------
    spark : SparkSession
        The session, whose settings say who decides.
    path : str
        Where to make the queue.
    seed : int
        Decides everything.
    """

    spark: SparkSession
    path: str
    seed: int
    clock: ManualClock = field(default_factory=ManualClock)
    done: list[str] = field(default_factory=list)
    """The commands so far."""

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)  # noqa: S311 - it has to be repeatable, not secret
        self.config = _config(self._rng)
        self._costs = self._rng.choice(((1.0,), (1.0, 2.0, 0.5), (0.1, 0.7, 1.0, 3.3)))
        self._number = 0
        self._held: list[Claim] = []
        self.queue = DeltaQueue.create(self.spark, self.path, SCHEMA, self.config, clock=self.clock)
        self._readers: list[SparkVerbs] = [self.queue]

    def play(self, steps: int) -> None:
        """Begin with some items, and give that many random commands in all."""
        self._do("enqueue")
        names, weights = zip(*_COMMANDS.items(), strict=True)
        for _ in range(steps - 1):
            self.clock.advance(timedelta(seconds=self._rng.choice(_PAUSES)))
            self._do(self._rng.choices(names, weights)[0])

    def close(self) -> None:
        """Remove the queue, and forget it."""
        DeltaQueue.drop(self.spark, self.path)

    def _do(self, name: str) -> None:
        self.done.append(name)
        command: Callable[[], object] = getattr(self, f"_{name}")
        # Who comes late, or twice, is told so, and the step stands.
        with suppress(LeaseLostError, DuplicateItemError, ReaderFullError):
            command()

    def _enqueue(self) -> None:
        rows = [self._row() for _ in range(self._rng.choice((1, 3, 6, 10)))]
        choices: tuple[OnDuplicate, ...] = ("skip", "skip", "raise")
        wanted = self._rng.choice(choices)
        self.queue.enqueue(pa.Table.from_pylist(rows, _ROWS), "n", on_duplicate=wanted)

    def _row(self) -> dict[str, Any]:
        draw, self._number = self._rng, self._number + 1
        return {
            "n": self._number,
            "id": draw.choice((None, *"abcdefghijkl")),
            "tenant": draw.choice(_TENANTS),
            "grp": draw.choice((None, None, "x", "y", "z")),
            "urgency": draw.choice((0, 0, 0, 1, 2)),
            "cost": draw.choice(self._costs),
            "available_at": self._later(draw.choice((None, None, None, None, 5.0, 40.0))),
            "expires_at": self._later(draw.choice((None, None, None, 20.0, 90.0))),
        }

    def _later(self, seconds: float | None) -> datetime | None:
        return None if seconds is None else self.clock.now() + timedelta(seconds=seconds)

    def _claim(self) -> None:
        reader = self._rng.choice(self._readers)
        run = self._rng.choice((1, 1, 1, 2, 3, 5))
        self._remember(reader.claim(self._rng.choice((1, 2, 3, 5, 9)), run=run))

    def _remember(self, claim: Claim) -> None:
        if claim.count:
            self._held = [claim, *self._held][:_REMEMBERED]

    def _settle_every(self) -> None:
        if not self._held:
            return
        claim, verb = self._rng.choice(self._held), self._rng.choice(_VERBS)
        said = {"nack": ("why",), "dead": ("why",), "defer": (self._rng.choice((0, 3)), "why")}
        getattr(claim, verb)(*said.get(verb, ()))

    def _settle_each(self) -> None:
        if not self._held:
            return
        claim = self._rng.choice(self._held)
        seqs = sorted(row[0] for row in claim.items.select("_seq").collect())
        some = self._rng.sample(seqs, self._rng.randint(1, len(seqs)))
        said = [
            (
                seq,
                self._rng.choice(_VERBS),
                self._rng.choice((None, "why")),
                self._rng.choice((0.0, 3.5)),
            )
            for seq in some
        ]
        columns = "_seq long, outcome string, error string, after double"
        claim.settle(self.spark.createDataFrame(said, columns))

    def _settle_and_claim(self) -> None:
        """Settle what was claimed last and claim again, as one step where that is possible."""
        if not self._held:
            return
        claim, store = self._held[0], self._held[0]._store  # noqa: SLF001 - as a worker does
        request = Request(
            limit=self._rng.choice((1, 3, 6)),
            lease=_LEASE,
            worker_id="w",
            run=self._rng.choice((1, 2)),
            claim_id=f"c{self._number}-{len(self.done)}",
        )
        both = settle_and_claim(store, claim.lease, Every("ack"), request)
        if both is not None:
            self._remember(Claim(store, both[1]))

    def _renew(self) -> None:
        if self._held:
            self._rng.choice(self._held).renew(self._rng.choice((None, timedelta(seconds=45))))

    def _cancel(self) -> None:
        self._rng.choice(self._readers).cancel(f"_seq % 5 = {self._rng.randrange(5)}")

    def _pause(self) -> None:
        self._rng.choice(self._readers).pause()

    def _resume(self) -> None:
        for reader in self._readers:
            if reader.paused:
                reader.resume()

    def _redrive(self) -> None:
        self._rng.choice(self._readers).redrive("true", again=self._rng.random() < 0.2)  # noqa: PLR2004

    def _purge(self) -> None:
        self.queue.purge(f"_seq % 3 = {self._rng.randrange(3)}")

    def _maintain(self) -> None:
        self.queue.maintain()

    def _configure(self) -> None:
        draw = self._rng
        settings: dict[str, Any] = {"max_in_flight": draw.choice((None, None, 2, 4))}
        if self.config.fair_key is not None:
            settings["weights"] = _weights(draw)
        if self.config.group_key is not None:
            settings |= {
                "group_limit": draw.choice((1, 2, 3)),
                "on_failure": draw.choice(("block", "skip")),
            }
        draw.choice(self._readers).configure(**settings)

    def _reader(self) -> None:
        """Add a second reader; the first one is the default one, under a name."""
        if len(self._readers) > 1:
            return
        limits = self._rng.choice(
            (None, ReaderConfig(max_age=timedelta(seconds=80)), ReaderConfig(max_items=25))
        )
        starts: tuple[Start, ...] = ("tail", "beginning")
        start = self._rng.choice(starts)
        first = self.queue.reader("first")
        self._readers = [first, self.queue.reader("second", start=start, config=limits)]


#: Commands, and how often each is given. What Spark alone does comes seldom, as it says little of
#: the others; but after it a replica is built anew.
_COMMANDS = {
    "enqueue": 20,
    "claim": 30,
    "settle_every": 12,
    "settle_each": 12,
    "settle_and_claim": 6,
    "renew": 6,
    "cancel": 2,
    "pause": 1,
    "resume": 2,
    "redrive": 3,
    "purge": 2,
    "maintain": 1,
    "configure": 3,
    "reader": 1,
}


def _config(draw: random.Random) -> QueueConfig:
    dedup = draw.choice((None, "id", "id"))
    fair = draw.choice((None, "tenant", "tenant"))
    group = draw.choice((None, "grp", "grp"))
    scopes: tuple[Any, ...] = ("live", "live", timedelta(seconds=60), "forever")
    return QueueConfig(
        dedup_key=dedup,
        dedup_scope="live" if dedup is None else draw.choice(scopes),
        fair_key=fair,
        group_key=group,
        priority=draw.choice((None, "urgency")),
        weights=_weights(draw) if fair is not None and draw.random() < 0.5 else {},  # noqa: PLR2004
        group_limit=1 if group is None else draw.choice((1, 1, 2, 3)),
        max_in_flight=draw.choice((None, None, 2, 4)),
        lease=_LEASE,
        max_attempts=draw.choice((None, 2, 3)),
        max_losses=draw.choice((None, 1, 2)),
        max_deferrals=draw.choice((None, 1, 2)),
        retry=RetryPolicy(
            backoff=draw.choice(("fixed", "linear", "exponential")),
            delay=timedelta(seconds=draw.choice((0, 5))),
            jitter=draw.choice((0.0, 0.5)),
        ),
        on_failure=draw.choice(("block", "skip")),
    )


def _weights(draw: random.Random) -> dict[str, float]:
    return {key: draw.choice(_WEIGHTS) for key in ("a", "b") if draw.random() < 0.6}  # noqa: PLR2004
