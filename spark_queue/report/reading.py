"""Reading of a report: the questions about each reader, and its panels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from spark_queue import checks
from spark_queue.clock import Clock
from spark_queue.commands import readers
from spark_queue.config import QueueConfig
from spark_queue.errors import InvalidArgumentError
from spark_queue.flow import is_paced, limit_of
from spark_queue.log.addresses import QueueAddress
from spark_queue.log.disk import liveness
from spark_queue.log.heads import QueueHead, Registered
from spark_queue.log.schema import user_names
from spark_queue.log.session_options import PlainSession
from spark_queue.log.step_events import LogName
from spark_queue.reader_config import ReaderConfig, require_reader_name
from spark_queue.report import holders
from spark_queue.report.chains import Chains, read_entry, read_place, sentence
from spark_queue.report.commands import redrive_command
from spark_queue.report.lines import (
    DepthPoint,
    ErrorGroup,
    FlowPoint,
    Overview,
    ReaderLine,
    RetryPoint,
)
from spark_queue.report.model import (
    HOUR,
    FullLimit,
    ItemReport,
    LongestWait,
    OutrankedPriority,
    Report,
    ServiceState,
    StarvingKey,
    StuckItem,
    Vitals,
)
from spark_queue.report.paced import OF_RATES, Owed, read_tenants
from spark_queue.sql.file_rows import log_of
from spark_queue.sql.planner_choice import planner_of
from spark_queue.state import existence, fence
from spark_queue.state.store import Store
from spark_queue.views.answers import Answer, Answers, AsOf, Ends, Question, ViewSource, ends_at
from spark_queue.views.operator_steps import Pauses
from spark_queue.wording import shorten

LOGS: tuple[LogName, ...] = ("queue", "status")

#: What says how a queue does, and what else a report has of its logs.
_VITALS = (
    *("overview", "retries", "workers", "errors", "groups"),
    *("starving", "full_limits", "outranked", "stuck", "longest_wait", "settings_changes"),
)
_PANELS = ("depth", "flow", "tenants", "behind", "steps")


def source_of(store: Store) -> ViewSource:
    """Return the views of a queue: over files read here if possible, else by Spark.

    Raises
    ------
    SparkNeededError
        When only Spark reads them, and the queue was opened without.
    """
    if isinstance(store.session, PlainSession):
        for which in LOGS:
            log_of(store, which)
    is_here = all(store.native(which) is not None for which in LOGS)
    name = "file_source" if is_here else "spark_source"
    source: ViewSource = import_module(f"spark_queue.views.{name}").source()
    return source


def read(
    store: Store,
    as_of: AsOf = None,
    window: timedelta = HOUR,
    source: ViewSource | None = None,
) -> Report:
    """Read a report of a queue as one of its readers sees it.

    Parameters
    ----------
    store : Store
        The queue, as the reader sees it.
    as_of : int or datetime, optional
        A step of the status log, or an instant, to look back at; now by default.
    window : timedelta
        How long before that instant counts as now.
    source : ViewSource, optional
        By whom the logs are read; by default as :func:`source_of` says.

    Raises
    ------
    InvalidArgumentError
        When the queue has no such step, a time has no offset, or the window is not above zero.
    """
    checks.require_as_of(as_of)
    checks.require_duration("window", window)
    ends = ends_at(store, as_of)
    asked = asked_of(store, ends, window)
    source = source or source_of(store)
    with source.over(store, ends, asked) as answers:
        return _report(store, source, answers, ends, asked)


def read_vitals(
    store: Store,
    as_of: AsOf = None,
    window: timedelta = HOUR,
    source: ViewSource | None = None,
) -> Vitals:
    """Read how a queue does; parameters and errors as for :func:`read`."""
    checks.require_as_of(as_of)
    ends = ends_at(store, as_of)
    asked = asked_of(store, ends, window)
    source = source or source_of(store)
    with source.over(store, ends, asked) as answers:
        owed = Owed.read(source, store, ends, asked)
        return Vitals(**_vitals(store, answers, ends, asked, _panels(answers, asked), owed))


def read_item(
    store: Store, seq: int, as_of: AsOf = None, source: ViewSource | None = None
) -> ItemReport:
    """Read what happened to an item, and what it waits for; parameters as for :func:`read`."""
    checks.require_seq("seq", seq)
    checks.require_as_of(as_of)
    ends = ends_at(store, as_of)
    asked = asked_of(store, ends, HOUR).about(seq)
    source = source or source_of(store)
    with source.over(store, ends, asked) as answers:
        find = partial(source.find_progress, store, last=ends.head.step)
        about = Chains(answers, asked, asked.config, holders.directory_at(store, ends), find)
        history, chain = about.history(seq), about.chain(seq)
        entry = read_entry(store, source, answers, seq) if history else None
        # Where the order of service stood then is not known.
        place = None if ends.at else read_place(answers, asked, chain[0].why, asked.config)
    return ItemReport(
        queue=store.name,
        reader=store.registered().name,
        as_of=asked.now,
        seq=seq,
        history=history,
        chain=tuple(link.why for link in chain),
        text=sentence(chain, asked.now),
        entry=entry,
        place=place,
    )


def open_report(
    path: str | Path,
    *,
    reader: str | None = None,
    as_of: AsOf = None,
    window: timedelta = HOUR,
    clock: Clock | None = None,
) -> Report:
    """Read a report of a queue on this machine's disk, without Spark.

    Parameters
    ----------
    path : str or Path
        Where its tables are.
    reader : str, optional
        The reader that sees it; the default one if none is named.
    as_of, window
        As for :func:`read`; the errors are the same.
    clock : Clock, optional
        Asked once; the system's by default.

    Raises
    ------
    QueueNotFoundError
        When there is no queue.
    ReaderNotFoundError
        When there is no such reader.
    InvalidArgumentError
        When the reader has no log.
    SparkNeededError
        When only Spark reads the tables.
    """
    return read(seen_at(path, reader, clock), as_of, window)


def seen_at(path: str | Path, reader: str | None = None, clock: Clock | None = None) -> Store:
    """Return a queue on this machine's disk, as a reader sees it; nothing is written for one.

    Raises
    ------
    InvalidArgumentError
        When the reader has no log.
    """
    place = checks.require_path("path", path)
    address = QueueAddress(place if "/" in place else f"./{place}")
    store = Store.of(PlainSession(), address, clock)
    store.settings(existence.require_exists(store))
    if reader is None:
        return readers.default(store)
    require_reader_name(reader)
    seen = readers.look_up(store, reader)
    if not existence.is_prepared(seen):
        raise InvalidArgumentError(
            f"reader is {shorten(reader)}: it has no log; its next claim makes one"
        )
    return seen


def asked_of(store: Store, ends: Ends, window: timedelta, at: datetime | None = None) -> Question:
    """Return the question of a report to a reader's logs.

    Parameters
    ----------
    ends : Ends
        The last steps that are looked at.
    window : timedelta
        How long before the instant counts as now.
    at : datetime, optional
        The instant; by default the steps' own, or now.
    """
    now = (at or ends.at or store.clock.now()).astimezone(timezone.utc)
    settings, facts = store.settings(ends.head), _reader_facts(store, ends)
    return Question(
        now=now,
        since=now - window,
        settings=settings,
        max_age=ReaderConfig.from_dict(facts.config).max_age,
        play=lambda item=None: planner_of(store).play(now, item),
    )


def _queue_head(store: Store, ends: Ends) -> QueueHead:
    """Return the head of the item log at a past step, or the newest."""
    return store.queue_head() if ends.queue_head is None else ends.queue_head


def _reader_facts(store: Store, ends: Ends) -> Registered:
    """Return the facts of a reader at a past step; the newest if it was unknown then."""
    return _queue_head(store, ends).readers.get(store.reader) or store.registered()


def _report(
    store: Store, source: ViewSource, answers: Answers, ends: Ends, asked: Question
) -> Report:
    name, reader = store.name, store.registered().name
    found = _panels(answers, asked, *_PANELS)
    owed = Owed.read(source, store, ends, asked)
    vitals = _vitals(store, answers, ends, asked, found, owed)
    find = partial(source.find_progress, store, last=ends.head.step)
    vitals["workers"] = holders.with_progress(vitals["workers"], answers, find)
    return Report(
        **vitals,
        depth=tuple(DepthPoint(**row) for row in found["depth"]),
        flow=tuple(FlowPoint(**row) for row in found["flow"]),
        tenants=read_tenants(found["tenants"], asked, found.get("paced_keys", ())),
        readers=tuple(_readers(store, source, found["behind"], ends, asked)),
        steps=holders.steps(found["steps"], name, reader),
        columns=tuple(user_names(store.columns())),
    )


def _panels(answers: Answers, asked: Question, *more: str) -> dict[str, list[Answer]]:
    return answers.panels(*_VITALS, *(OF_RATES if is_paced(asked.config) else ()), *more)


def _vitals(
    store: Store,
    answers: Answers,
    ends: Ends,
    asked: Question,
    found: Mapping[str, list[Answer]],
    owed: Owed,
) -> dict[str, Any]:
    (overview,) = found["overview"]
    refused, by_itself = _queue_head(store, ends).refused, answers.judges_each()
    directory = holders.directory_at(store, ends)
    name, reader = store.name, store.registered().name
    return {
        "queue": name,
        "reader": reader,
        "as_of": asked.now,
        "window": asked.now - asked.since,
        "step": ends.head.step,
        "paused": asked.settings.paused,
        "service": _service(store, ends, asked, found["settings_changes"], directory),
        "overview": Overview(**overview, refused=refused, judges_each=by_itself),
        "retries": tuple(RetryPoint(**row) for row in found["retries"]),
        "workers": holders.workers(found["workers"], directory, asked.now),
        "errors": tuple(error_group(name, reader, row) for row in found["errors"]),
        "groups": holders.groups(found["groups"], directory, asked.now),
        "starving": tuple(StarvingKey(**row) for row in found["starving"]),
        "paused_keys": asked.settings.paused_at(asked.now),
        "full_limits": tuple(_full_limit(asked.config, row) for row in found["full_limits"]),
        **owed.facts(answers, found),
        "outranked": tuple(OutrankedPriority(**row) for row in found["outranked"]),
        "stuck": tuple(StuckItem(**row) for row in found["stuck"]),
        "waits_longest": next((LongestWait(**row) for row in found["longest_wait"]), None),
    }


def _full_limit(config: QueueConfig, row: Answer) -> FullLimit:
    return FullLimit(by=limit_of(config, row.pop("nth")).by, **row)


def _service(
    store: Store,
    ends: Ends,
    asked: Question,
    configured: Sequence[Answer],
    directory: Path | None,
) -> ServiceState:
    hold, known = _queue_head(store, ends).hold, Pauses.of(configured)
    pause, resume = known.paused or {}, known.resumed or {}
    return ServiceState(
        paused_at=pause.get("at"),
        paused_by=pause.get("who"),
        resumed_at=resume.get("at"),
        has_front=not fence.is_over(hold, asked.now, store.handle.place.directory()),
        running=None if directory is None else tuple(liveness.running(directory)),
        weights=store.settings(ends.head).config.weights,
        claim_size=ends.head.claim_size,
    )


def error_group(queue: str, reader: str, row: Mapping[str, Any]) -> ErrorGroup:
    """Return a line of the panel of errors."""
    named = ("first_seq", "last_seq", "newest_seq")
    rest = {name: value for name, value in row.items() if name not in named}
    return ErrorGroup(
        **rest,
        samples=tuple(dict.fromkeys(row[name] for name in named)),
        redrive=redrive_command(queue, reader, row["wording"]) if row["dead"] else "",
    )


def _readers(
    store: Store, source: ViewSource, behind: Sequence[Answer], ends: Ends, asked: Question
) -> Iterator[ReaderLine]:
    """Return the lag of each reader of that time that is still registered."""
    then, known = _queue_head(store, ends), store.queue_head().readers
    for number, facts in then.readers.items():
        other = store.of_reader(number)
        if number not in known:
            continue
        if facts.streams or not existence.is_prepared(other):
            yield _untouched_line(then, facts)
        elif number == store.reader:
            yield _line(other, behind, ends, asked)
        else:
            yield from _other(other, source, ends, asked)


def _other(store: Store, source: ViewSource, ends: Ends, asked: Question) -> Iterator[ReaderLine]:
    with suppress(InvalidArgumentError):
        then = ends_at(store, ends.at)
        about = asked_of(store, then, asked.now - asked.since, asked.now)
        with source.over(store, then, about) as answers:
            yield _line(store, answers.rows("behind"), then, about)


def _untouched_line(queue: QueueHead, facts: Registered) -> ReaderLine:
    return ReaderLine(
        reader=facts.name,
        streams=facts.streams,
        items=queue.items - facts.since_items,
        open_items=0,
        oldest_age=None,
        steps=queue.step - facts.since_step,
        lost=facts.lost,
        last_step_at=None,
        paused=False,
    )


def _line(store: Store, behind: Sequence[Answer], ends: Ends, asked: Question) -> ReaderLine:
    facts, (row,) = _reader_facts(store, ends), behind
    first, at = row.pop("first_step"), ends.head.at
    last = _queue_head(store, ends).step
    return ReaderLine(
        reader=facts.name,
        streams=False,
        **row,
        steps=0 if first is None else last - first + 1,
        lost=facts.lost,
        last_step_at=datetime.fromisoformat(at) if at else None,
        paused=asked.settings.paused,
    )
