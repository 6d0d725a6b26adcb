"""One catalogue of views: each says its columns, and its readers ask for no others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields

import pyarrow as pa
import pytest

from spark_queue.config import QueueConfig
from spark_queue.log.schema import QUEUE_COLUMNS, STATUS_COLUMNS
from spark_queue.log.settings import Settings
from spark_queue.report import lines, publishing, trouble
from spark_queue.report.entry import Transition
from spark_queue.sql import look
from spark_queue.sql.catalogue import views
from spark_queue.sql.database import Database
from spark_queue.sql.log_rows import plain, pointers_of, weights_of

#: Views that are part of others, or of what is asked of tables.
_OTHERS = (
    "touched",
    "dead",
    "stats",
    "lasting",
    "forecast",
    "service_times",
    "waits_longest",
    "configured",
    "line",
    "taking",
)

#: The class that has the rows of a view, and which of its fields the view does not say.
_READERS = {
    "overview": (lines.Overview, {"refused"}),
    "depth": (lines.DepthPoint, set()),
    "flow": (lines.FlowPoint, set()),
    "tenants": (lines.Tenant, {"due"}),
    "errors": (lines.ErrorGroup, {"samples", "redrive"}),
    "retries": (lines.RetryPoint, set()),
    "groups": (lines.HeldGroup, {"liveness"}),
    "workers": (lines.WorkerLine, {"liveness"}),
    "listed": (lines.ItemLine, {"liveness", "columns"}),
    "behind": (lines.ReaderLine, {"reader", "streams", "steps", "lost", "last_step_at", "paused"}),
    "steps": (lines.OperatorStep, {"detail", "undo"}),
    "starving": (trouble.StarvingKey, set()),
    "outranked": (trouble.OutrankedPriority, set()),
    "waits_longest": (trouble.LongestWait, set()),
    "stuck": (trouble.StuckItem, set()),
    "history": (Transition, {"until"}),
}


@pytest.fixture
def database() -> Iterator[Database]:
    """Make an engine over logs without a row."""
    entered = plain(QUEUE_COLUMNS.arrow.empty_table().select(look.ENTERED))
    entered = entered.append_column("own", entered["seq"])
    with closing(Database({})) as made:
        made.give("items", entered)
        made.give("rejected", entered)
        made.give("states", plain(STATUS_COLUMNS.arrow.empty_table().select(look.MOVES)))
        made.give("configs", plain(STATUS_COLUMNS.arrow.empty_table().select(look.CONFIGURED)))
        made.give("asked", look.ASKED.empty_table())
        made.give("weights", weights_of(Settings.initial(QueueConfig()), []))
        made.give("pointers", pointers_of({}, {}, []))
        yield made


@pytest.mark.parametrize("view", [*publishing.VIEWS, *_OTHERS])
def test_a_view_has_the_columns_that_its_first_line_says(database: Database, view: str) -> None:
    """Names and order are so, and instants are numbers of microseconds."""
    found, said = database.rows(view).schema, views()[view].columns

    assert list(said) == found.names
    instants = [name for name, is_instant in said.items() if is_instant]
    assert {found.field(name).type for name in instants} <= {pa.int64()}


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
