"""The panels as views of a catalog, and the dashboard over them."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

from spark_queue.config import QueueConfig
from spark_queue.flow import Limit, Rate
from spark_queue.local_queue import LocalQueue
from spark_queue.log.step_events import LogName
from spark_queue.queue_views import store_of
from spark_queue.report import publishing
from spark_queue.retry_policy import RetryPolicy
from spark_queue.sql import database
from spark_queue.views.answers import SHARED

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_LOGS: tuple[LogName, ...] = ("queue", "status")

_SQL = Path(__file__).parents[3] / "docs" / "sql"

#: Panels with a row for each line of a report, and where that has them.
_LINES = {
    "depth": "depth",
    "tenants": "tenants",
    "errors": "errors",
    "retries": "retries",
    "groups": "groups",
    "workers": "workers",
    "steps": "steps",
}


@pytest.fixture
def queue(queue_path: str) -> LocalQueue:
    """Make a queue in which something failed, somebody waits, and an operator was."""
    limits = (Limit(by="t", overrides={"b": 0}), Limit(by="g || t", default=7))
    rates = (
        Rate(limit=9, per=timedelta(days=9), burst=5, units="u"),
        Rate(by="g", limit=1, per=timedelta(days=1), overrides={"0": None}),
        Rate(by="g || t", limit=2, per=timedelta(days=1), burst=2, units="u"),
    )
    policy = RetryPolicy(delay=timedelta(hours=1))
    config = QueueConfig(fair_key="t", group_key="g", limits=limits, rates=rates, retry=policy)
    columns = "t string, g string, u double"
    made = LocalQueue.create(queue_path, columns, config, durability="process")
    made.enqueue([{"t": "ab"[n % 2], "g": str(n % 3), "u": 1.5} for n in range(12)])
    made.enqueue([{"t": "c", "g": None, "u": 1.5}] * 2)
    made.claim(1, worker_id="w").nack("ValueError: row 1")
    made.claim(1, worker_id="w").dead("ValueError: row 2")
    made.claim(1, worker_id="w")
    made.configure(max_in_flight=5)
    return made


@pytest.fixture(params=["views", "snapshot"])
def views(request: pytest.FixtureRequest, queue: LocalQueue, tmp_path: Path) -> DuckDBPyConnection:
    """Make the published views over the tables of the queue, or what the snapshot has of them."""
    if request.param == "snapshot":
        return _snapshot_of(queue)
    words = ("SET GLOBAL TimeZone = 'UTC'", *database.AS_SPARK, *publishing.SPARK_WORDS)
    asked = database.connect(str(tmp_path), words)
    script = (_SQL / "views.sql").read_text(encoding="utf-8")
    for which in _LOGS:
        asked.register(f"{which}_rows", _log_rows(queue, which))
        script = script.replace(f"`main`.`ops`.`files_{which}`", f"{which}_rows")
    for name in SHARED:
        # Each is computed once, as by the library: views within views are planned for minutes.
        script = script.replace(f"VIEW sq_raw_{name} AS", f"TABLE sq_raw_{name} AS")
    asked.execute(script)
    return asked


def _snapshot_of(queue: LocalQueue) -> DuckDBPyConnection:
    """Make the tables of a queue's snapshot in an ordinary database, twice."""
    asked = duckdb.connect()
    asked.execute("SET TimeZone = 'UTC'")
    # What the extension for Delta would read, which is not there for each DuckDB.
    for which in _LOGS:
        asked.register(f"{queue.name}/{which}", _log_rows(queue, which))
    asked.execute("CREATE MACRO delta_scan(place) AS TABLE SELECT * FROM query_table([place])")
    for _ in range(2):
        asked.execute(publishing.snapshot(queue.name))
    return asked


def _log_rows(queue: LocalQueue, which: LogName) -> pa.Table:
    log = store_of(queue).native(which)
    assert log is not None
    return log.rows_of(log.files(), log.columns())


