"""The step by which a reader's log forgets purged items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from spark_queue.commands import admin
from spark_queue.commands.dry_runs import GONE
from spark_queue.log.heads import following
from spark_queue.sql.planner_choice import planner_of
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.steps import Answer, Step, on_status
from spark_queue.state.store import Store
from spark_queue.upkeep.rewriter import Rewriter
from spark_queue.views.operator_steps import note_of


@dataclass(frozen=True, slots=True)
class End:
    """A reader's purged items by final state, and a note on them."""

    states: Mapping[str, int]
    note: str


def end_of(reader: Store, found: Any, by: Rewriter[Any], why: str) -> End:
    """Count items of a reader that go, and note the steps of operators before.

    Parameters
    ----------
    found : frame
        The items, as the rewriter has them.
    why : "purge" or "retention"
        Why they go.
    """
    states = planner_of(reader).count_affected(found, GONE).states
    if not states:
        return End(states, "")
    with by.look(reader, has_values=False) as at:
        return End(states, note_of(why, sum(states.values()), at.rows("steps")))


def forget(reader: Store, end: End) -> None:
    """Log how many ended items were removed, by state.

    It is logged by a row of settings, with the steps of operators whose rows go with the items.
    """
    if not end.states:
        return

    def decide(at: Snapshot) -> Answer[None]:
        gone = {state: -count for state, count in end.states.items()}
        finished = at.status.finishing({**gone, GONE: sum(end.states.values())})
        head = following(at.status, finished=finished)
        row = admin.config_row(at.settings, reader.clock.now(), end.note)
        return Step(head=replace(head, config_step=head.step), rows=row, answer=None)

    on_status(reader, "purge", decide)
