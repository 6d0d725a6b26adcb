"""Measure flow control by key: what limits cost a claim, and what they cost other keys.

Every figure is a ratio of two times of one run. ``--base`` names a checkout of another release,
beside which the steps of a queue without any flow control are timed, in turns.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
import typer

from report import Figure, at_least, at_most, measure, ratio_figure, rounds as in_turns
from spark_queue import Limit, LocalQueue, QueueConfig, Rate
from spark_queue.rules.rule_model import Ack, NewItem
from spark_queue.rules.scheduler import Scheduler

#: A lease that does not end while a benchmark runs.
_LONG = timedelta(days=1)

#: Keys of large queues.
_TENANTS = 20_000

#: Processes that work on one queue.
_HANDS = 8

SCHEMA = "id long, tenant string, endpoint string"


@dataclass
class Bench:
    """Where to measure, how often, and how much smaller than the targets say."""

    rounds: int
    scale: float
    base: Path | None
    root: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="flow-")))
    numbers: Iterator[int] = field(default_factory=count)

    def rows(self, full: int) -> int:
        """Return a number of rows at the scale of this run."""
        return max(20, int(full * self.scale))

    def queue(self, **settings: Any) -> LocalQueue:
        """Make an empty queue, by tenants, whose steps need not be forced to a disk."""
        # No two have a place in common: a queue is tidied up in the background for a while.
        place = self.root / str(next(self.numbers))
        config = QueueConfig(fair_key="tenant", lease=_LONG, **settings)
        return LocalQueue.create(place, SCHEMA, config, durability="process")


def put(queue: LocalQueue, tenants: Sequence[str], endpoints: int = 1) -> None:
    """Enqueue a row of each of some tenants, of so many endpoints by turns."""
    ids = range(len(tenants))
    named = [f"e{one % endpoints}" for one in ids]
    queue.enqueue(pa.table({"id": pa.array(ids, pa.int64()), "tenant": tenants, "endpoint": named}))


def claim_full(queue: LocalQueue, items: int) -> float:
    """Claim so many items, and return the seconds that it took."""
    began = time.perf_counter()
    claim = queue.claim(items)
    took = time.perf_counter() - began
    if claim.count != items:
        raise AssertionError(f"the claim has {claim.count} items instead of {items}")
    return took


def behind(bench: Bench) -> Iterator[Figure]:
    """Claim 1,000 items behind full keys of ten waiting items each, and with none in front."""
    keys = bench.rows(100_000)
    queues = {name: _full(bench, keys, waiting) for name, waiting in (("none", 0), ("keys", 10))}
    claims = {name: partial(claim_full, queue, 1_000) for name, queue in queues.items()}
    in_turns(claims, 1)
    warm = in_turns(claims, bench.rounds)
    detail = f"a claim of 1,000 by DuckDB behind {keys:,} full keys, over one with none in front"
    yield ratio_figure("behind.warm", warm["keys"], warm["none"], at_most(1.3), detail)
    cold = in_turns({name: partial(_cold, queue) for name, queue in queues.items()}, bench.rounds)
    told = f"{detail}; each in a process of its own"
    yield ratio_figure("behind.cold", cold["keys"], cold["none"], at_most(1.3), told)


def _full(bench: Bench, keys: int, waiting: int) -> LocalQueue:
    """Make a queue of keys without room, with items that wait, and one key with room behind."""
    queue = bench.queue(limits=(Limit(by="tenant", default=1, overrides={"free": None}),))
    names = [f"t{one}" for one in range(keys)]
    put(queue, names)
    claim_full(queue, keys)
    for _ in range(waiting):
        put(queue, names)
    put(queue, ["free"] * 1_000 * (2 * bench.rounds + 2))
    return queue


def _cold(queue: LocalQueue) -> float:
    """Claim in a process that knows nothing of the queue yet."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[2]); import flow; from spark_queue import "
        "LocalQueue; print(flow.claim_full(LocalQueue.open(sys.argv[1]), 1_000))"
    )
    call = [sys.executable, "-c", code, queue.name, str(Path(__file__).parent)]
    return _told(call)


def two(bench: Bench) -> Iterator[Figure]:
    """Claim a tenth of a queue with two limits by different keys, which bind nothing."""
    items = bench.rows(1_000_000)
    limits = (Limit(by="tenant", default=items), Limit(by="endpoint", default=items))
    queues = {"none": bench.queue(), "two": bench.queue(limits=limits)}
    for queue in queues.values():
        put(queue, [f"t{one % _TENANTS}" for one in range(items)], endpoints=50)
    tenth = items // 10
    found = in_turns({n: partial(claim_full, q, tenth) for n, q in queues.items()}, 5)
    detail = f"a claim of {tenth:,} of {items:,} with two limits by different keys, over none"
    yield ratio_figure("two.duckdb", found["two"], found["none"], at_most(2), detail)


