"""Items that a reader needs, and the step by which its log forgets purged ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from spark_queue.commands import admin
from spark_queue.commands.dry_runs import GONE
from spark_queue.log.heads import following
from spark_queue.sql.look import FrameT, QueueLook
from spark_queue.sql.planner_choice import planner_of
from spark_queue.state import existence
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.steps import Answer, Step, on_status
from spark_queue.state.store import Store
from spark_queue.upkeep.rewriter import Rewriter
from spark_queue.views.operator_steps import note_of

#: No log has a step that high.
_BEYOND = 1 << 62


def find_needed(look: Callable[..., QueueLook[FrameT]], reader: Store, since: int | None) -> FrameT:
    """Return the items that a reader is not done with: ``_seq`` and ``_gen``.

    Parameters
    ----------
    look : type of QueueLook
        The engine.
    reader : Store
        The queue as the reader sees it. One that reads a stream is not done with the
        items behind where it said to be, and one that has no log with nothing.
    since : int, optional
        A step of its log as of which that is known: then what was in its hands, or came back to
        it, after that one; to a stream nothing does.
    """
    if reader.registered().streams:
        steps = {} if since is None else {"since": _BEYOND}
    elif existence.is_prepared(reader):
        with look(reader, moved_since=since or 0, has_values=False) as at:
            if since is None:
                return at.join(
                    part.view("needed_items", ("_seq", "_gen"), found="status")
                    for part in at.in_parts()
                )
            at.give("found", at.moves())
            return at.view("needed_items", ("_seq", "_gen"))
    else:
        steps = {}
    with look(reader, **steps, has_values=False) as at:
        return at.view("visible_items", ("_seq", "_gen"))


@dataclass(frozen=True, slots=True)
class End:
    """A reader's purged items by final state, and a note on them."""

    states: Mapping[str, int]
    note: str


def end_of(reader: Store, found: Any, by: Rewriter, why: str) -> End:
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
