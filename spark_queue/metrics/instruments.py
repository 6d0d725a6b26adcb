"""The metrics of a queue: the one list of their names, which exporters and documents go by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: How a metric behaves: a number that goes up and down, one that only goes up, or many durations.
Kind = Literal["gauge", "counter", "histogram"]

#: The label of keys beyond the ones with samples of their own.
REST = "(rest)"

#: The label of items that have no fair key.
NO_KEY = "(none)"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric."""

    name: str
    """As OpenTelemetry names it: with dots, and without its unit."""
    kind: Kind
    unit: str
    """``s``, or the counted thing in braces."""
    labels: tuple[str, ...]
    help: str

    @property
    def prometheus(self) -> str:
        """Its name as Prometheus has it, which is what an exporter of OpenTelemetry makes of it."""
        unit = "_seconds" if self.unit == "s" else ""
        end = "_total" if self.kind == "counter" else ""
        return self.name.replace(".", "_") + unit + end


_STEP = ("queue", "action")
_READER = ("queue", "reader")

#: Told of each step, by who makes it.
STEP_SECONDS = Metric(
    "spark_queue.step.duration", "histogram", "s", _STEP, "How long steps took, lost tries too."
)
LOST_STEPS = Metric(
    "spark_queue.step.lost", "counter", "{try}", _STEP, "Tries that other writers were ahead of."
)
ITEMS = Metric(
    "spark_queue.items",
    "counter",
    "{item}",
    (*_STEP, "outcome"),
    "Items by what a step made of them; failed ones are tried again.",
)
WORK = Metric(
    "spark_queue.work.duration", "histogram", "s", ("queue",), "From a claim to its settling."
)

#: Seen by a look at the queue.
DEPTH = Metric("spark_queue.depth", "gauge", "{item}", (*_READER, "state"), "Items by state.")
OLDEST = Metric(
    "spark_queue.oldest_age",
    "gauge",
    "s",
    _READER,
    "How long the ready item that waits longest has: since its enqueue, or the end of its delay.",
)
LAG = Metric("spark_queue.lag", "gauge", "{item}", _READER, "Items that a reader is not done with.")
WAITING = Metric(
    "spark_queue.waiting",
    "gauge",
    "{item}",
    (*_READER, "reason"),
    "Ready items by what keeps them from a claim; runnable ones wait for their turn only.",
)
LATE = Metric("spark_queue.late", "gauge", "{item}", _READER, "Claimed items whose lease ran out.")
RECENT = Metric(
    "spark_queue.recent",
    "gauge",
    "{item}",
    (*_READER, "event"),
    "What happened to items in the window that a look looks back.",
)
TIME_LEFT = Metric(
    "spark_queue.time_left", "gauge", "s", _READER, "Until nothing is open, at the window's pace."
)
CLAIM_SIZE = Metric(
    "spark_queue.claim_size",
    "gauge",
    "{item}",
    (*_READER, "reason"),
    "Items that the newest claim could get, by why so many, where its length is measured.",
)
PAUSED_KEYS = Metric(
    "spark_queue.paused_keys", "gauge", "{key}", _READER, "Keys of which no item starts."
)
PACED_KEYS = Metric(
    "spark_queue.paced_keys",
    "gauge",
    "{key}",
    (*_READER, "by"),
    "Keys that lack units of a rate; that of the whole queue is by nothing.",
)
NEXT_START = Metric(
    "spark_queue.next_start",
    "gauge",
    "s",
    (*_READER, "by"),
    "Until the next unit of the first of these keys may start; 0 where none lacks units.",
)
UNITS_STARTED = Metric(
    "spark_queue.units_started",
    "gauge",
    "{unit}",
    (*_READER, "by"),
    "Units of a rate that started in the window; an item is one where the rate has no units.",
)
PAUSED = Metric("spark_queue.paused", "gauge", "{queue}", _READER, "1 where claims get nothing.")
SINCE_CLAIM = Metric(
    "spark_queue.since_claim",
    "gauge",
    "s",
    _READER,
    "Since anybody claimed last; where nobody has, since items could run.",
)
SINCE_ACK = Metric(
    "spark_queue.since_ack",
    "gauge",
    "s",
    _READER,
    "Since an item was done last; where none was, since the oldest claim in flight.",
)
WORKERS = Metric(
    "spark_queue.workers",
    "gauge",
    "{worker}",
    (*_READER, "state"),
    "Workers that hold items, or claimed in the window: alive ones, late ones, and those gone.",
)
HELD_GROUPS = Metric(
    "spark_queue.held_groups", "gauge", "{group}", _READER, "Items that others of a group wait for."
)
FINDINGS = Metric(
    "spark_queue.findings",
    "gauge",
    "{finding}",
    ("queue", "id"),
    "What the doctor finds, by its id; 0 where that is not the case.",
)
KEY_DEPTH = Metric(
    "spark_queue.key.depth",
    "gauge",
    "{item}",
    (*_READER, "key", "state"),
    "Ready and claimed items of the slow and the noisy fair keys; the rest together.",
)
KEY_OLDEST = Metric(
    "spark_queue.key.oldest_age",
    "gauge",
    "s",
    (*_READER, "key"),
    "How long its ready item has waited that waits longest, as for oldest_age.",
)
KEY_FAILURES = Metric(
    "spark_queue.key.failures",
    "gauge",
    "{item}",
    (*_READER, "key"),
    "Failures of such a key in the window.",
)
KEY_WAIT = Metric(
    "spark_queue.key.wait",
    "gauge",
    "s",
    (*_READER, "key", "quantile"),
    "From when an item may run to its first claim: half of a key's in the window, 19 of 20, all.",
)
KEY_WORK = Metric(
    "spark_queue.key.work",
    "gauge",
    "s",
    (*_READER, "key", "quantile"),
    "From claim to settle: half of a key's items in the window, and 19 of 20.",
)
WORKER_WORK = Metric(
    "spark_queue.worker.work",
    "gauge",
    "s",
    (*_READER, "worker", "quantile"),
    "From claim to settle: half of a worker's items in the window, and 19 of 20.",
)
ACCEPTED = Metric("spark_queue.accepted", "counter", "{item}", ("queue",), "Items ever accepted.")
REFUSED = Metric(
    "spark_queue.refused", "counter", "{row}", ("queue",), "Rows ever refused as duplicates."
)
FINISHED = Metric(
    "spark_queue.finished", "counter", "{item}", (*_READER, "state"), "Items ever over, by how."
)
LOG_STEPS = Metric(
    "spark_queue.log.steps", "counter", "{step}", (*_READER, "log"), "Steps that a log has."
)
FORMAT = Metric("spark_queue.format", "gauge", "{version}", ("queue",), "The format it is kept in.")

LISTENED = (STEP_SECONDS, LOST_STEPS, ITEMS, WORK)
LOOKED_AT = (
    *(DEPTH, WAITING, LATE, OLDEST, LAG, PAUSED, PAUSED_KEYS, PACED_KEYS),
    *(NEXT_START, UNITS_STARTED, RECENT, TIME_LEFT, CLAIM_SIZE),
    *(SINCE_CLAIM, SINCE_ACK, WORKERS, HELD_GROUPS, FINDINGS),
    *(KEY_DEPTH, KEY_OLDEST, KEY_FAILURES, KEY_WAIT, KEY_WORK, WORKER_WORK),
    *(ACCEPTED, REFUSED, FINISHED, LOG_STEPS, FORMAT),
)
ALL = (*LISTENED, *LOOKED_AT)
