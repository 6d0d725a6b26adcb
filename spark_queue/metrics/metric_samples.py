"""A look at a queue, as samples of metrics: by its reports, and by its newest heads."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from spark_queue import checks
from spark_queue.commands import readers
from spark_queue.doctor.examine import CHECKS, examine
from spark_queue.errors import InvalidArgumentError, SetupError
from spark_queue.log.heads import StatusHead
from spark_queue.metrics import instruments as named
from spark_queue.metrics.instruments import NO_KEY, REST, Metric
from spark_queue.report.finding import Checkup
from spark_queue.report.following import follow
from spark_queue.report.lines import Tenant, WorkerLine
from spark_queue.report.model import Report
from spark_queue.report.reading import source_of
from spark_queue.results import Liveness
from spark_queue.state import existence
from spark_queue.state.store import Store
from spark_queue.wording import visible

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric as Family

    from spark_queue.delta_queue import DeltaQueue
    from spark_queue.local_queue import LocalQueue

#: A queue, however it was opened.
AnyQueue: TypeAlias = "LocalQueue | DeltaQueue"

#: Fair keys with samples of their own, by default.
KEYS = 20

#: How old a checkup may be that a look tells of.
EXAMINED = timedelta(minutes=5)

#: How long a look looks back, unless a caller says otherwise.
WINDOW = timedelta(hours=1)

_STATES = ("ready", "claimed", "acked", "dead", "expired", "cancelled", "redriven")

_QUANTILES = {"wait_p50": "0.5", "wait_p95": "0.95", "wait_max": "1"}
_WORK = {"work_p50": "0.5", "work_p95": "0.95"}

#: Workers with samples of their own.
_WORKERS = 20


@dataclass(frozen=True, slots=True)
class Sample:
    """A number of a queue."""

    metric: Metric
    value: float
    labels: Mapping[str, str]
    """One for each label of the metric."""


class Looker:
    """Reads a queue again and again; of its logs it reads only new rows.

    Parameters
    ----------
    queue : LocalQueue or DeltaQueue
        The queue; on this machine's disk it is read without Spark.
    keys : int
        How many fair keys have samples of their own: the slow and the noisy ones, as in a report.
    window : timedelta
        How long before a look counts as now, in waits, failures and what else has happened.

    Raises
    ------
    InvalidArgumentError
        When ``keys`` is below 1, or the window is not above zero.
    """

    def __init__(self, queue: AnyQueue, *, keys: int = KEYS, window: timedelta = WINDOW) -> None:
        checks.require_count("keys", keys)
        checks.require_duration("window", window)
        self._store: Store = queue._main  # noqa: SLF001 - it is no user's business
        self._keys = keys
        self._window = window
        self._source = source_of(self._store)
        self._reports: dict[int, Callable[[], Report]] = {}
        self._checkup: Checkup | None = None

    @property
    def name(self) -> str:
        """The queue's name or path."""
        return self._store.name

    def samples(self) -> list[Sample]:
        """Return each metric of :data:`instruments.LOOKED_AT` that has a value now."""
        found = [*_of_items(self._store), *self._findings()]
        for reader in readers.claiming(self._store):
            if not existence.is_prepared(reader):
                found += _of_unread(reader)
                continue
            if reader.reader not in self._reports:
                self._reports[reader.reader] = follow(reader, self._window, self._source)
            found += _of_reader(reader, self._reports[reader.reader](), self._keys)
        return found

    def _findings(self) -> Iterator[Sample]:
        """Sample the doctor's findings, which are kept for a while: it reads all tables."""
        now = self._store.clock.now()
        if self._checkup is None or now - self._checkup.at >= EXAMINED:
            self._checkup = examine(self._store)
        found = Counter(self._checkup.ids())
        for name in CHECKS:
            yield Sample(named.FINDINGS, found[name], {"queue": self.name, "id": name})


def samples(queue: AnyQueue, *, keys: int = KEYS, window: timedelta = WINDOW) -> list[Sample]:
    """Look at a queue once; see :class:`Looker`."""
    return Looker(queue, keys=keys, window=window).samples()


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


