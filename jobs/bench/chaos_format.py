"""Kill streams of ``format("spark_queue")`` between their phases, and check what they leave.

A child enqueues files by a sink, and works off the queue by a stream of claims into a Delta table;
its Python workers kill it, with its JVM, by SIGKILL at a drawn phase of either. The next one goes
on from the same checkpoints. At the end one child runs undisturbed.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pq
import typer
from deltalake import DeltaTable

from spark_queue import LocalQueue, QueueConfig

app = typer.Typer(add_completion=False)

#: Phases of the sink, and of the stream of claims.
PHASES = ("staged", "committing", "committed", "claiming", "claimed", "read", "acking", "acked")

#: A new child gets files of so many rows, and is left alone when it was not killed so long.
_FILES, _ROWS, _SECONDS = 2, 20, 60.0


def reach(phase: str) -> None:
    """Die, with everything that belongs to this driver, if that is the phase to die at."""
    doom, count = os.environ["DOOM"].split(":")
    if phase != doom:
        return
    met = Path(os.environ["DOOM_MET"])
    with met.open("a", encoding="utf-8") as file:
        file.write("!")
    if met.stat().st_size >= int(count):
        os.killpg(int(os.environ["DOOM_GROUP"]), 9)
        time.sleep(10)


@app.command()
def run(
    kills: Annotated[int, typer.Option(min=0, help="How often a child is killed.")] = 100,
    seed: Annotated[int, typer.Option(help="Decides when; 0 draws one.")] = 0,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Kill and restart streams, then verify."""
    drawn = seed or random.SystemRandom().randrange(1, 1 << 31)
    rng, started = random.Random(drawn), time.monotonic()  # noqa: S311 - to be repeatable
    killed: Counter[str] = Counter()
    faults: list[str] = []
    with tempfile.TemporaryDirectory(prefix="chaos-") as temporary:
        place = Path(temporary)
        LocalQueue.create(place / "queue", "id long, grp string", QueueConfig(group_key="grp"))
        (place / "files").mkdir()
        rows = 0
        while killed.total() < kills:
            rows = _add_files(place, rows)
            phase = rng.choice(PHASES)
            killed[phase] += _live(place, f"{phase}:{rng.randint(1, 3)}")
            faults += _faults(place, rows)
            typer.echo(f"{killed.total()} of {kills}, {len(faults)} faults", err=True)
        _live(place, "none:1", to_its_end=True)
        facts = {**_facts(place, rows), "faults": faults + _faults(place, rows, at_end=True)}
    facts |= {"kills": dict(killed), "seed": drawn, "seconds": round(time.monotonic() - started)}
    typer.echo(json.dumps(facts) if as_json else "\n".join(f"{k}: {v}" for k, v in facts.items()))
    raise typer.Exit(1 if facts["faults"] else 0)


def _add_files(place: Path, rows: int) -> int:
    for _ in range(_FILES):
        ids = range(rows, rows + _ROWS)
        table = pa.table({"id": pa.array(ids, pa.int64()), "grp": [f"g{i % 7}" for i in ids]})
        pq.write_table(table, place / "files" / f"{rows:09}.parquet")
        rows += _ROWS
    return rows


def _live(place: Path, doom: str, *, to_its_end: bool = False) -> bool:
    """Have a child live, and tell whether it was killed."""
    met = place / "met"
    met.unlink(missing_ok=True)
    env = {**os.environ, "DOOM": doom, "DOOM_MET": str(met)}
    env["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.getcwd()])  # noqa: PTH109
    words = [sys.executable, str(Path(__file__).with_name("chaos_streams.py")), str(place)]
    done = subprocess.run(  # noqa: S603 - our own script
        [*words, str(1e9 if to_its_end else _SECONDS)], env=env, start_new_session=True, check=False
    )
    if done.returncode not in (0, -9):
        raise RuntimeError(f"a child ended with {done.returncode}")
    return done.returncode == -9  # noqa: PLR2004 - SIGKILL


def _facts(place: Path, rows: int) -> dict[str, Any]:
    done = Counter(_done(place))
    return {"rows": rows, "done": len(done), "done more than once": done.total() - len(done)}


def _faults(place: Path, rows: int, *, at_end: bool = False) -> list[str]:
    """Say what does not hold: now, and when all is over."""
    items = LocalQueue.open(place / "queue").status().select(["id", "_state"]).to_pylist()
    entered = Counter(item["id"] for item in items)
    acked = {item["id"] for item in items if item["_state"] == "acked"}
    found = [f"{one} entered {count} times" for one, count in entered.items() if count > 1]
    found += [f"{one} is acked, and not done" for one in acked - set(_done(place))]
    if at_end:
        found += [f"{one} is not acked" for one in set(range(rows)) - acked]
    return found


def _done(place: Path) -> list[int]:
    if not (place / "done" / "_delta_log").exists():
        return []
    ids: list[int] = DeltaTable(str(place / "done")).to_pyarrow_table()["id"].to_pylist()
    return ids


if __name__ == "__main__":
    app()
