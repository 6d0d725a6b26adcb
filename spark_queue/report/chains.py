"""One item: its time line, what it waits for, to the end of the chain, and its place in line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timezone
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_queue.config import QueueConfig
from spark_queue.flow import limit_of
from spark_queue.log.disk.liveness import judge
from spark_queue.log.schema import CLAIMED, READY, REFUSED, user_names
from spark_queue.report.model import ItemEntry, Place, Transition
from spark_queue.results import Explanation, ItemProgress, Liveness
from spark_queue.rules.explain import Situation
from spark_queue.rules.pacing import Paces, UnitsAsked
from spark_queue.rules.rule_model import FullKey, ItemReason
from spark_queue.views import explaining
from spark_queue.views.answers import ENTRY, Answer, Answers, Question, ViewSource
from spark_queue.wording import lasting

if TYPE_CHECKING:
    from spark_queue.rules.places import State
    from spark_queue.rules.rule_model import Reason
    from spark_queue.state.store import Store

#: Items that a chain has at most: who is in the way works, or waits for its time, so it is short.
_LONGEST = 20

#: What takes a slot of the limit: an item in flight that the next claim does not end.
_STAYS = f"state = '{CLAIMED}' AND reason NOT IN ('expired', 'lease lost')"

#: What is counted of an item.
_COUNTERS = ("attempts", "losses", "deferrals")

_TIMES = {1: "once", 2: "twice"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """An item of a chain."""

    why: Explanation
    state: str
    failures: int = 0
    losses: int = 0
    deferrals: int = 0
    error: str | None = None
    """What its last failure says; a loss is none."""
    worker: str = ""
    liveness: Liveness | None = None


@dataclass(frozen=True, slots=True)
class Chains:
    """Questions about single items.

    Parameters
    ----------
    answers : Answers
        The rows of views.
    asked : Asked
        What is asked.
    config : QueueConfig
        The configuration in force.
    directory : Path, optional
        Where life locks are; without it a holder is known by its lease.
    progress : callable, optional
        Returns how far the work on items is, by ``seq``, given their leases.
    """

    answers: Answers
    asked: Question
    config: QueueConfig
    directory: Path | None = None
    progress: Callable[[Mapping[int, int]], Mapping[int, ItemProgress]] = lambda _leases: {}

    def history(self, seq: int) -> tuple[Transition, ...]:
        """Return what happened to an item, oldest first; nothing where there is none."""
        rows = self.answers.rows("history", f"seq = {seq}")
        rows.sort(key=itemgetter("log", "step"))
        return tuple(map(_transition, rows))

    def chain(self, seq: int) -> list[Link]:
        """Return why an item is not running, then why the item in its way is not, and so on."""
        links = [self._link(seq)]
        while (by := links[-1].why.by) is not None and len(links) < _LONGEST:
            links.append(self._link(by))
        return links

    def _link(self, seq: int) -> Link:
        found = self.answers.rows("reasons", f"seq = {seq}")
        return self._live(found[0]) if found else self._over(seq)

    def _live(self, row: Answer) -> Link:
        reason: Reason = row["reason"]
        full, short = self._full_key(row), self._short_key(row)
        until = None if row["until"] is None else row["until"].timestamp()
        why = ItemReason(
            reason=reason,
            by=row["held_by"],
            until=until,
            state=row["state"],
            full=full,
            short=short,
        )
        told = {f"_{name}": value for name, value in row.items()}
        states, at = self._state_of(row["held_by"]), self._situation(reason)
        pause = explaining.pause_of(told, self.asked.settings, self.asked.now)
        text = explaining.detail(told, why, states, at, self.directory, pause)
        explained = Explanation(
            seq=row["seq"],
            reason=reason,
            detail=text,
            by=why.by,
            until=row["until"],
            given_back=self._given_back(row["seq"]),
        )
        explained = explaining.with_more(explained, row["more"])
        if row["deferrals"]:
            said = _deferral_text(row["deferrals"], self._last_said(row["seq"], "deferrals"))
            explained = replace(explained, detail=f"{explained.detail}; {said}")
        if reason == "leased":
            progress = self.progress({row["seq"]: row["lease"]}).get(row["seq"])
            explained = _with_progress(explained, progress)
        held_until = row["until"] if reason == "leased" else row["lease_expires_at"]
        return Link(
            why=explained,
            state=row["state"],
            failures=row["attempts"],
            losses=row["losses"],
            deferrals=row["deferrals"],
            error=self._error_of(row),
            worker=row["worker_id"] or f"lease {row['lease']}",
            liveness=judge(self.directory, row["worker_id"], held_until, self.asked.now),
        )

    def _full_key(self, row: Answer) -> FullKey | None:
        if row["full_limit"] is None:
            return None
        by = limit_of(self.config, row["full_limit"]).by
        return FullKey(by=by, key=row["full_key"], used=row["used"], most=row["most"])

    def _short_key(self, row: Answer) -> UnitsAsked | None:
        if row["rate"] is None:
            return None
        return Paces(self.config).ask((-1 - row["rate"], row["rate_key"]), row["rate_units"])

    def _error_of(self, row: Answer) -> str | None:
        if not row["attempts"] or row["failed_step"] is None:
            return None
        return self._last_said(row["seq"], "attempts")

    def _last_said(self, seq: int, counter: str) -> str | None:
        """Return the error of the last transition that an item was counted up by."""
        error, count = None, 0
        moves = self.answers.rows("transitions", f"seq = {seq}")
        for move in sorted(moves, key=itemgetter("step")):
            if move[counter] > count:
                error, count = move["error"], move[counter]
        return error

    def _given_back(self, seq: int) -> int:
        """Return how often an item was given back: ready again, charged nothing."""
        moves = sorted(self.answers.rows("transitions", f"seq = {seq}"), key=itemgetter("step"))
        return sum(
            (was["state"], now["state"]) == (CLAIMED, READY)
            and all(was[name] == now[name] for name in _COUNTERS)
            for was, now in pairwise(moves)
        )

    def _state_of(self, seq: int | None) -> dict[int, State]:
        if seq is None:
            return {}
        (row,) = self.answers.rows("reasons", f"seq = {seq}")
        return {seq: row["state"]}

    def _situation(self, reason: Reason) -> Situation:
        at = Situation(
            config=self.config,
            paused=self.asked.settings.paused,
            now=self.asked.now.timestamp(),
            in_flight=0,
            paces=Paces(self.config),
        )
        if reason != "limit":
            return at
        return replace(at, in_flight=self.answers.count("reasons", _STAYS))

    def _over(self, seq: int) -> Link:
        moves = self.history(seq)
        if not moves:
            text = "no row of the queue has this seq"
            return Link(why=Explanation(seq=seq, reason="unknown", detail=text), state="")
        last = moves[-1]
        if last.state == REFUSED:
            return Link(why=explaining.explain_refusal(seq, last.duplicate_of), state=REFUSED)
        errors = [move.error for move in moves if move.error is not None]
        error = errors[-1] if errors else None
        why = explaining.explain_end(seq, last.state, last.at, error)
        return Link(why=why, state=last.state, failures=last.attempts, error=error)


def sentence(chain: Sequence[Link], now: datetime) -> str:
    """Say a chain in one sentence, from the item to the end."""
    *held, last = chain
    said = "".join(_waits(link) for link in held)
    return f"item {chain[0].why.seq} {said}{_end(last, now)}"


def _waits(link: Link) -> str:
    if link.why.reason == "duplicate":
        return f"was refused, as it has the key of item {link.why.by}, which "
    if link.why.reason == "key limit":
        return f"waits for room: {link.why.detail}, the first of them item {link.why.by}, which "
    return f"waits for item {link.why.by}, which "


def _end(link: Link, now: datetime) -> str:
    """Return the last link of a chain: what an item does, or waits for besides items."""
    why = link.why
    ends = "" if why.until is None else f" in {lasting((why.until - now).total_seconds())}"
    failed = _failure_text(link)
    if why.reason == "leased" and link.liveness is Liveness.GONE:
        return f"was in the hands of {link.worker}, which is gone; the next claim takes it over"
    texts: dict[Reason, str] = {
        "leased": f"is in the hands of {link.worker}{_so_far(why)}, and may be taken over{ends}",
        "delayed": f"{failed}, next attempt{ends}" if failed else f"is delayed and may run{ends}",
        "paused": "waits until the queue is resumed",
        "key paused": f"waits, as {why.detail}",
        **dict.fromkeys(("key rate", "rate"), f"waits for its turn by a rate: {why.detail}"),
        "expired": "is past its time, which the next claim logs",
        "lease lost": "lost its last lease, which the next claim logs",
        "key limit": f"waits for room: {why.detail}",
        "limit": "waits until fewer items are in flight",
        "runnable": f"{failed + ' and ' if failed else ''}may run at the next claim",
        "finished": f"is {why.detail}",
        "refused": "was refused, as a reader was full",
        "unknown": "is none of this queue",
    }
    return texts.get(why.reason, why.detail)


def _so_far(why: Explanation) -> str:
    return "" if why.progress is None else f" ({why.progress})"


def _with_progress(why: Explanation, progress: ItemProgress | None) -> Explanation:
    if progress is None:
        return why
    return replace(why, progress=progress, detail=f"{why.detail}; {progress}")


def _failure_text(link: Link) -> str:
    if link.state not in (READY, CLAIMED):
        return ""
    said = [f"failed {_times(link.failures)}{_with(link.error)}"] if link.failures else []
    said += [f"was lost {_times(link.losses)}"] if link.losses else []
    said += [_deferral_text(link.deferrals)] if link.deferrals else []
    # Once is nothing to speak of: another item of its claim may have failed.
    back = link.why.given_back
    return ", ".join([*said, f"was given back {_times(back)}"] if back > 1 else said)


def _deferral_text(deferrals: int, error: str | None = None) -> str:
    return f"was deferred {_times(deferrals)}{_with(error)}"


def _times(count: int) -> str:
    return _TIMES.get(count, f"{count} times")


def _with(error: str | None) -> str:
    lines = (error or "").strip().splitlines()
    return f" with {lines[0]!r}" if lines else ""


def _transition(row: Mapping[str, Any]) -> Transition:
    """Return a row of the view ``history`` as a line of a time line."""
    until = {"claimed": "lease_expires_at", "ready": "available_at"}.get(row["state"])
    shared = {one.name: row[one.name] for one in fields(Transition) if one.name in row}
    counts = {name: row[name] or 0 for name in _COUNTERS}
    return Transition(**{**shared, **counts}, until=row[until] if until else None)


def read_entry(store: Store, source: ViewSource, answers: Answers, seq: int) -> ItemEntry | None:
    """Read what an item is; ``None`` where there is none."""
    row = source.find_entries(store, [seq], [*user_names(store.columns()), *ENTRY]).get(seq)
    if row is None:
        return None
    # Refused rows have no place.
    stands = answers.rows("status", f"seq = {seq}")
    facts = {name[1:]: row[name] for name in ENTRY}
    for status in stands:
        facts |= {"available_at": status["available_at"], "expires_at": status["deadline"]}
    columns = {name: _in_utc(value) for name, value in row.items() if name not in ENTRY}
    return ItemEntry(columns=columns, **{name: _in_utc(value) for name, value in facts.items()})


def _in_utc(value: Any) -> Any:
    """Return an instant in UTC; a time without an offset stays."""
    is_instant = isinstance(value, datetime) and value.tzinfo is not None
    return value.astimezone(timezone.utc) if is_instant else value


#: Why an item waits that has a place.
_WAITS = frozenset(
    {
        *("runnable", "limit", "paused", "delayed", "key paused", "held by group", "key limit"),
        *("key rate", "rate"),
    }
)


def read_place(
    answers: Answers, asked: Question, why: Explanation, config: QueueConfig
) -> Place | None:
    """Read where an item stands; ``None`` where it waits for no claim.

    The estimate goes by how many items were claimed of late, and by how long half of them were
    worked on: of a group one after the other.
    """
    if why.reason not in _WAITS:
        return None
    (row,), (taking,) = (
        answers.rows("places_in_line", f"seq = {why.seq}"),
        answers.rows("claim_rates"),
    )
    standing = {name: row[name] for name in ("ahead", "held_ahead", "members_ahead")}
    if asked.settings.paused:
        return Place(**standing, least=None, most=None, why="the queue is paused")
    if not taking["per_second"]:
        return Place(**standing, least=None, most=None, why="nothing was claimed of late")
    least, most = _estimate(row, taking, config.group_limit)
    delay = 0.0 if why.until is None else max(0.0, (why.until - asked.now).total_seconds())
    return Place(**standing, least=max(delay, least), most=most and max(delay, most))


def _estimate(row: Answer, taking: Answer, group_limit: int) -> tuple[float, float | None]:
    in_group = (taking["work"] or 0.0) * (row["members_ahead"] // group_limit)
    least = max(in_group, row["ahead"] / taking["most"])
    if not taking["least"]:
        return least, None
    return least, max(in_group, (row["ahead"] + row["held_ahead"] + 1) / taking["least"])