def _of_reader(store: Store, report: Report, keys: int) -> Iterator[Sample]:
    head, seen = store.status_head(), report.overview
    labels = {"queue": store.name, "reader": report.reader}
    for state in _STATES:
        yield Sample(named.DEPTH, getattr(seen, state), {**labels, "state": state})
    for reason, count in seen.waiting().items():
        yield Sample(named.WAITING, count, {**labels, "reason": reason})
    for state, count in sorted(head.finished.items()):
        yield Sample(named.FINISHED, count, {**labels, "state": state})
    for event, count in _recent(report).items():
        yield Sample(named.RECENT, count, {**labels, "event": event})
    yield Sample(named.LATE, seen.late, labels)
    yield Sample(named.OLDEST, seen.oldest_age or 0.0, labels)
    yield Sample(named.LAG, seen.ready + seen.claimed, labels)
    yield Sample(named.PAUSED, float(report.paused), labels)
    yield Sample(named.PAUSED_KEYS, len(report.paused_keys), labels)
    yield Sample(named.LOG_STEPS, head.step, {**labels, "log": "status"})
    if (size := head.claim_size) is not None:
        yield Sample(named.CLAIM_SIZE, size.most, {**labels, "reason": size.why})
    if seen.time_left is not None:
        yield Sample(named.TIME_LEFT, seen.time_left, labels)
    for rate in report.rates:
        here = {**labels, "by": rate.by or ""}
        first = rate.keys[0].next_at - report.as_of if rate.keys else timedelta(0)
        yield Sample(named.PACED_KEYS, rate.paced, here)
        yield Sample(named.NEXT_START, first.total_seconds(), here)
        yield Sample(named.UNITS_STARTED, rate.started, here)
    yield from _of_workers(report, labels)
    yield from _of_keys(report, labels, keys)


def _of_workers(report: Report, labels: Mapping[str, str]) -> Iterator[Sample]:
    seen, groups = report.overview, report.groups
    held = min((worker.since for worker in report.workers if worker.since), default=None)
    claimed, acked = seen.last_claim_at or seen.runnable_since, seen.last_ack_at or held
    for metric, at in ((named.SINCE_CLAIM, claimed), (named.SINCE_ACK, acked)):
        if at is not None:
            yield Sample(metric, (report.as_of - at).total_seconds(), labels)
    workers = Counter(worker.liveness for worker in report.workers)
    for state in Liveness:
        yield Sample(named.WORKERS, workers[state], {**labels, "state": state.value})
    for worker in report.workers[:_WORKERS]:
        here = {**labels, "worker": worker.worker_id or "(unnamed)"}
        yield from _quantiles(named.WORKER_WORK, worker, _WORK, here)
    yield Sample(named.HELD_GROUPS, groups[0].heads if groups else 0, labels)


def _of_unread(store: Store) -> Iterator[Sample]:
    """Tell of a reader that has no log, before its first use or after that was deleted."""
    labels = {"queue": store.name, "reader": store.registered().name}
    waiting = store.outstanding(StatusHead())
    yield Sample(named.DEPTH, waiting, {**labels, "state": "ready"})
    yield Sample(named.LAG, waiting, labels)


def _recent(report: Report) -> dict[str, int]:
    points = report.retries
    return {
        "enqueued": report.overview.enqueued_in_window,
        "acked": report.overview.done_in_window,
        "claimed": sum(point.claimed for point in points),
        "claimed again": sum(point.claimed_again for point in points),
        "replaced": sum(point.replaced for point in points),
        "failed": sum(point.failures for point in points),
        "dead": sum(point.dead for point in points),
        "lost": sum(worker.lost for worker in report.workers),
    }


def _of_keys(report: Report, labels: Mapping[str, str], keys: int) -> Iterator[Sample]:
    """Sample the first keys one by one, and all others together."""
    told = report.tenants[:keys]
    for tenant in told:
        here = {**labels, "key": _key_label(tenant.fair_key)}
        yield Sample(named.KEY_DEPTH, tenant.ready, {**here, "state": "ready"})
        yield Sample(named.KEY_DEPTH, tenant.claimed, {**here, "state": "claimed"})
        yield Sample(named.KEY_FAILURES, tenant.failures, here)
        if tenant.oldest_age is not None:
            yield Sample(named.KEY_OLDEST, tenant.oldest_age, here)
        yield from _quantiles(named.KEY_WAIT, tenant, _QUANTILES, here)
        yield from _quantiles(named.KEY_WORK, tenant, _WORK, here)
    if told and told[0].keys > len(told):
        yield from _of_the_rest(report, told, {**labels, "key": REST})


