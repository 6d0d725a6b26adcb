"""Kill processes that share one queue on an object store, and check what they were told.

They put, claim and settle through a proxy that loses answers, refuses requests and takes its time.
One after the other is killed by SIGKILL at a drawn moment, and another takes its place. What all of
them wrote down is held against the logs. The store is ``gofakes3`` on the loopback:
``go install github.com/johannesboyne/gofakes3/cmd/gofakes3@latest``.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from importlib import import_module
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Annotated, Any

import typer

from shaky_proxy import ShakyProxy
from spark_queue import LocalQueue, QueueConfig
from spark_queue.errors import LeaseLostError, StepLostError
from spark_queue.log.object.pending_rows import TAKEN
from spark_queue.log_errors import FileAccessError

app = typer.Typer(add_completion=False)

PLACE = "s3://bench/queue"
_LEASE = timedelta(seconds=4)

#: Seconds for which a process with a session of Spark is let live.
_LIFE = 120.0

#: What is imported when it is first used: once, before a process forks.
LATER = ("deltalake", "obstore.store", "pyarrow.parquet", "pyarrow.compute", "duckdb")

#: Children of this process are copies of it.
FORK = multiprocessing.get_context("fork")

_Row = dict[str, Any]


def options_of(port: int) -> dict[str, Any]:
    """Return how the store behind a port is reached."""
    return {
        "endpoint": f"http://127.0.0.1:{port}",
        "access_key_id": "bench",
        "secret_access_key": "bench",
        "region": "us-east-1",
        "virtual_hosted_style_request": False,
        "client_options": {"allow_http": True, "timeout": "5s"},
    }


@contextmanager
def served(directory: str) -> Iterator[int]:
    """Run a store in memory, and return its port."""
    program = shutil.which("gofakes3") or str(Path.home() / "go/bin/gofakes3")
    if not Path(program).exists():
        raise typer.BadParameter("gofakes3 is not on the PATH: install it as the module says")
    port = free_port()
    command = [program, "-backend", "memory", "-autobucket", "-host", f"127.0.0.1:{port}"]
    with Path(directory, "store.log").open("wb") as log:
        store = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603 - of this file
    try:
        _wait_for(port)
        yield port
    finally:
        store.kill()
        store.wait()


@contextmanager
def shaken(store: int, **faults: Any) -> Iterator[int]:
    """Run a proxy before a store in a process of its own, and return its port."""
    port = free_port()

    def serve() -> None:
        ShakyProxy(port, store, **faults).serve_forever()

    process = FORK.Process(target=serve, daemon=True)
    process.start()
    try:
        _wait_for(port)
        yield port
    finally:
        process.kill()
        process.join()


def free_port() -> int:
    """Return a port of this machine that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int) -> None:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError(f"nobody answers at port {port}")


class Diary:
    """What a process writes down: before it asks for something, and when it was told."""

    def __init__(self, directory: str, *, has_spark: bool = False) -> None:
        self._engine = " by Spark" if has_spark else ""
        path = Path(directory, f"{os.getpid()}-{uuid.uuid4().hex[:6]}.told")
        self._file = path.open("w", buffering=1, encoding="utf-8")

    def note(self, what: str, **facts: Any) -> None:
        """Write down one line, whole or not at all."""
        self._file.write(json.dumps({"what": what, "at": time.time(), **facts}) + "\n")

    def time(self, what: str, act: Callable[[], Any]) -> Any:
        """Do something, and write down how long it took."""
        began = time.perf_counter()
        done = act()
        self.note("took", step=what + self._engine, seconds=time.perf_counter() - began)
        return done


def live(
    directory: str, port: int, seed: int, *, has_spark: bool = False, putters: int = 0
) -> None:
    """Put, claim and settle until somebody ends it, beside threads that only put."""
    draw = random.Random(seed)  # noqa: S311 - of a benchmark
    diary = Diary(directory, has_spark=has_spark)
    if has_spark:
        queue = import_module("object_store_spark").opened(PLACE, port)
    else:
        queue = LocalQueue.open(PLACE, storage=options_of(port))
    for number in range(putters):
        args = (queue, Diary(directory), random.Random(f"{seed} {number}"), 1.0)  # noqa: S311
        threading.Thread(target=_act_for_ever, args=args, daemon=True).start()
    # A little less is put than is claimed.
    _act_for_ever(queue, diary, draw, 0.4)


def _act_for_ever(queue: Any, diary: Diary, draw: random.Random, puts: float) -> None:
    while True:
        _act(queue, diary, draw, puts)


def _act(queue: Any, diary: Diary, draw: random.Random, puts: float) -> None:
    try:
        if draw.random() < puts:
            _put(queue, diary, draw)
        else:
            _work(queue, diary, draw)
    except LeaseLostError:
        diary.note("late")
    except StepLostError:
        diary.note("lost")
    except FileAccessError as exc:
        diary.note("unclear", why=str(exc))


