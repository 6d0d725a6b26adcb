"""Report of a step: a line of the log and a call of its listeners."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from spark_queue.wording import visible

logger = logging.getLogger("spark_queue")


def _escape(record: logging.LogRecord) -> bool:
    """Keep texts of items from steering a terminal, and from standing as records of their own."""
    if isinstance(record.args, tuple):
        record.args = tuple(map(_safe_value, record.args))
    if record.exc_info and not record.exc_text:
        said = logging.Formatter().formatException(record.exc_info)
        shown = visible(said, lines=True)
        # Left alone where it is safe: a formatter may have its own form.
        record.exc_text = None if shown == said else shown
    return True


def _safe_value(value: object) -> object:
    if isinstance(value, int | float):
        return value
    try:
        said = str(value)
    except Exception:  # noqa: BLE001 - an error that cannot say what it is
        return f"a {type(value).__name__}"
    shown = visible(said)
    return value if shown == said else shown


logger.addFilter(_escape)

LogName = Literal["queue", "status"]

#: The engine that decides a step: Python an item at a time, DuckDB or Spark a set of them by SQL,
#: or Arrow, where an operator moves items without Spark.
Engine = Literal["python", "duckdb", "arrow", "spark"]

#: Receives the facts of every committed step.
Listener = Callable[["StepFacts"], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """The seconds that the parts of a step took, in the try that was not lost."""

    decide: float = 0.0
    """To look at the logs and decide the rows."""
    commit: float = 0.0
    """To write the rows and commit them."""
    apply: float = 0.0
    """To bring what this process remembers of the queue up to the step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFacts:
    """What a committed step did."""

    queue: str
    """The queue's name or path."""
    log: LogName
    """The log that the step belongs to."""
    step: int
    """The number of the step."""
    action: str
    """What was done: enqueue, claim, settle, renew, cancel, configure, checkpoint, ..."""
    counts: dict[str, int]
    """How many items, by what became of them."""
    seconds: float
    """How long the operation took, staging and lost tries included."""
    tries: int
    """How many step numbers were tried; 1 where nobody else wrote."""
    lease: int = 0
    """The claim that it granted, settled or renewed, by the step that granted it; 0 for none. A
    step that settles a claim and grants the next names the settled one; the next has its own
    number."""
    failed: int = 0
    """Of the items that it made ready again, how many failed."""
    deferred: int = 0
    """Of the items that it made ready again, how many their holder deferred; the others were given
    back."""
    reader: int = 0
    """The number of the reader whose status log it is a step of: each numbers its steps, and so its
    claims, on its own. 0 for the default reader, and for a step of the item log."""
    engine: Engine = "python"
    """The engine that decided the step."""
    times: StepTimes = field(default_factory=StepTimes)
    """The seconds that its parts took."""


def tell(facts: StepFacts, listener: Listener | None) -> None:
    """Tell the logger and the listener what a step did.

    The step is committed. A listener that fails is logged, and keeps nobody from what is theirs
    by that step: a claim whose holder never heard of it would wait for its lease to run out.
    """
    counted = " ".join(f"{name}={count}" for name, count in facts.counts.items())
    logger.info(
        "%s %s %s step %d: %s in %.2f s, try %d%s",
        facts.queue,
        facts.action,
        facts.log,
        facts.step,
        counted or "nothing",
        facts.seconds,
        facts.tries,
        f", lease {facts.lease}" if facts.lease else "",
    )
    if listener is None:
        return
    try:
        listener(facts)
    except Exception:
        logger.exception("%s: the listener failed at %s", facts.queue, facts)
