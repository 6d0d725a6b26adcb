"""Files of a log, and what their statistics say of the rows in them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

#: Columns of which the least and the highest value in a file are looked at.
_RANGED = ("_step", "_seq", "_priority", "_round")


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file of a log."""

    path: str
    gen: int
    """The partition that its rows are in."""
    size: int
    """Bytes."""
    rows: float
    """How many there are; infinite where nobody has counted them."""
    ranges: Mapping[str, tuple[Any, Any]]
    """The least and the highest value of some columns, where both are known."""

    def may_have(self, column: str, least: float = -math.inf, most: float = math.inf) -> bool:
        """Tell whether a row may have a value in a range, both ends included."""
        if column not in self.ranges:
            return True
        lowest, highest = self.ranges[column]
        return bool(lowest <= most and highest >= least)


def file_of(add: Mapping[str, Any]) -> LogFile:
    """Return a file from what a commit says of it."""
    stats = json.loads(add.get("stats") or "{}")
    least, most = stats.get("minValues", {}), stats.get("maxValues", {})
    ranges = {name: (least[name], most[name]) for name in _RANGED if name in least and name in most}
    return LogFile(
        path=add["path"],
        gen=int(add["partitionValues"]["_gen"]),
        size=add["size"],
        rows=stats.get("numRecords", math.inf),
        ranges=ranges,
    )


def files_of(adds: pa.Table) -> Iterator[LogFile]:
    """Return files from what ``deltalake`` says of them, one column for each fact."""
    for fact in adds.to_pylist():
        ends = {name: (fact.get(f"min.{name}"), fact.get(f"max.{name}")) for name in _RANGED}
        rows = fact.get("num_records")
        yield LogFile(
            path=fact["path"],
            gen=int(fact["partition._gen"]),
            size=fact["size_bytes"],
            rows=math.inf if rows is None else rows,
            ranges={name: pair for name, pair in ends.items() if None not in pair},
        )