def _put(queue: Any, diary: Diary, draw: random.Random) -> None:
    keys = [uuid.uuid4().hex for _ in range(draw.randint(1, 3))]
    diary.note("put?", keys=keys)
    rows = [{"k": key, "tenant": f"t{draw.randint(0, 3)}"} for key in keys]
    done = diary.time("enqueue", lambda: queue.enqueue(rows))
    diary.note("put", keys=keys, inserted=done.inserted)


def _work(queue: Any, diary: Diary, draw: random.Random) -> None:
    claim = diary.time("claim", lambda: queue.claim(draw.randint(1, 4), lease=_LEASE))
    if not claim.count:
        time.sleep(0.05)
        return
    seqs = [row["_seq"] for row in claim.rows]
    diary.note("claimed", lease=claim.lease, seqs=seqs)
    verb = draw.choices(("ack", "nack", "release"), (0.85, 0.1, 0.05))[0]
    why = ("failed",) if verb == "nack" else ()
    diary.time("settle", partial(getattr(claim, verb), *why))
    diary.note("settled", lease=claim.lease, seqs=seqs, verb=verb)


@app.command()
def main(
    kills: Annotated[int, typer.Option(help="Processes that are killed.")] = 300,
    processes: Annotated[int, typer.Option(help="Processes at a time.")] = 8,
    lost: Annotated[float, typer.Option(help="Part of the answers that are lost.")] = 0.05,
    refused: Annotated[float, typer.Option(help="Part of the requests that get 503.")] = 0.05,
    delay: Annotated[int, typer.Option(help="Milliseconds that a request takes longer.")] = 30,
    spark: Annotated[int, typer.Option(help="Processes with a session of Spark.")] = 0,
    putters: Annotated[int, typer.Option(help="Threads of a process that only put.")] = 0,
    every: Annotated[float, typer.Option(help="Seconds between two kills.")] = 0.5,
    seed: Annotated[int, typer.Option(help="Decides every fault, and who is killed.")] = 0,
) -> None:
    """Run the queue, and tell what was broken."""
    for name in LATER:
        import_module(name)
    with tempfile.TemporaryDirectory() as told, served(told) as store:
        in_child(partial(_make, store))
        faults = {"lost": lost, "refused": refused, "delay": delay / 1000, "seed": seed}
        began = time.time()
        with shaken(store, **faults) as port:
            _kill(told, port, kills, processes, every, seed, spark, putters)
        seconds = time.time() - began
        lines = [json.loads(line) for path in Path(told).glob("*.told") for line in _lines(path)]
        queue = _drained(store)
        broken = check(queue, lines)
        typer.echo(f"{_count_taken(queue)} objects of rows were taken in by other processes")
        _print(lines, seconds, broken)
    sys.exit(1 if any(broken.values()) else 0)


def _make(store: int) -> None:
    config = QueueConfig(dedup_key="k", fair_key="tenant")
    LocalQueue.create(PLACE, "k string, tenant string", config, storage=options_of(store))


def in_child(act: Callable[[], None]) -> None:
    """Do something in a child: who forks later has asked no store."""
    child = FORK.Process(target=act)
    child.start()
    child.join()
    if child.exitcode:
        raise RuntimeError(f"a child ended with {child.exitcode}")


def _kill(
    told: str,
    port: int,
    kills: int,
    processes: int,
    every: float,
    seed: int,
    spark: int,
    putters: int,
) -> None:
    draw = random.Random(seed)  # noqa: S311 - of a benchmark
    born: dict[int, float] = {}

    def begin(number: int, at: int) -> BaseProcess:
        args, named = (
            (told, port, seed * 10_000 + number),
            {"has_spark": at < spark, "putters": putters},
        )
        life = FORK.Process(target=live, args=args, kwargs=named, daemon=True)
        life.start()
        born[at] = time.monotonic()
        return life

    lives = [begin(number, number) for number in range(processes)]
    for number in range(kills):
        time.sleep(every * draw.uniform(0.5, 1.5))
        at = draw.randrange(processes)
        if at < spark and time.monotonic() - born[at] < _LIFE:
            # A session takes half a minute to start here.
            at = draw.randrange(spark, processes)
        lives[at].kill()
        lives[at].join()
        if lives[at].exitcode != -signal.SIGKILL:
            raise RuntimeError(f"a process ended by itself, with {lives[at].exitcode}")
        lives[at] = begin(processes + number, at)
    for life in lives:
        life.kill()
        life.join()


def _lines(path: Path) -> list[str]:
    """Return the lines of a file whose writer may have been killed in the last one."""
    return [line for line in path.read_text(encoding="utf-8").split("\n")[:-1] if line]


def _drained(store: int) -> LocalQueue:
    """Return the queue once everything in it is over."""
    queue = LocalQueue.open(PLACE, storage=options_of(store))
    until = time.monotonic() + 120
    while queue.counts()["ready"] + queue.counts()["claimed"] and time.monotonic() < until:
        queue.claim(1_000, wait=timedelta(seconds=1)).ack()
    return queue