def _rows(views: DuckDBPyConnection, query: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = views.sql(query).to_arrow_table().to_pylist()
    return rows


def test_the_published_views_are_the_texts_of_the_panels() -> None:
    """``docs/sql/views.sql`` is what the library asks itself, and no other text."""
    published = (_SQL / "views.sql").read_text(encoding="utf-8")
    # A comparison of two long texts line by line would take minutes.
    is_same = published == publishing.script(publishing.EXAMPLE)
    assert is_same, "python -m spark_queue.report.publishing main.ops.files > docs/sql/views.sql"


def test_the_published_views_say_what_a_report_says(
    queue: LocalQueue, views: DuckDBPyConnection
) -> None:
    """Over the tables of a queue every view answers, with the figures and lines of its report."""
    report = queue.report()

    (overview,) = _rows(views, "SELECT * FROM sq_overview")

    seen = report.overview
    for name in (
        *("runnable", "delayed", "held_by_group", "over_a_key_limit", "claimed", "dead"),
        *("over_a_rate", "enqueued_in_window"),
    ):
        assert overview[name] == getattr(seen, name), name
    assert seen.delayed == 1
    assert (seen.held_by_group > 0, seen.over_a_key_limit > 0, seen.over_a_rate) == (True, True, 1)
    (waits,) = _rows(views, "SELECT * FROM sq_reasons WHERE reason = 'rate'")
    why = queue.explain(waits["seq"])
    assert (why.reason, why.more) == (waits["reason"], waits["more"])
    assert why.until is not None
    assert abs((why.until - waits["until"]).total_seconds()) < 1e-3
    for view in publishing.VIEWS:
        rows = _rows(views, f"SELECT * FROM sq_{view}")  # noqa: S608 - our own names
        if view in _LINES:
            assert len(rows) == len(getattr(report, _LINES[view])), view
    (asked,) = _rows(views, "SELECT * FROM sq_asked")
    assert asked["now"] - asked["since"] == timedelta(hours=1)
    assert (asked["max_in_flight"], asked["max_losses"], asked["group_limit"]) == (5, 5, 1)
    assert (asked["paused"], asked["blocking"], asked["max_age"]) == (False, True, None)


def test_a_snapshot_leaves_its_tables_and_nothing_else(queue: LocalQueue) -> None:
    """Neither words of Spark nor the order of nulls stay in a database that others work in."""
    asked = _snapshot_of(queue)

    (found,) = asked.execute(
        "SELECT list(table_name) FROM information_schema.tables WHERE table_type <> 'VIEW'"
    ).fetchall()
    assert {*found[0]} == {"sq_asked", *(f"sq_{view}" for view in publishing.VIEWS)}
    macros = "SELECT function_name FROM duckdb_functions() WHERE database_name = 'temp'"
    assert asked.execute(macros).fetchall() == []
    assert asked.execute("SELECT regexp_replace('aa', 'a', 'b')").fetchall() == [("ba",)]
    order = "SELECT current_setting('default_null_order')"
    assert asked.execute(order).fetchall() == duckdb.connect().execute(order).fetchall()


def test_no_generator_is_within_an_expression() -> None:
    """DuckDB takes one anywhere; Spark only as a column of its own."""
    before = re.findall(r"(\S+)\s*\bexplode\(", publishing.script(publishing.EXAMPLE))

    assert before
    assert {word.lstrip("(") for word in before if not word.endswith(",")} == {"SELECT"}


def test_a_snapshot_is_a_macro_of_dbt(queue: LocalQueue) -> None:
    """It has the same statements, and reads the tables where they are."""
    plain, macro = publishing.snapshot(queue.name), publishing.snapshot(queue.name, "dbt")

    assert macro.startswith("{% macro spark_queue_snapshot() %}{% raw %}\n--")
    assert macro.endswith(";\n{% endraw %}{% endmacro %}\n")
    assert plain.split(";\n")[1:-1] == macro.split(";\n")[1:-1]
    assert f"delta_scan('{queue.name}/status')" in macro


def test_every_query_of_the_dashboard_answers_what_its_widgets_show(
    views: DuckDBPyConnection,
) -> None:
    """Each dataset runs over a queue, and has the columns that the widgets over it name."""
    board = json.loads((_SQL / "dashboard.lvdash.json").read_text(encoding="utf-8"))
    columns = {}
    for dataset in board["datasets"]:
        found = views.sql("".join(dataset["queryLines"])).to_arrow_table()
        assert found.num_rows > 0, dataset["name"]
        columns[dataset["name"]] = set(found.column_names)
    shown = set()
    for item in board["pages"][0]["layout"]:
        (query,) = item["widget"]["queries"]
        name = query["query"]["datasetName"]
        fields = {field["name"] for field in query["query"]["fields"]}
        assert fields <= columns[name], item["widget"]["name"]
        encoded = json.dumps(item["widget"]["spec"]["encodings"])
        assert all(f'"{field}"' in encoded for field in fields)
        shown.add(name)
    assert shown == set(columns)
