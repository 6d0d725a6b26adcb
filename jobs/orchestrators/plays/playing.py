"""What the plays of orchestrators share: parts, places, and what a queue has to show at the end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

import spark_queue
from spark_queue import LocalQueue

_PLAYS = Path(__file__).resolve().parent

PROGRAMS = _PLAYS.parent

#: What a part raised: its last words.
_WORDS = 400


def play_parts(parts: Mapping[str, Callable[[Path], None]], only: Sequence[str] = ()) -> None:
    """Play each part in a folder of its own, and print a line of JSON with its outcome."""
    for name, part in parts.items():
        if only and not any(word in name for word in only):
            continue
        with tempfile.TemporaryDirectory(prefix="spark-queue-") as place:
            try:
                part(Path(place))
                outcome = "yes"
            except Exception as exc:  # noqa: BLE001 - it is the answer
                outcome = f"failed: {type(exc).__name__}: {exc}"[:_WORDS]
        print(json.dumps({"part": name, "outcome": outcome}), flush=True)  # noqa: T201 - as above


def variables_of(place: Path, *faults: str, **more: str) -> dict[str, str]:
    """Return the environment of a program that runs at a place, with these faults."""
    own = {"NIGHT_PLACE": str(place), "NIGHT_QUEUE": str(place / "files")}
    own |= {"NIGHT_OUTPUT": str(place / "sizes"), "NIGHT_FAULTS": " ".join(faults)}
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, **own, "PATH": tools, "PYTHONPATH": str(_PLAYS), **more}


def run(command: Sequence[str], place: Path, variables: Mapping[str, str]) -> str:
    """Return what a program prints at its end; raise with its last words where it fails."""
    done = subprocess.run(  # noqa: S603 - our own words
        command, cwd=place, env=variables, capture_output=True, text=True, check=False, timeout=1500
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:3])}: {done.returncode}: {done.stderr[-_WORDS:]}")
    return done.stdout


@contextmanager
def running(
    command: Sequence[str], place: Path, variables: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Keep a program running at a place, which gets its words; its children end with it."""
    log = place / f"{Path(command[0]).name}-{time.monotonic_ns()}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(  # noqa: S603 - our own words
            command, cwd=place, env=variables, stdout=out, stderr=out, start_new_session=True
        )
        try:
            yield process
        finally:
            end_group(process)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a program and its children, by SIGTERM first."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(what: str, happened: Callable[[], object], seconds: float = 1500) -> None:
    """Wait until something has happened, or raise."""
    end = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not in {seconds:.0f} s")
        time.sleep(0.5)


def queue_at(place: Path) -> LocalQueue:
    """Open the queue of a place."""
    return spark_queue.open(place / "files")


def expect(found: object, wanted: object) -> None:
    """Raise where something is another than it has to be."""
    if found != wanted:
        raise AssertionError(f"{found!r}, and not {wanted!r}")


def expect_each_once(
    place: Path, count: int, rows: int | None = None, redriven: int | None = None
) -> None:
    """Raise unless so many items are in the queue, each acked, with one row each in the output.

    The output may have more rows: of items that were purged. The dead ones were redriven.
    """
    states = {"acked": count, "dead": redriven}
    found = queue_at(place).counts()
    expect({s: n for s, n in found.items() if n}, {s: n for s, n in states.items() if n})
    paths = [row["path"] for row in rows_of(place / "sizes", "path")]
    expect((len(paths), len({*paths})), (rows or count,) * 2)


def rows_of(table: Path, *columns: str) -> list[dict[str, Any]]:
    """Return the rows of a table."""
    # A process that ends after it read deltalake's own files may abort.
    disk = SubTreeFileSystem(str(table), LocalFileSystem())
    found = DeltaTable(table).to_pyarrow_table(columns=[*columns] or None, filesystem=disk)
    rows: list[dict[str, Any]] = pa.table(found).to_pylist()
    return rows


def expect_faults(place: Path, *faults: str) -> None:
    """Raise unless these faults have been."""
    expect([fault for fault in faults if (place / f"fault of {fault}").exists()], [*faults])