def _scheduler(items: int, **flow: Any) -> Scheduler:
    """Make a scheduler of many tenants."""
    made = Scheduler(QueueConfig(fair_key="tenant", **flow), keep_finished=False)
    made.admit((NewItem(fair_key=f"t{one % _TENANTS}") for one in range(items)), 0.0)
    return made


def _claims(scheduler: Scheduler, wanted: int) -> float:
    began = time.perf_counter()
    grant = scheduler.claim(0.0, wanted)
    took = time.perf_counter() - began
    if len(grant.items) != wanted:
        raise AssertionError(f"the claim has {len(grant.items)} items instead of {wanted}")
    scheduler.settle(grant.lease, {item.seq: Ack() for item in grant.items}, 0.0)
    return took


def others(bench: Bench) -> Iterator[Figure]:
    """Drain other keys beside the backlog of a key that may not start, and without it."""
    backlog = bench.rows(100_000)
    for name in ("limited", "rated out", "paused"):
        queues = {one: _with_stopped_key(bench, name) for one in ("alone", "beside")}
        put(queues["beside"], ["big"] * backlog)
        for queue in queues.values():
            put(queue, [f"t{one % 10}" for one in range(20 * bench.rounds)])
        waits = in_turns({n: partial(_trips, q, 10) for n, q in queues.items()}, bench.rounds)
        detail = f"ten claims of one beside {backlog:,} items of a key that is {name}"
        yield ratio_figure(f"others.{name}", waits["beside"], waits["alone"], at_most(1.05), detail)


def _with_stopped_key(bench: Bench, how: str) -> LocalQueue:
    """Return an empty queue of which the key ``big`` may start nothing."""
    if how == "limited":
        return bench.queue(limits=(Limit(by="tenant", default=None, overrides={"big": 0}),))
    if how == "paused":
        queue = bench.queue()
        queue.pause(key="big")
        return queue
    rate = Rate(by="tenant", limit=None, per=_LONG, burst=1, overrides={"big": 1})
    queue = bench.queue(rates=(rate,))
    put(queue, ["big"])
    queue.claim(1).ack()
    return queue


def _trips(queue: LocalQueue, trips: int) -> float:
    began = time.perf_counter()
    for _ in range(trips):
        queue.claim(1).ack()
    return time.perf_counter() - began


def crowd(bench: Bench) -> Iterator[Figure]:
    """Work off items of a thousand tenants by eight hands, with limits that do not bind."""
    items, tenants, work = bench.rows(100_000), 1_000, 0.05
    found = {}
    for name, limits in (("none", ()), ("limits", (Limit(by="tenant", default=2),))):
        queue = bench.queue(limits=limits)
        put(queue, [f"t{one % tenants}" for one in range(items)])
        began = time.perf_counter()
        queue.process(lambda _: time.sleep(work), max_workers=8)
        found[name] = items / (time.perf_counter() - began)
    detail = f"{items:,} items of {work:g} s by eight hands, a limit of two a tenant, over none"
    yield Figure("crowd", found["limits"] / found["none"], at_least(0.95), detail=detail)


def rated(bench: Bench) -> Iterator[Figure]:
    """Claim of 20,000 tenants with a limit and a rate of each, by DuckDB and in memory."""
    items, wanted = bench.rows(1_000_000), bench.rows(10_000)
    for name, full in (("free", 0), ("half", 2)):
        stopped = {f"t{one}": 0 for one in range(0, _TENANTS, full)} if full else {}
        flow = {
            "limits": (Limit(by="tenant", default=items, overrides=stopped),),
            "rates": (Rate(by="tenant", limit=items, per=timedelta(seconds=1)),),
        }
        queues = {"none": bench.queue(), "flow": bench.queue(**flow)}
        for queue in queues.values():
            put(queue, [f"t{one % _TENANTS}" for one in range(items)])
        found = in_turns({n: partial(claim_full, q, wanted) for n, q in queues.items()}, 5)
        binds = "half of the keys are full" if full else "nothing binds"
        detail = f"a claim of {wanted:,} of {items:,} with a limit and a rate by key; {binds}"
        yield ratio_figure(
            f"rated.{name}", found["flow"], found["none"], at_most(1.3), f"{detail}; by DuckDB"
        )
        made = {"none": _scheduler(items), "flow": _scheduler(items, **flow)}
        found = in_turns({of: partial(_claims, one, wanted) for of, one in made.items()}, 5)
        yield ratio_figure(
            f"memory.{name}", found["flow"], found["none"], at_most(1.5), f"{detail}; in memory"
        )


