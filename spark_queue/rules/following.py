"""Following: decisions of others applied as facts; and the state of a scheduler as plain data."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from spark_queue.errors import InvalidArgumentError
from spark_queue.flow import is_paced
from spark_queue.rules.dedup_keys import Holder, kept_for
from spark_queue.rules.fairness import Account, Level
from spark_queue.rules.pacing import Debt
from spark_queue.rules.places import freed_at
from spark_queue.rules.rule_model import Grant, Leased, NewItem, Record
from spark_queue.rules.scheduler_state import TERMINAL, SchedulerState

#: What an account has, in the order of a snapshot.
ACCOUNT = ("weight", "raw_pin", "pin", "raw_last", "regular", "overdue")

#: What a snapshot leaves out of an item where it has this value, as most of it has.
USUAL: Mapping[str, Any] = {
    "priority": 0,
    "available_at": None,
    "origin": None,
    "chain": None,
    "chain_at": None,
    "state": "ready",
    "attempts": 0,
    "losses": 0,
    "deferrals": 0,
    "lease": None,
    "lease_expires_at": None,
    "worker_id": "",
    "finished_at": None,
    "error": None,
}


def put(state: SchedulerState, plain: Mapping[str, Any]) -> None:
    """Set a live item to its new state; add an unknown one."""
    record, values = state.records.get(plain["seq"]), {**USUAL, **plain}
    if record is None or record.state in TERMINAL:
        _add(state, values)
        return
    for name in ("attempts", "losses", "deferrals", "available_at", "error"):
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
    new, fair_key = _new_of(values.pop("new")), values.pop("fair_key", None)
    account = state.turns.account(values["priority"], fair_key)
    record = Record(new=new, account=account, **values)
    if record.lease is not None and record.lease_expires_at is not None:
        record.freed_at = freed_at(record.lease_expires_at, state.config)
        state.leases.setdefault(record.lease, set()).add(record.seq)
    state.enter(record)


def _new_of(plain: Mapping[str, Any]) -> NewItem:
    # JSON has lists alone.
    lists = {name: tuple(plain[name]) for name in _LISTS if name in plain}
    return NewItem(**{**plain, **lists}) if lists else NewItem(**plain)


def _add(state: SchedulerState, values: Mapping[str, Any]) -> None:
    seq = values["seq"]
    enter(state, values)
    state.last_seq = max(state.last_seq, seq)
    state.tally["enqueued"] += 1
    state.tally[values["state"]] += 1
    if state.distinct is not None:
        state.distinct.take(state.records[seq].new.dedup_key, seq, values["enqueued_at"])


def open_line(state: SchedulerState, priority: int, plain: list[Any]) -> None:
    """Open the account of a key at a priority from a snapshot."""
    fair_key, *values = plain
    level = state.turns.level(priority)
    account = state.turns.open(level, fair_key, 1.0)
    for name, value in zip(ACCOUNT, values, strict=True):
        setattr(account, name, -math.inf if value is None else value)
    account.reweigh(state.turns.weight(fair_key))


#: The format of a snapshot; a release reads its own and older ones.
FORMAT = 2

_STATE = ("step", "last_seq", "paused", "keep_finished")
_REQUIRED = ("seq", "raw_tag", "enqueued_at")
_LISTS = ("flow_keys", "units")

_NEW: Mapping[str, Any] = {field.name: field.default for field in dataclasses.fields(NewItem)}


def dump(state: SchedulerState) -> dict[str, Any]:
    """Return the state as plain data, without values that follow from it."""
    holders = [] if state.distinct is None else state.distinct.all_of()
    return {
        "format": FORMAT,
        **{name: getattr(state, name) for name in _STATE},
        "clock": _finite(state.clock),
        "tally": dict(state.tally),
        "levels": [_dump_level(level) for level in state.turns.levels.values()],
        "items": [_dump_record(record) for record in state.records.values()],
        **_dump_pauses(state),
        "refused": [list(pair) for pair in state.refused.items()],
        "holders": [[key, h.seq, _finite(h.until), h.live] for key, h in holders],
        "grants": [[claim_id, dataclasses.asdict(g)] for claim_id, g in state.grants.items()],
        **_dump_debts(state),
    }


def _dump_debts(state: SchedulerState) -> dict[str, Any]:
    """Return what keys owe, and owed after each claim, if there are some."""
    if not is_paced(state.config):
        return {}
    owed = state.bounds.paces.name_debts(state.bounds.paces.debts)
    charges = ((n, *of, debt) for n, found in state.charges.items() for of, debt in found.items())
    return {
        name: [[*of, *dataclasses.astuple(debt)] for *of, debt in found]
        for name, found in (("debts", owed), ("charges", charges))
    }


def load(state: SchedulerState, plain: Mapping[str, Any]) -> None:
    """Fill an empty state from plain data.

    Raises
    ------
    InvalidArgumentError
        When the data has another format.
    """
    if plain.get("format") not in {1, FORMAT}:
        raise InvalidArgumentError(
            f"the snapshot has format {plain.get('format')!r}, this release reads up to {FORMAT}"
        )
    if plain["format"] == 1:
        plain = _upgrade(plain)
    for name in _STATE:
        setattr(state, name, plain[name])
    state.clock = -math.inf if plain["clock"] is None else plain["clock"]
    state.tally.update(plain["tally"])
    for level in plain["levels"]:
        _load_level(state, level)
    pauses = plain.get("pauses")
    if pauses:
        state.pause_keys({(by, key): math.inf if u is None else u for by, key, u in pauses})
    _load_debts(state, plain)
    for item in plain["items"]:
        _load_record(state, item)
    state.refused.update((seq, holder) for seq, holder in plain["refused"])
    _load_holders(state, plain["holders"])
    for claim_id, grant in plain["grants"]:
        state.remember(claim_id, _load_grant(grant))
    state.turns.rest_idle()


def _load_debts(state: SchedulerState, plain: Mapping[str, Any]) -> None:
    for by, key, *debt in plain.get("debts", ()):
        state.bounds.paces.learn(by, key, Debt(*debt))
    for lease, by, key, *debt in plain.get("charges", ()):
        state.charges[lease] = {**state.charges.get(lease, {}), (by, key): Debt(*debt)}


def _upgrade(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return data of format 1, whose tags were turns at their weights, as format 2."""
    levels, maps = [], {}
    for level in plain["levels"]:
        accounts = []
        for fair_key, weight, base, scale, last, *handed_out in level["accounts"]:
            maps[level["priority"], fair_key] = (weight, base, scale)
            accounts.append([fair_key, weight, 0.0, 0.0, last * weight, *handed_out])
        levels.append({**level, "accounts": accounts})
    items = []
    for item in plain["items"]:
        at = (item.get("priority", 0), item.get("fair_key"))
        weight, base, scale = maps.get(at, (1.0, 0.0, 1.0))
        # At its end an item keeps the turn.
        is_over = item.get("state") in TERMINAL
        raw = item["raw_tag"] if is_over else (base + scale * item["raw_tag"]) * weight
        items.append({**item, "raw_tag": raw})
    return {**plain, "levels": levels, "items": items}