def _count_taken(queue: LocalQueue) -> int:
    """Return how many objects of rows all commits have."""
    log: Any = queue._store.queue  # noqa: SLF001 - as above
    storage = log._storage  # noqa: SLF001 - as above
    texts = (storage.read(name) for name in storage.list() if name.endswith(".json"))
    found = (json.loads(text.partition(b"\n")[0]) for text in texts)
    return sum(len(first.get("commitInfo", {}).get(TAKEN, ())) for first in found)


def check(queue: LocalQueue, lines: list[_Row]) -> dict[str, list[str]]:
    """Return what the logs say otherwise than the processes were told, by its kind."""
    store = queue._store  # noqa: SLF001 - all rows of both logs
    names = ("_kind", "_step", "_seq", "_state", "_lease", "_lease_expires_at", "_at", "_body")
    items = store.queue.rows_of(store.queue.files(), [*names[:3], "_body", "k"]).to_pylist()
    moves = store.status.rows_of(store.status.files(), names).to_pylist()
    entered = Counter(row["k"] for row in items if row["_kind"] == "item")
    tried = {key for line in lines if line["what"] == "put?" for key in line["keys"]}
    put = {key for line in lines if line["what"] == "put" for key in line["keys"]}
    by_item: defaultdict[int, list[_Row]] = defaultdict(list)
    for row in sorted(moves, key=lambda row: int(row["_step"])):
        if row["_kind"] == "item":
            by_item[row["_seq"]].append(row)
    counts = queue.counts()
    return {
        "put and missing": sorted(put - set(entered)),
        "put by nobody": sorted(set(entered) - tried),
        "there twice": [key for key, count in entered.items() if count > 1],
        "steps with gaps": [*_gaps(items), *_gaps(moves)],
        "told and not logged": _untrue(lines, by_item),
        "held twice": [fault for rows in by_item.values() for fault in _overlaps(rows)],
        "never over": [] if not counts["ready"] + counts["claimed"] else [str(counts)],
        "not conserved": [] if sum(counts.values()) == len(entered) else [str(counts)],
    }


def _gaps(rows: list[_Row]) -> list[str]:
    steps = sorted(row["_step"] for row in rows if row["_kind"] == "head")
    return [] if steps == list(range(1, len(steps) + 1)) else [f"{steps[:3]}..{steps[-3:]}"]


def _untrue(lines: list[_Row], by_item: dict[int, list[_Row]]) -> list[str]:
    """Return claims and outcomes that somebody was told, and that are not there."""
    states = {"ack": {"acked"}, "nack": {"ready", "dead"}, "release": {"ready"}}
    found = []
    for line in lines:
        if line["what"] not in ("claimed", "settled"):
            continue
        wanted = states.get(line.get("verb", ""), {"claimed"})
        for seq in line["seqs"]:
            rows = by_item[seq]
            if not any(row["_lease"] == line["lease"] and row["_state"] in wanted for row in rows):
                found.append(f"{line['what']} {seq} of lease {line['lease']}")
    return found


def _overlaps(rows: list[_Row]) -> list[str]:
    """Return where an item was given out while its lease held, or after it was over."""
    found, held = [], None
    for row in rows:
        if held is not None and held["_state"] in ("acked", "dead"):
            found.append(f"{row['_seq']} moved in step {row['_step']} though it was over")
        if row["_state"] == "claimed" and held is not None and held["_state"] == "claimed":
            if row["_at"] < held["_lease_expires_at"]:
                found.append(f"{row['_seq']} claimed again in step {row['_step']}")
        elif row["_state"] != "claimed" and (held is None or held["_lease"] != row["_lease"]):
            found.append(f"{row['_seq']} settled in step {row['_step']} by another")
        held = row
    moves = [f"{row['_step']}:{row['_state']}/{row['_lease']}" for row in rows]
    return [f"{fault} ({' '.join(moves)})" for fault in found]


def _print(lines: list[_Row], seconds: float, broken: dict[str, list[str]]) -> None:
    told: defaultdict[str, list[float]] = defaultdict(list)
    for line in lines:
        if line["what"] == "took":
            told[line["step"]].append(line["seconds"])
    steps = sum(map(len, told.values()))
    typer.echo(f"{steps} steps told in {seconds:.0f} s: {steps / seconds:.1f} a second")
    for step, took in told.items():
        ordered = sorted(took)
        p50, p99 = (ordered[int(len(ordered) * part)] * 1000 for part in (0.5, 0.99))
        typer.echo(f"{step:17} {len(took):6}  p50 {p50:6.0f} ms  p99 {p99:6.0f} ms")
    counted = Counter(line["what"] for line in lines)
    told_of = {"late settles": "late", "unclear steps": "unclear", "given up": "lost"}
    typer.echo(", ".join(f"{what} {counted[name]}" for what, name in told_of.items()))
    for kind, faults in broken.items():
        typer.echo(f"{kind:20} {len(faults)}  {', '.join(faults[:3])}")


if __name__ == "__main__":
    app()
