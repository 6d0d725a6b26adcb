"""Samples as Prometheus reads them from a file: its text format, whole or the old one."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spark_queue.errors import InvalidArgumentError, SetupError
from spark_queue.metrics.metric_samples import Sample
from spark_queue.wording import visible

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric

#: How an escape begins in what :func:`visible` returns, and a backslash that was one.
_ESCAPE = re.compile(r"\\[xuUnrt\\]")


def write(found: Iterable[Sample], path: Path) -> int:
    """Write samples to a file, which takes the place of the one that is there, at once.

    Parameters
    ----------
    found : iterable of Sample
        What was seen.
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

    def collect(self) -> Iterator[Metric]:
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
