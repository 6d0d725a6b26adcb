"""Questions of operators, and rows that move items without a claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from spark_queue.acting import operator
from spark_queue.log.heads import StatusHead
from spark_queue.log.job_descriptions import named
from spark_queue.log.schema import (
    CANCELLED,
    CLAIMED,
    ITEM,
    READY,
    STATES,
    inputs_of,
    moves_of,
    user_names,
)
from spark_queue.results import SAMPLED, SAMPLES, Affected
from spark_queue.sql import log_rows
from spark_queue.sql.arrow_look import ArrowLook
from spark_queue.sql.decisions import RESTORED, TAKEN, Made, Moved
from spark_queue.sql.look import MOVED, QueueLook, instant_of, newest_rows
from spark_queue.sql.sql_engines import asked_at
from spark_queue.state.request import GrantedClaim
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.store import Store

#: What is kept of a selected item.
SELECTED = tuple(dict.fromkeys((*MOVED, *SAMPLED)))

#: What a row says of an item that ends, with why.
ENDED = (*MOVED, "_error")


@dataclass(frozen=True, slots=True)
class ItemPlanner:
    """Finds items and moves them.

    Attributes
    ----------
    look : type of QueueLook
        The engine of questions about items.
    """

    store: Store
    look: ClassVar[type[QueueLook[Any]]] = ArrowLook

    def matching(self, where: Any, states: tuple[str, ...]) -> Any:
        """Return the selected items in some states; Spark selects by a SQL predicate.

        Raises
        ------
        InvalidArgumentError
            When the predicate does not parse, is more than an expression, or names no such column.
        """
        with self._look() as look:
            parts = (_choose(at, at.view("status"), where, states) for at in look.in_parts())
            return look.join(parts, SELECTED)

    def redrivable(self, where: Any, states: tuple[str, ...], *, again: bool) -> Any:
        """Return selected items with all columns; those enqueued again before only with ``again``.

        Errors as for :meth:`matching`.
        """
        with self._look() as at:
            found = at.view("status" if again else "items_not_redriven", meant="status")
            return _choose(at, found, where, states)

    def cancelled_in(self, step: int, *, is_first: bool = False) -> Any:
        """Return the items that a cancel of a step ended, and that are cancelled since.

        With ``is_first`` those are left out that were enqueued again.
        """
        with self._look(asked={"step": step}) as at:
            return at.view(
                "items_not_redriven" if is_first else "cancelled_items", meant="cancelled_items"
            )

    def due(self, now: datetime) -> Any:
        """Return the ready items past their deadline."""
        max_age = log_rows.micros_of(self.store.reader_config().max_age)
        with self._look(asked={"now": log_rows.micros(now), "max_age": max_age}) as at:
            return at.view("items_past_deadline")

    @named("look for what was replaced")
    def find_replaced(self, at: Snapshot, now: datetime) -> Any:
        """Return the items that the next claim ends as others have replaced them, each with why."""
        asked = asked_at(now, at.settings.config, at.reader_config.max_age)
        with self._look(asked=asked) as look:
            look.fold(at)
            chained = "timed_items_with_chains"
            return look.find("replaced_items", columns=ENDED, timed_items=chained)

    def again(self, found: Any) -> Any:
        """Return items as rows to enqueue again, with the item as ``_origin``."""
        moves = {new: old for old, new in moves_of(user_names(self.store.columns())).items()}
        with self._look() as at:
            return at.rename(found, {**moves, "_origin": "_seq"}, None)

    def restore(self, found: Any, *, keeps_place: bool) -> Any:
        """Return items as rows to enqueue again, with their times and failures.

        They have the columns of the log that :data:`RESTORED` names; ``_round`` is null where an
        item keeps no place.
        """
        inputs = inputs_of(user_names(self.store.columns())).items()
        kept = dict(zip(RESTORED, ("_seq", "_round", "_attempts", "_enqueued_at"), strict=True))
        names = {name: column.name for name, column in inputs} | kept
        with self._look() as at:
            return at.rename(found, names, None if keeps_place else "_round")

    def read_made(self, step: int) -> Made:
        """Return the rows of a step of the reader's log, counted."""
        with self._look(asked={"step": step}) as at:
            found = at.rows("step_counts")
        return Made(
            rows={(row["kind"], row["state"]): row["items"] for row in found},
            dropped=sum(row["dropped"] for row in found),
            replaced=sum(row["replaced"] for row in found),
        )

    def find_taken(self, step: int) -> list[tuple[int, int]]:
        """Return refused redrives of a step of the item log, with their key's holder.

        The first thousand.
        """
        with self._look(steps=(step, None), since=step - 1) as at:
            return [
                (row["origin"], row["duplicate_of"]) for row in at.rows("refused_redrives", TAKEN)
            ]

    def count_affected(self, found: Any, becomes: str) -> Affected:
        """Count items by state, and show the first; write nothing."""
        with self._look() as at:
            found = at.evaluate(found)
            states = _count_states(at, at.facts_of(found))
            shown = at.sample(found, [*user_names(self.store.columns()), *SAMPLED], SAMPLES)
        total = sum(states.values())
        made = {becomes: total} if total else {}
        return Affected(total, states=states, becomes=made, sample=shown)

    @named("count items")
    def count_live_at(self, where: Any, step: int, last_seq: int) -> dict[str, int]:
        """Count the selected items up to a ``seq`` that lived at a step, by their state now."""
        text = (
            "SELECT s.state, count(*) AS items FROM sq_status s "  # noqa: S608 - numbers
            f"JOIN sq_selected m ON s.seq = m.seq WHERE s.seq <= {last_seq} "
            f"AND (s.state IN ('{READY}', '{CLAIMED}') OR s.moved_step > {step}) GROUP BY s.state"
        )
        with self._look() as at:
            at.select(where)
            counts = {row["state"]: row["items"] for row in at.query(text)}
        return {state: counts[state] for state in STATES if state in counts}

    @named("look for a claim")
    def find_claim(self, claim_id: str) -> GrantedClaim | None:
        """Return the newest claim under an id, if there was one.

        Ignores claims whose items were all released without a worker id, as by ``clone``.
        """
        with self._look(asked={"claim_id": claim_id}) as at:
            at.give("items_of_claim", at.evaluate(at.table("items_of_claim")))
            found = at.rows("claim_found")
            if not found or found[0]["items"] == found[0]["back"]:
                return None
            over = tuple(row["seq"] for row in at.rows("items_lost_to_claim"))
        return GrantedClaim(
            step=found[0]["step"],
            count=found[0]["items"] - len(over),
            claim_id=claim_id,
            claimed_at=instant_of(found[0]["claimed_at"]),
            lease_expires_at=instant_of(found[0]["until"]),
            over=over,
        )

    @named("count what waits")
    def outstanding_bytes(self, at: Snapshot) -> int:
        """Return the bytes of the reader's open items."""
        with self._look() as look:
            return _bytes(look, at)

    @named("look for the oldest")
    def oldest(self, at: Snapshot, most: int) -> Any:
        """Return the oldest ready items, beyond a number of open ones."""
        with self._look() as look:
            look.fold(at)
            return look.find("oldest_items", max(0, at.outstanding - most))

    @named("look for the oldest")
    def oldest_by_bytes(self, at: Snapshot, most: int) -> Any:
        """Return the oldest ready items, beyond a number of open bytes."""
        with self._look() as look:
            return look.find("oldest_items_by_bytes", _bytes(look, at) - most)

    @named("end items")
    def end(self, found: Any, state: str, now: datetime, error: str | None) -> Moved:
        """Return the rows by which found items come to a state, with the reason.

        They end, or are ready again with all that they had.
        """
        return self._move(found, {"state": state, "at": now, "error": error})

    @named("end items")
    def end_replaced(self, found: Any, now: datetime) -> Moved:
        """Return the rows by which items end that others have replaced."""
        return self._move(found, {"state": CANCELLED, "at": now}, ENDED)

    @named("redrive")
    def revive(self, found: Any, now: datetime) -> Moved:
        """Return the rows by which found items are ready again, without failures."""
        nothing: dict[str, object] = dict.fromkeys(("attempts", "losses", "deferrals"), 0)
        nothing |= dict.fromkeys(("available_at", "expires_at"))
        return self._move(found, {"state": READY, "at": now, **nothing})

    def _move(self, found: Any, said: Mapping[str, object], names: Sequence[str] = MOVED) -> Moved:
        """Return the rows by which items come to a state, with the operator's name."""
        with self._look() as at:
            rows = at.facts_of(found, names)
            was = _count_states(at, rows)
            said = {"kind": ITEM, "worker_id": operator(), **said}
            return Moved(rows=at.logs.status_rows(rows, said), was=was)

    def _look(self, **options: Any) -> QueueLook[Any]:
        return self.look(self.store, **options)


def _bytes(look: QueueLook[Any], at: Snapshot) -> int:
    """Return the bytes of open items."""
    look.fold(at)
    look.share("with_turn")
    return int(look.rows("backlog")[0]["bytes"])


def _choose(at: QueueLook[Any], found: Any, where: Any, states: Sequence[str]) -> Any:
    return at.choose(at.choose(found, {"_state": list(states)}), where)


def _count_states(look: QueueLook[Any], rows: Any) -> dict[str, int]:
    """Return how many of some items are in each state."""
    look.give("found", rows)
    return {row["state"]: row["items"] for row in look.rows("counts_by_state")}


def release_claimed(look: type[QueueLook[Any]], store: Store, head: StatusHead) -> tuple[Any, int]:
    """Return the rows that release items in flight, without a worker id, uncharged."""
    found = newest_rows(look, store, head, "leased_items", MOVED)
    with look(store) as at:
        rows = at.facts_of(found)
        total = sum(_count_states(at, rows).values())
        said = {"kind": ITEM, "state": READY, "at": store.clock.now()}
        return at.logs.status_rows(rows, said), total
