"""Instruments of OpenTelemetry, which count steps and observe queues."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from spark_queue import checks
from spark_queue.errors import SetupError
from spark_queue.log.schema import CLAIMED, READY
from spark_queue.log.step_events import StepFacts, logger
from spark_queue.metrics import instruments as named
from spark_queue.metrics.instruments import Metric
from spark_queue.metrics.metric_samples import KEYS, WINDOW, AnyQueue, Looker, Sample
from spark_queue.queue_views import Opened

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation

#: Seconds at which a histogram is cut: a step takes milliseconds, a handler up to hours.
_BOUNDS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
    *(30.0, 60.0, 300.0, 900.0, 3600.0),
)

#: Claims in flight of which it is known when they were granted.
_MOST = 10_000


class Metrics:
    """The instruments of queues, for the program's exporter of metrics.

    It is a listener: give it to ``open`` or ``create``, and each step that this handle makes is
    counted. :meth:`watch` adds what a look at the queue shows. One of it may serve many queues.

    Parameters
    ----------
    provider : opentelemetry.metrics.MeterProvider, optional
        Where the instruments are made; the program's own by default.
    clock : callable
        Tells monotonic seconds.

    Raises
    ------
    SetupError
        When ``opentelemetry-api`` is not installed.

    Examples
    --------
    >>> metrics = spark_queue.Metrics()                            # doctest: +SKIP
    >>> queue = spark_queue.open("/data/files", listener=metrics)  # doctest: +SKIP
    >>> metrics.watch(queue)                                       # doctest: +SKIP
    """

    def __init__(
        self,
        provider: MeterProvider | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if provider is not None:
            checks.require_methods("provider", provider, "get_meter")
        self._meter = _meter(provider)
        self._clock = clock
        self._lost = _counter(self._meter, named.LOST_STEPS)
        self._items = _counter(self._meter, named.ITEMS)
        self._seconds = _histogram(self._meter, named.STEP_SECONDS)
        self._work = _histogram(self._meter, named.WORK)
        self._claims: OrderedDict[tuple[str, int, int], float] = OrderedDict()
        self._lock = threading.Lock()
        self._watched: list[_WatchedQueue] = []

    def __call__(self, facts: StepFacts) -> None:
        """Count a step."""
        about = {"queue": facts.queue, "action": facts.action}
        self._seconds.record(facts.seconds, about)
        if facts.tries > 1:
            self._lost.add(facts.tries - 1, about)
        for outcome, count in _outcomes(facts):
            self._items.add(count, {**about, "outcome": outcome})
        if facts.lease or CLAIMED in facts.counts:
            self._note_claims(facts)

    def watch(
        self,
        queue: AnyQueue,
        *,
        keys: int = KEYS,
        window: timedelta = WINDOW,
        every: timedelta = timedelta(seconds=30),
    ) -> None:
        """Also tell what a look at a queue shows, each time that metrics are collected.

        Parameters
        ----------
        queue : LocalQueue or DeltaQueue
            The queue; it is looked at on the thread that collects.
        keys : int
            How many fair keys have samples of their own; the rest share one.
        window : timedelta
            How long before a look counts as now, in waits, failures and what else has happened.
        every : timedelta
            How old a look may be before there is another: it costs as much as a report.

        Raises
        ------
        InvalidArgumentError
            When ``keys`` is below 1, or ``window`` or ``every`` is no duration above zero.
        """
        checks.require_duration("every", every)
        checks.require_kind("queue", queue, Opened)
        looker = Looker(queue, keys=keys, window=window)
        with self._lock:
            if not self._watched:
                self._make_gauges()
            self._watched.append(_WatchedQueue(looker, every.total_seconds(), self._clock))

    def _note_claims(self, facts: StepFacts) -> None:
        """Note when a claim was granted, or how long it took until it was settled."""
        now, log = self._clock(), (facts.queue, facts.reader)
        step, lease = (*log, facts.step), (*log, facts.lease)
        with self._lock:
            granted = None if facts.action == "renew" else self._claims.pop(lease, None)
            if CLAIMED in facts.counts and facts.action != "renew":
                self._claims[step] = now
            if len(self._claims) > _MOST:
                self._claims.popitem(last=False)
        if granted is not None:
            self._work.record(now - granted, {"queue": facts.queue})

    def _make_gauges(self) -> None:
        for metric in named.LOOKED_AT:
            make: Callable[..., object] = self._meter.create_observable_gauge
            if metric.kind == "counter":
                make = self._meter.create_observable_counter
            make(metric.name, [self._observer(metric)], metric.unit, metric.help)

    def _observer(self, metric: Metric) -> Callable[[CallbackOptions], Iterable[Observation]]:
        from opentelemetry.metrics import Observation  # noqa: PLC0415 - an extra

        def observe(_options: CallbackOptions) -> Iterable[Observation]:
            for watched in tuple(self._watched):
                for one in watched.samples().get(metric, ()):
                    yield Observation(one.value, one.labels)

        return observe


class _WatchedQueue:
    """A queue, and what the last look at it has shown."""

    def __init__(self, looker: Looker, every: float, clock: Callable[[], float]) -> None:
        self._looker, self._every, self._clock = looker, every, clock
        self._lock = threading.Lock()
        self._until = float("-inf")
        self._seen: Mapping[Metric, list[Sample]] = {}

    def samples(self) -> Mapping[Metric, list[Sample]]:
        """Return the samples of each metric; none where the queue cannot be looked at."""
        with self._lock:
            if self._clock() >= self._until:
                self._seen = self._read_samples()
                self._until = self._clock() + self._every
            return self._seen

    def _read_samples(self) -> Mapping[Metric, list[Sample]]:
        found: dict[Metric, list[Sample]] = {}
        try:
            for one in self._looker.samples():
                found.setdefault(one.metric, []).append(one)
        except Exception:  # noqa: BLE001 - the collector has other metrics to collect
            logger.exception("%s: cannot be looked at for metrics", self._looker.name)
        return found


def _outcomes(facts: StepFacts) -> Iterable[tuple[str, int]]:
    """Return the outcomes of a step; items ready again failed, or were deferred or released."""
    counts = {**facts.counts}
    if facts.lease and READY in counts:
        counts |= {"failed": facts.failed, "deferred": facts.deferred}
        counts["released"] = counts.pop(READY) - facts.failed - facts.deferred
    return ((outcome, count) for outcome, count in counts.items() if count)


def _meter(provider: MeterProvider | None) -> Meter:
    try:
        from opentelemetry import metrics  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as exc:
        raise SetupError(
            "opentelemetry-api is not installed; pip install 'spark-queue[otel]'"
        ) from exc
    return metrics.get_meter("spark_queue", meter_provider=provider)


def _counter(meter: Meter, metric: Metric) -> Any:
    return meter.create_counter(metric.name, metric.unit, metric.help)


def _histogram(meter: Meter, metric: Metric) -> Any:
    return meter.create_histogram(
        metric.name, metric.unit, metric.help, explicit_bucket_boundaries_advisory=_BOUNDS
    )
