"""A look at a queue, as samples of metrics: by what counts it anyway, and by its newest heads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from spark_queue import checks
from spark_queue.delta.commands import readers
from spark_queue.delta.store.store import Store
from spark_queue.local import counting
from spark_queue.local.queue import LocalQueue
from spark_queue.metrics import instruments as named
from spark_queue.metrics.instruments import NO_KEY, REST, Metric
from spark_queue.results import QueueStats

if TYPE_CHECKING:
    from spark_queue.queue import DeltaQueue

#: A queue, however it was opened.
AnyQueue: TypeAlias = "LocalQueue | DeltaQueue"

#: Fair keys that are told one by one, unless a caller says otherwise.
KEYS = 20

#: What :class:`QueueStats` counts of each state.
_STATES = ("ready", "claimed", "acked", "dead", "expired", "cancelled")

_QUANTILES = {"wait_p50": "0.5", "wait_p95": "0.95", "wait_max": "1"}


@dataclass(frozen=True, slots=True)
class Sample:
    """A number of a queue."""

    metric: Metric
    value: float
    labels: Mapping[str, str]
    """One for each label of the metric."""


def samples(queue: AnyQueue, *, keys: int = KEYS) -> list[Sample]:
    """Look at a queue.

    Parameters
    ----------
    queue : LocalQueue or DeltaQueue
        The queue; without Spark nothing of Spark is asked.
    keys : int
        How many fair keys are told one by one: those with the most ready and claimed items.

    Returns
    -------
    list of Sample
        Each metric of :data:`~spark_queue.metrics.instruments.LOOKED_AT` that has a value now.

    Raises
    ------
    InvalidArgumentError
        When ``keys`` is below 1.
    """
    checks.require_count("keys", keys)
    store = queue._main  # noqa: SLF001 - it is no user's business
    count = counting.stats if isinstance(queue, LocalQueue) else _by_spark
    found = list(_of_items(store))
    for reader in readers.every(store):
        found += _of_reader(reader, count(reader), keys)
    return found


def _by_spark(store: Store) -> QueueStats:
    from spark_queue.reader import Reader  # noqa: PLC0415 - without Spark nobody comes here

    return Reader(store).stats()


def _of_items(store: Store) -> Iterator[Sample]:
    head, labels = store.queue_head(), {"queue": store.name}
    first = store.of_reader(0)
    yield Sample(named.ACCEPTED, head.items, labels)
    yield Sample(named.REFUSED, head.refused, labels)
    yield Sample(named.FORMAT, first.settings(first.status_head()).format, labels)
    yield Sample(named.LOG_STEPS, head.step, {**labels, "reader": "", "log": "queue"})
    for facts in head.readers.values():
        if facts.streams:
            behind = head.items - facts.since_items
            yield Sample(named.LAG, behind, {**labels, "reader": facts.name})


def _of_reader(store: Store, stats: QueueStats, keys: int) -> Iterator[Sample]:
    head = store.status_head()
    labels = {"queue": store.name, "reader": store.registered().name}
    for state in _STATES:
        yield Sample(named.DEPTH, getattr(stats, state), {**labels, "state": state})
    for state, count in sorted(head.finished.items()):
        yield Sample(named.FINISHED, count, {**labels, "state": state})
    age = 0.0 if stats.oldest_age is None else stats.oldest_age.total_seconds()
    yield Sample(named.OLDEST, age, labels)
    yield Sample(named.LAG, stats.ready + stats.claimed, labels)
    yield Sample(named.PAUSED, float(stats.paused), labels)
    yield Sample(named.LOG_STEPS, head.step, {**labels, "log": "status"})
    yield from _of_keys(_table(stats.per_key), labels, keys)


def _of_keys(table: pa.Table, labels: Mapping[str, str], keys: int) -> Iterator[Sample]:
    """Tell of the keys with the most open items, and of all others what can be told together."""
    rows = sorted(table.to_pylist(), key=_rank)
    told = [(row, _label(row["fair_key"])) for row in rows[:keys]]
    rest = rows[keys:]
    if rest:
        told.append((_together(rest), REST))
    for row, key in told:
        here = {**labels, "key": key}
        for state in ("ready", "claimed"):
            yield Sample(named.KEY_DEPTH, row[state], {**here, "state": state})
        if row["oldest_age"] is not None:
            yield Sample(named.KEY_OLDEST, row["oldest_age"], here)
        for column, quantile in _QUANTILES.items():
            if row.get(column) is not None:
                yield Sample(named.KEY_WAIT, row[column], {**here, "quantile": quantile})


def _rank(row: Mapping[str, Any]) -> tuple[int, bool, str]:
    key = row["fair_key"]
    return -(row["ready"] + row["claimed"]), key is None, key or ""


def _together(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return sums and ends; of a part of all waits nothing is known from those of each key."""
    counts = {state: sum(row[state] for row in rows) for state in ("ready", "claimed")}
    ends = {name: [row[name] for row in rows] for name in ("oldest_age", "wait_max")}
    known = {name: [one for one in values if one is not None] for name, values in ends.items()}
    return counts | {name: max(values, default=None) for name, values in known.items()}


def _label(key: str | None) -> str:
    return NO_KEY if key is None else key


def _table(per_key: Any) -> pa.Table:
    return per_key if isinstance(per_key, pa.Table) else per_key.toArrow()
