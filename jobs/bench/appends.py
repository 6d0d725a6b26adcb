"""Compare a step that is appended by hand with one appended by ``deltalake``, on a local disk.

The figures behind ``docs/adr/0021-appending.md``: the wait and the work of one row, with the same
syncs and without, and what both come to when the log has become long. Prints one JSON line for each
and a table at the end, as ``core.py`` does.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import pyarrow as pa
import typer
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake

from report import Figure, at_most, measure, median_figure, ratio_figure
from spark_queue.log.delta_log import DeltaLog
from spark_queue.log.disk.fsync import sync_directory, sync_file
from spark_queue.log.heads import StatusHead, following, to_json
from spark_queue.log.schema import SKIPPING_COLUMNS, STATUS_COLUMNS
from spark_queue.log.spark.spark_types import struct_of

_PROPERTIES = {
    "delta.checkpointInterval": "100",
    "delta.dataSkippingStatsColumns": SKIPPING_COLUMNS,
}

#: One row, and its head beside it.
_ROW = {"_kind": "item", "_seq": 1, "_priority": 0, "_round": 1.0, "_state": "acked"}

#: Seconds of waiting, and seconds of work.
_Pair = tuple[float, float]


class Contender:
    """A log to which one row is appended again and again."""

    def __init__(self, by: Literal["hand", "deltalake"], *, synced: bool) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="appends-")
        self._place = Path(self._folder.name)
        schema = Schema.from_json(struct_of(STATUS_COLUMNS).json())
        DeltaTable.create(
            str(self._place), schema, partition_by=["_gen"], configuration=_PROPERTIES
        )
        self._log = DeltaLog.at(self._place)
        self._table = DeltaTable(str(self._place))
        self._schema = pa.schema(self._table.schema().to_arrow())
        self._append = self._by_hand if by == "hand" else self._by_deltalake
        self._synced = synced
        self._head = StatusHead()

    def step(self) -> _Pair:
        """Append a row, and return what that took."""
        self._head = following(self._head)
        began, worked = time.perf_counter(), time.process_time()
        self._append()
        return time.perf_counter() - began, time.process_time() - worked

    def close(self) -> None:
        """Remove the log."""
        self._folder.cleanup()

    def _by_hand(self) -> None:
        columns = {name: [value] for name, value in _ROW.items()}
        rows = pa.table({"_gen": pa.array([0], pa.int32()), **columns})
        if not self._log.commit(self._head, rows, is_synced=self._synced):
            raise RuntimeError("a step was lost, and nobody else is there")

    def _by_deltalake(self) -> None:
        step = self._head.step
        head = {"_gen": -1, "_step": step, "_kind": "head", "_body": to_json(self._head)}
        rows = [{"_gen": 0, "_step": step, **_ROW}, head]
        write_deltalake(
            self._table,
            pa.Table.from_pylist(rows, self._schema),
            mode="append",
            commit_properties=CommitProperties(
                custom_metadata={"userMetadata": self._head.token},
                app_transactions=[Transaction("spark_queue", step)],
            ),
        )
        if self._synced:
            self._sync()

    def _sync(self) -> None:
        """Force to the disk what a step by hand does: files, their folders, the commit, the log."""
        log = self._place / "_delta_log"
        commit = log / f"{self._table.version():020}.json"
        actions = [json.loads(line) for line in commit.read_text(encoding="utf-8").splitlines()]
        files = [self._place / action["add"]["path"] for action in actions if "add" in action]
        for file in (*files, commit):
            sync_file(file)
        for folder in {file.parent for file in (*files, commit)}:
            sync_directory(folder)


def one_row(quick: bool) -> Iterator[Figure]:  # noqa: FBT001 - what every section is called with
    """Compare both at a log that is short, in turns."""
    count = 40 if quick else 200
    for synced in (True, False):
        ours, theirs = Contender("hand", synced=synced), Contender("deltalake", synced=synced)
        pairs = [(ours.step(), theirs.step()) for _ in range(count)]
        ours.close()
        theirs.close()
        how = "synced" if synced else "unsynced"
        for at, name in enumerate(("wait", "work")):
            hand = [mine[at] for mine, _ in pairs]
            other = [their[at] for _, their in pairs]
            target = at_most(1)
            detail = f"one row by hand over by deltalake, {how}, {count} in turns"
            yield ratio_figure(f"one_row.{how}.{name}", hand, other, target, detail)
            millis = [1000 * value for value in hand]
            yield median_figure(f"one_row.{how}.{name}.ms", millis, None, "by hand", "ms")


def long_log(quick: bool) -> Iterator[Figure]:  # noqa: FBT001
    """Compare the last steps of a long log with its first ones."""
    count = 1_000 if quick else 10_000
    log = Contender("hand", synced=False)
    took = [log.step() for _ in range(count)]
    log.close()
    first, last = took[:100], took[-100:]
    for at, name in enumerate(("wait", "work")):
        ends = [[pair[at] for pair in part] for part in (first, last)]
        for which, of in (("p50", statistics.median), ("p99", _p99)):
            ratio = of(ends[1]) / of(ends[0])
            detail = f"the last 100 of {count:,} steps over the first 100, unsynced"
            yield Figure(f"long_log.{name}.{which}", ratio, at_most(1.5), "x", detail)


def _p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[-1]


SECTIONS: dict[str, Callable[[bool], Iterator[Figure]]] = {"one_row": one_row, "long": long_log}


def main(
    only: Annotated[
        list[str] | None, typer.Option(help=f"Measure this: {', '.join(SECTIONS)}; repeatable.")
    ] = None,
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer steps.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print no table.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 on a missed target.")] = False,
) -> None:
    """Compare appends by hand with those of the library of Rust."""
    sections = {name: partial(section, quick) for name, section in SECTIONS.items()}
    raise typer.Exit(measure(sections, only, as_json=as_json, strict=strict))


if __name__ == "__main__":
    typer.run(main)
