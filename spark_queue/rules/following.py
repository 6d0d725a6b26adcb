"""Following: what somebody has decided is applied as facts, and nothing is judged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from spark_queue.rules.fairness import Account
from spark_queue.rules.record import Record
from spark_queue.rules.rule_model import NewItem
from spark_queue.rules.scheduler_state import TERMINAL, SchedulerState

#: What an account has, in the order of a snapshot.
ACCOUNT = ("weight", "raw_pin", "pin", "raw_last", "regular", "overdue")

#: What a snapshot leaves out of an item where it has this value, as most of it has.
USUAL: Mapping[str, Any] = {
    "priority": 0,
    "available_at": None,
    "origin": None,
    "state": "ready",
    "attempts": 0,
    "losses": 0,
    "lease": None,
    "lease_expires_at": None,
    "worker_id": "",
    "finished_at": None,
    "error": None,
}


def put(state: SchedulerState, plain: Mapping[str, Any]) -> None:
    """Bring a live item to where it is said to be; enter one that is not known."""
    record, values = state.records.get(plain["seq"]), {**USUAL, **plain}
    if record is None or record.state in TERMINAL:
        _add(state, values)
        return
    for name in ("attempts", "losses", "available_at", "error"):
        setattr(record, name, values[name])
    if values["state"] == "claimed":
        until = values["lease_expires_at"]
        state.hold(record, values["lease"], until, values["worker_id"])
    else:
        state.give_back(record)


def end(state: SchedulerState, plain: Mapping[str, Any]) -> None:
    """Bring an item to its end, if it is known and live."""
    record = state.records.get(plain["seq"])
    if record is not None and record.state not in TERMINAL:
        state.finish(record, plain["state"], plain.get("error"))


def enter(state: SchedulerState, plain: Mapping[str, Any]) -> None:
    """Enter a live item that is not known, as a snapshot has it."""
    values = {**USUAL, **plain}
    new, fair_key = NewItem(**values.pop("new")), values.pop("fair_key", None)
    account = state.turns.account(values["priority"], fair_key)
    record = Record(new=new, account=account, **values)
    if record.lease is not None:
        state.leases.setdefault(record.lease, set()).add(record.seq)
    state.enter(record)


def _add(state: SchedulerState, values: Mapping[str, Any]) -> None:
    seq = values["seq"]
    enter(state, values)
    state.last_seq = max(state.last_seq, seq)
    state.tally["enqueued"] += 1
    state.tally[values["state"]] += 1
    if state.distinct is not None:
        state.distinct.take(state.records[seq].new.dedup_key, seq, values["enqueued_at"])


def open_line(state: SchedulerState, priority: int, plain: list[Any]) -> None:
    """Open the account of a key at a priority, with what a snapshot has of it."""
    fair_key, *values = plain
    level = state.turns.level(priority)
    account = level.accounts[fair_key] = Account(level, fair_key, 1.0)
    for name, value in zip(ACCOUNT, values, strict=True):
        setattr(account, name, -math.inf if value is None else value)
    account.reweigh(state.turns.weight(fair_key))