def _quantiles(
    metric: Metric, line: Tenant | WorkerLine, names: Mapping[str, str], labels: Mapping[str, str]
) -> Iterator[Sample]:
    for field, quantile in names.items():
        seconds = getattr(line, field)
        if seconds is not None:
            yield Sample(metric, seconds, {**labels, "quantile": quantile})


def _key_label(key: str | None) -> str:
    """Return the label of a key; a backslash marks names like ours."""
    if key is None:
        return NO_KEY
    return f"\\{key}" if key.lstrip("\\") in (NO_KEY, REST) else key


def _of_the_rest(
    report: Report, told: Sequence[Tenant], labels: Mapping[str, str]
) -> Iterator[Sample]:
    ready = report.overview.ready - sum(tenant.ready for tenant in told)
    claimed = report.overview.claimed - sum(tenant.claimed for tenant in told)
    failures = _recent(report)["failed"] - sum(tenant.failures for tenant in told)
    yield Sample(named.KEY_DEPTH, ready, {**labels, "state": "ready"})
    yield Sample(named.KEY_DEPTH, claimed, {**labels, "state": "claimed"})
    yield Sample(named.KEY_FAILURES, failures, labels)


#: How an escape begins in what :func:`visible` returns, and a backslash that was one.
_ESCAPE = re.compile(r"\\[xuUnrt\\]")


def write(found: Iterable[Sample], path: Path) -> int:
    """Write samples to a file, replacing an older one at once.

    Parameters
    ----------
    found : iterable of Sample
        The samples.
    path : Path
        The file; Prometheus' node exporter reads those that end in ``.prom``.

    Returns
    -------
    int
        How many samples it has.

    Raises
    ------
    InvalidArgumentError
        When the file cannot be written.
    SetupError
        When ``prometheus_client`` is not installed.
    """
    kept = list(found)
    registry = _registry(kept)
    from prometheus_client import write_to_textfile  # noqa: PLC0415 - an extra

    try:
        write_to_textfile(str(path), registry)
    except OSError as exc:
        raise InvalidArgumentError(f"textfile is {str(path)!r}: {exc.strerror or exc}") from exc
    return len(kept)


def text(found: Iterable[Sample]) -> str:
    """Return samples in the text format; the errors are those of :func:`write`."""
    registry = _registry(list(found))
    from prometheus_client import generate_latest  # noqa: PLC0415 - an extra

    return generate_latest(registry).decode()


def _registry(found: Sequence[Sample]) -> CollectorRegistry:
    try:
        from prometheus_client import CollectorRegistry  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as exc:
        raise SetupError(
            "prometheus_client is not installed; pip install 'spark-queue[prometheus]'"
        ) from exc
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Once(found))
    return registry


class _Once:
    """What a registry asks: the samples by their metric."""

    def __init__(self, found: Sequence[Sample]) -> None:
        self._found = found

    def collect(self) -> Iterator[Family]:
        """Return one family for each metric."""
        from prometheus_client.metrics_core import (  # noqa: PLC0415 - an extra
            CounterMetricFamily,
            GaugeMetricFamily,
        )

        families = defaultdict(list)
        for one in self._found:
            families[one.metric].append(one)
        for metric, of_metric in families.items():
            kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = kind(metric.prometheus, metric.help, labels=metric.labels)
            for one in of_metric:
                family.add_metric([_label(one.labels[name]) for name in metric.labels], one.value)
            yield family


def _label(text: str) -> str:
    """Return a text without control signs; of two that differ never the same one."""
    shown = visible(text)
    # A text that has what others have for escapes is escaped, too.
    is_plain = shown == text and not _ESCAPE.search(text)
    return shown if is_plain else visible(text.replace("\\", r"\\"))