def pace(bench: Bench) -> Iterator[Figure]:
    """Let eight processes work off a queue with a rate, and count their calls."""
    for limit, burst in ((100, 10), (5, 1)):
        lasts = max(6.0, 60 * bench.scale)
        rate = Rate(limit=limit, per=timedelta(seconds=1), burst=burst)
        queue = bench.queue(rates=(rate,))
        put(queue, ["a"] * int(2 * limit * lasts))
        call = [sys.executable, "-c", _WORK, queue.name, str(lasts)]
        workers = [
            subprocess.Popen(call, stdout=subprocess.PIPE, text=True)  # noqa: S603 - ours
            for _ in range(_HANDS)
        ]
        told = [worker.communicate()[0].split() for worker in workers]
        grants = sorted(_granted(queue))
        calls = sorted(float(at) for one in told for at in one)
        name = f"pace.{limit}"
        detail = f"{limit}/s, burst {burst}, {lasts:g} s, {_HANDS} processes"
        share = (len(grants) - burst) / limit / (grants[-1] - grants[0])
        yield Figure(f"{name}.run", share, at_least(0.98), detail=f"starts over the rate; {detail}")
        most = _most_within(grants, 1.0)
        allowed = limit + burst
        yield Figure(f"{name}.window", most, at_most(allowed), "starts", f"any second; {detail}")
        most = _most_within(calls, 1.0)
        allowed = limit + burst + _HANDS
        yield Figure(f"{name}.calls", most, at_most(allowed), "calls", f"any second; {detail}")


def _granted(queue: LocalQueue) -> list[float]:
    """Return the instants of the claims of all items."""
    rows = queue.history().filter(pc.field("_state") == "claimed")
    return [at.timestamp() for at in rows["_at"].to_pylist()]


def _most_within(instants: Sequence[float], seconds: float) -> int:
    """Return how many instants are in any one window of some length."""
    ends = (bisect_left(instants, at + seconds) for at in instants)
    return max(end - first for first, end in enumerate(ends))


_WORK = """
import sys, time
from bisect import bisect_left
from datetime import timedelta
from spark_queue import LocalQueue
def call(item):
    print(time.time(), flush=True)
queue = LocalQueue.open(sys.argv[1], durability="process")
queue.process(call, time_limit=timedelta(seconds=float(sys.argv[2])), forever=True)
"""


def one_row(bench: Bench) -> Iterator[Figure]:
    """Time steps of one row in a queue without flow control, beside another release."""
    if bench.base is None:
        return
    here = Path(__file__).resolve().parents[2]
    runs = {"now": here, "base": bench.base.resolve()}
    found = in_turns({n: partial(_worked, at) for n, at in runs.items()}, bench.rounds)
    detail = f"300 round trips of one row, seconds of the processor, over {bench.base.name}"
    yield ratio_figure("one_row", found["now"], found["base"], at_most(1.03), detail)


_TRIPS = """
import tempfile, time
from spark_queue import LocalQueue, QueueConfig
config = QueueConfig(fair_key="tenant", dedup_key="id")
place, columns = tempfile.mkdtemp() + "/q", "id long, tenant string"
queue = LocalQueue.create(place, columns, config, durability="process")
def trips(first, count):
    for one in range(first, first + count):
        queue.enqueue([{"id": one, "tenant": "a"}])
        queue.claim(1).ack()
trips(0, 50)
began = time.process_time()
trips(50, 300)
print(time.process_time() - began)
"""


def _worked(checkout: Path) -> float:
    """Return the seconds of the processor that steps of a release take."""
    at = {**os.environ, "PYTHONPATH": str(checkout)}
    return _told([sys.executable, "-c", _TRIPS], at)


def _told(call: Sequence[str], env: Mapping[str, str] | None = None) -> float:
    """Return the number that a program of ours prints."""
    done = subprocess.run(call, check=True, capture_output=True, text=True, env=env)  # noqa: S603 - ours
    return float(done.stdout)


SECTIONS: Mapping[str, Callable[[Bench], Iterable[Figure]]] = {
    "behind": behind,
    "two": two,
    "rated": rated,
    "pace": pace,
    "others": others,
    "crowd": crowd,
    "one_row": one_row,
}


def main(
    only: Annotated[
        list[str] | None, typer.Option(help=f"Measure this: {', '.join(SECTIONS)}; repeatable.")
    ] = None,
    scale: Annotated[float, typer.Option(min=1e-4, help="How much of the full size.")] = 1.0,
    rounds: Annotated[int, typer.Option(min=2, help="How often small things are done.")] = 5,
    base: Annotated[Path | None, typer.Option(help="A checkout of another release.")] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print no table.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 on a missed target.")] = False,
) -> None:
    """Measure what flow control by key costs."""
    bench = Bench(rounds, scale, base)
    sections = {name: partial(section, bench) for name, section in SECTIONS.items()}
    sys.exit(measure(sections, only, as_json=as_json, strict=strict))


if __name__ == "__main__":
    typer.run(main)
