"""What the document says of metrics is what there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_queue.metrics import instruments
from spark_queue.metrics.instruments import Metric

_PAGE = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("metric", instruments.ALL, ids=lambda metric: metric.name)
def test_each_metric_is_told_of(metric: Metric) -> None:
    """Its two names and its labels stand in one line of a table."""
    labels = ", ".join(f"`{name}`" for name in metric.labels)

    assert f"| `{metric.name}` | `{metric.prometheus}` | {labels} |" in _PAGE
