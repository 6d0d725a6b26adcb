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


def _metric(name: str, unit: str, says: str, *labels: str, kind: Kind = "gauge") -> Metric:
    """Return a metric of a queue."""
    return Metric(f"spark_queue.{name}", kind, unit, ("queue", *labels), says)


def _of_reader(name: str, unit: str, says: str, *labels: str, kind: Kind = "gauge") -> Metric:
    """Return a metric of a reader of a queue."""
    return _metric(name, unit, says, "reader", *labels, kind=kind)


#: Told of each step, by who makes it.
STEP_SECONDS = _metric(
    "step.duration", "s", "How long steps took, lost tries too.", "action", kind="histogram"
)
LOST_STEPS = _metric(
    "step.lost", "{try}", "Tries that other writers were ahead of.", "action", kind="counter"
)
ITEMS = _metric(
    "items",
    "{item}",
    "Items by what a step made of them; failed ones are tried again.",
    "action",
    "outcome",
    kind="counter",
)
WORK = _metric("work.duration", "s", "From a claim to its settling.", kind="histogram")

#: Seen by a look at the queue.
DEPTH = _of_reader("depth", "{item}", "Items by state.", "state")
OLDEST = _of_reader(
    "oldest_age",
    "s",
    "How long the ready item that waits longest has: since its enqueue, or the end of its delay.",
)
LAG = _of_reader("lag", "{item}", "Items that a reader is not done with.")
WAITING = _of_reader(
    "waiting",
    "{item}",
    "Ready items by what keeps them from a claim; runnable ones wait for their turn only.",
    "reason",
)
LATE = _of_reader("late", "{item}", "Claimed items whose lease ran out.")
RECENT = _of_reader(
    "recent", "{item}", "What happened to items in the window that a look looks back.", "event"
)
TIME_LEFT = _of_reader("time_left", "s", "Until nothing is open, at the window's pace.")
CLAIM_SIZE = _of_reader(
    "claim_size",
    "{item}",
    "Items that the newest claim could get, by why so many, where its length is measured.",
    "reason",
)
PAUSED_KEYS = _of_reader("paused_keys", "{key}", "Keys of which no item starts.")
PACED_KEYS = _of_reader(
    "paced_keys",
    "{key}",
    "Keys with items that a rate keeps back; that of the whole queue is by nothing.",
    "by",
)
NEXT_START = _of_reader(
    "next_start",
    "s",
    "Until the first item of these keys has its units; 0 where there are none.",
    "by",
)
UNITS_STARTED = _of_reader(
    "units_started",
    "{unit}",
    "Units of a rate that started in the window; an item is one where the rate has no units.",
    "by",
)
PAUSED = _of_reader("paused", "{queue}", "1 where claims get nothing.")
SINCE_CLAIM = _of_reader(
    "since_claim", "s", "Since anybody claimed last; where nobody has, since items could run."
)
SINCE_ACK = _of_reader(
    "since_ack",
    "s",
    "Since an item was done last; where none was, since the oldest claim in flight.",
)
WORKERS = _of_reader(
    "workers",
    "{worker}",
    "Workers that hold items, or claimed in the window: alive ones, late ones, and those gone.",
    "state",
)
HELD_GROUPS = _of_reader("held_groups", "{group}", "Items that others of a group wait for.")
FINDINGS = _metric(
    "findings", "{finding}", "What the doctor finds, by its id; 0 where that is not the case.", "id"
)
KEY_DEPTH = _of_reader(
    "key.depth",
    "{item}",
    "Ready and claimed items of the slow and the noisy fair keys; the rest together.",
    "key",
    "state",
)
KEY_OLDEST = _of_reader(
    "key.oldest_age",
    "s",
    "How long its ready item has waited that waits longest, as for oldest_age.",
    "key",
)
KEY_FAILURES = _of_reader("key.failures", "{item}", "Failures of such a key in the window.", "key")
KEY_WAIT = _of_reader(
    "key.wait",
    "s",
    "From when an item may run to its first claim: half of a key's in the window, 19 of 20, all.",
    "key",
    "quantile",
)
KEY_WORK = _of_reader(
    "key.work",
    "s",
    "From claim to settle: half of a key's items in the window, and 19 of 20.",
    "key",
    "quantile",
)
WORKER_WORK = _of_reader(
    "worker.work",
    "s",
    "From claim to settle: half of a worker's items in the window, and 19 of 20.",
    "worker",
    "quantile",
)
ACCEPTED = _metric("accepted", "{item}", "Items ever accepted.", kind="counter")
REFUSED = _metric("refused", "{row}", "Rows ever refused as duplicates.", kind="counter")
FINISHED = _of_reader("finished", "{item}", "Items ever over, by how.", "state", kind="counter")
LOG_STEPS = _of_reader("log.steps", "{step}", "Steps that a log has.", "log", kind="counter")
FORMAT = _metric("format", "{version}", "The format it is kept in.")

LISTENED = (STEP_SECONDS, LOST_STEPS, ITEMS, WORK)
LOOKED_AT = (
    *(DEPTH, WAITING, LATE, OLDEST, LAG, PAUSED, PAUSED_KEYS, PACED_KEYS),
    *(NEXT_START, UNITS_STARTED, RECENT, TIME_LEFT, CLAIM_SIZE),
    *(SINCE_CLAIM, SINCE_ACK, WORKERS, HELD_GROUPS, FINDINGS),
    *(KEY_DEPTH, KEY_OLDEST, KEY_FAILURES, KEY_WAIT, KEY_WORK, WORKER_WORK),
    *(ACCEPTED, REFUSED, FINISHED, LOG_STEPS, FORMAT),
)
ALL = (*LISTENED, *LOOKED_AT)
