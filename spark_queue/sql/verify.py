"""Both planners asked about one step: what the process decides is held against Spark's plans.

With ``verify`` for :data:`~spark_queue.session.SMALL_STEPS`, every step that could be decided in
the process is decided by Spark as well, of the same state and before it is committed. Rows and head
have to be the same, to the last digit; what is drawn, and what a commit adds, is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_queue.errors import PlannersDifferError
from spark_queue.log.heads import QueueHead, StatusHead
from spark_queue.log.step_events import logger
from spark_queue.state.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The message that says so of a step, for those who count them; its second argument is the action.
AGREED = "%s: %s, step %d: both planners agree"

#: Rows of each planner that an error shows.
_SHOWN = 3

#: What a head says of its own commit, and a row gets by it.
_OF_THE_COMMIT = frozenset({"token", "at", "_step"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a planner would commit."""

    head: QueueHead | StatusHead
    rows: DataFrame | pa.Table
    facts: Mapping[str, object] = field(default_factory=dict)
    """What is told of the step beside that."""
    left_out: Collection[int] = ()
    """Items whose rows are not compared; the head does not count them."""


def is_wanted(at: Snapshot) -> bool:
    """Tell whether the session asks both planners."""
    return at.small_steps == "verify"


#: What a planner decides; ``None`` for a step that would write nothing.
Planned = Callable[[], Plan | None]


def check(at: Snapshot, action: str, memory: Planned, spark: Planned) -> None:
    """Ask Spark as well, where that is wanted, and compare.

    Parameters
    ----------
    at : Snapshot
        The queue, whose log is locked: the state stays what it is.
    action : str
        What the step is to do.
    memory, spark : callable
        Return what the process decides, and what Spark does.

    Raises
    ------
    PlannersDifferError
        When they do not agree; nothing was written.
    """
    if not is_wanted(at):
        return
    here, there = memory(), spark()
    plan = here or there
    step = 0 if plan is None else plan.head.step
    ours, theirs = _rows(here), _rows(there)
    only_here = [*_first(ours - theirs), *_facts(here, there)]
    only_there = [*_first(theirs - ours), *_facts(there, here)]
    if only_here or only_there:
        raise PlannersDifferError(at.store.name, action, step, memory=only_here, spark=only_there)
    logger.debug(AGREED, at.store.name, action, step)


def _rows(plan: Plan | None) -> Counter[str]:
    if plan is None:
        return Counter()
    return texts_of(plan.rows, plan.left_out)


def texts_of(rows: DataFrame | pa.Table, left_out: Collection[int] = ()) -> Counter[str]:
    """Return the rows that a planner would write as texts that can be compared."""
    return Counter(_text(row) for row in rows_of(rows) if row.get("_seq") not in left_out)


def rows_of(rows: DataFrame | pa.Table) -> list[dict[str, Any]]:
    """Return the rows that a planner would write, one by one."""
    table = rows if isinstance(rows, pa.Table) else rows.toArrow()
    return list(table.to_pylist())


def _text(row: Mapping[str, Any]) -> str:
    """Return a row as text: a column that one planner leaves out is null with the other."""
    said = {
        name: _plain(value)
        for name, value in sorted(row.items())
        if value is not None and name not in _OF_THE_COMMIT
    }
    return ", ".join(f"{name}={value!r}" for name, value in said.items())


def _plain(value: Any) -> Any:
    # An instant is the same in any zone.
    return value.astimezone(timezone.utc).isoformat() if isinstance(value, datetime) else value


def _first(rows: Counter[str]) -> list[str]:
    return sorted(rows)[:_SHOWN]


def _facts(plan: Plan | None, other: Plan | None) -> list[str]:
    """Return what the head, or the facts, of a plan have that those of the other have not."""
    if plan is None:
        return ["no step"] if other is not None else []
    mine, theirs = _comparable(plan), {} if other is None else _comparable(other)
    return [f"{name}: {value!r}" for name, value in mine.items() if value != theirs.get(name)]


def _comparable(plan: Plan) -> dict[str, object]:
    said = {**asdict(plan.head), **plan.facts}
    return {name: value for name, value in said.items() if name not in _OF_THE_COMMIT}
