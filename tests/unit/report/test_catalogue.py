"""One catalogue of views, whose readers ask for columns that it has."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from spark_queue import LocalQueue
from spark_queue.data_source import views as data_source_views
from spark_queue.report import lines, model
from spark_queue.report.model import Transition
from spark_queue.sql import look
from spark_queue.sql.catalogue import views

#: The class that has the rows of a view, and which of its fields the view does not say.
_READERS = {
    "overview": (lines.Overview, {"refused", "judges_each"}),
    "depth": (lines.DepthPoint, set()),
    "flow": (lines.FlowPoint, set()),
    "tenants": (lines.Tenant, {"due", "is_paused", "most", "rate", "next_at"}),
    "errors": (lines.ErrorGroup, {"samples", "redrive"}),
    "retries": (lines.RetryPoint, set()),
    "groups": (lines.HeldGroup, {"liveness"}),
    "workers": (lines.WorkerLine, {"liveness", "progress", "progress_of"}),
    "listed": (lines.ItemLine, {"liveness", "columns", "progress"}),
    "behind": (lines.ReaderLine, {"reader", "streams", "steps", "lost", "last_step_at", "paused"}),
    "steps": (lines.OperatorStep, {"detail", "undo"}),
    "starving": (model.StarvingKey, set()),
    "full_limits": (model.FullLimit, {"by"}),
    "outranked": (model.OutrankedPriority, set()),
    "longest_wait": (model.LongestWait, set()),
    "stuck": (model.StuckItem, set()),
    "history": (Transition, {"until"}),
}


@pytest.mark.parametrize("view", _READERS)
def test_a_reader_asks_for_columns_that_its_view_has(view: str) -> None:
    """Each field of a line is a column, or is computed from some."""
    kind, made = _READERS[view]
    said = {"at" if name == "moment" else name for name in views()[view].columns}

    assert {one.name for one in fields(kind)} - said == made


@pytest.mark.parametrize(
    ("view", "shown"), [("status", look.STATUS), ("history", ("log", *look.HISTORY))]
)
def test_frames_show_columns_that_their_view_has(view: str, shown: tuple[str, ...]) -> None:
    """What ``status`` and ``history`` return are columns of the views of these names."""
    assert {name.removeprefix("_") for name in shown} <= views()[view].columns.keys()


@pytest.mark.parametrize("view", [*data_source_views.VIEWS, *data_source_views.PANELS])
def test_each_view_of_the_format_has_the_columns_that_it_says(view: str, tmp_path: Path) -> None:
    """Spark asks for columns before it reads rows; both come from the lines of a report."""
    queue = LocalQueue.create(tmp_path / "queue", "path string", durability="process")
    queue.enqueue([{"path": name} for name in "abc"])
    queue.claim(1).ack()
    options = {"path": queue.name, "view": view, "seq": "1", "step": "1"}

    said = data_source_views.schema(options)

    assert said.names
    assert all(part.schema == said for part in data_source_views.read(options))