def _dump_pauses(state: SchedulerState) -> dict[str, Any]:
    """Return the pauses of keys, if there are some."""
    if state.pauses is None:
        return {}
    return {"pauses": [[*key, _finite(until)] for key, until in state.pauses.keys.items()]}


def _dump_level(level: Level) -> dict[str, Any]:
    return {
        "priority": level.priority,
        "turn": level.turn,
        "seq": level.seq,
        "accounts": [_dump_account(account) for account in level.accounts.values()],
    }


def _dump_account(account: Account) -> list[Any]:
    return [account.fair_key, *(_finite(getattr(account, name)) for name in ACCOUNT)]


def _dump_record(record: Record) -> dict[str, Any]:
    plain = {name: getattr(record, name) for name in _REQUIRED}
    plain |= _unusual(record, USUAL)
    plain["new"] = new = _unusual(record.new, _NEW)
    for name in _LISTS:
        if name in new:
            new[name] = list(new[name])
    if record.account.fair_key is not None:
        plain["fair_key"] = record.account.fair_key
    return plain


def _unusual(of: object, usual: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, other in usual.items() if (value := getattr(of, name)) != other}


def _load_level(state: SchedulerState, plain: Mapping[str, Any]) -> None:
    level = Level(plain["priority"], plain["turn"], plain["seq"])
    state.turns.levels[level.priority] = level
    for account in plain["accounts"]:
        open_line(state, level.priority, account)


def _load_record(state: SchedulerState, plain: Mapping[str, Any]) -> None:
    values = {**USUAL, **plain}
    if values["state"] not in TERMINAL:
        enter(state, plain)
        return
    new, fair_key = _new_of(values.pop("new")), values.pop("fair_key", None)
    closed = Account(Level(values["priority"]), fair_key, 1.0)
    state.records[plain["seq"]] = Record(new=new, account=closed, place="done", **values)


def _load_holders(state: SchedulerState, plain: list[Any]) -> None:
    if state.distinct is None:
        return
    unbounded = math.copysign(math.inf, kept_for(state.config.dedup_scope))
    for key, seq, until, live in plain:
        state.distinct.put(key, Holder(seq, unbounded if until is None else until, live))


def _load_grant(plain: Mapping[str, Any]) -> Grant:
    items = tuple(Leased(**item) for item in plain["items"])
    return Grant(
        lease=plain["lease"],
        lease_expires_at=plain["lease_expires_at"],
        items=items,
        expired=tuple(plain["expired"]),
        dead=tuple(plain["dead"]),
        replaced=tuple((seq, by) for seq, by in plain.get("replaced", ())),
        debts=tuple((by, key, Debt(**debt)) for by, key, debt in plain.get("debts", ())),
        next_at=plain.get("next_at"),
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
