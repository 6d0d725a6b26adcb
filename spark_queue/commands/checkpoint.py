"""Checkpoints of the status log: a fold starts from the newest one."""

from __future__ import annotations

from spark_queue.log.heads import StatusHead
from spark_queue.sql.planner_choice import planner_of
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.steps import Step, engine_of, on_status
from spark_queue.state.store import Store

#: Rows since the last checkpoint from which a claim writes the next one first.
LONG_FOLD = 500_000

#: How many times the size of a claim the fold may be: its claims and settles are two rows an item.
_CLAIMS = 6


def checkpoint(store: Store) -> int:
    """Write a checkpoint as a step of its own, and return the number of the step."""

    def decide(at: Snapshot) -> Step[StatusHead, int]:
        stage = planner_of(store).checkpoint(at)
        return Step(
            head=stage.head,
            rows=stage.rows,
            small=False,
            counts={"fold": at.status.log_rows},
            answer=stage.head.step,
            engine=engine_of(stage.rows),
        )

    return on_status(store, "checkpoint", decide)


# rule: checkpoint that is due
def is_due(head: StatusHead, limit: int) -> bool:
    """Whether the fold has become long enough to be worth a checkpoint.

    Claims as large as a fold would else write one each time, which costs more than it saves.
    """
    return head.log_rows >= max(LONG_FOLD, _CLAIMS * limit)
