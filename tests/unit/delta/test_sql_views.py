"""Each view of SQL has the columns that its first line says, and is made of those above it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from importlib import resources

import pyarrow as pa
import pytest

from spark_queue.config import QueueConfig
from spark_queue.log.schema import QUEUE_COLUMNS, RECENT, STATUS_COLUMNS
from spark_queue.log.settings import Settings
from spark_queue.rules.bounds import Played
from spark_queue.sql import (
    admission,
    catalogue,
    checkpointing,
    choosing,
    entry_rows,
    limit_pass,
    log_rows,
    look,
    settlement,
    sql_engines,
)
from spark_queue.sql.catalogue import OF_STATUS, SECOND, needed_by
from spark_queue.sql.database import Database
from spark_queue.sql.log_rows import plain

_FILES = {
    file.name: file.read_text(encoding="utf-8")
    for file in (resources.files(catalogue.__package__) / "texts").iterdir()
}

#: Files that are about rows since a checkpoint, and what they ask.
_FOLDS = {
    "log.sql": look.ASKED,
    "open_items.sql": look.ASKED,
    "backlog.sql": look.ASKED,
    "claim.sql": choosing.ASKED,
    "checkpoint.sql": checkpointing.ASKED,
}

#: Tables that views make and an engine has as well.
_MADE = {
    "settle.sql": {"outcome_rows": "settle_rows"},
    "stats.sql": {"keys": "key_stats"},
    "operate.sql": {"meant": "status"},
}

#: What Spark has and DuckDB has not.
_WORDS = ("crc32(said) AS cast(0 AS bigint)", "rint(number) AS round(number)")


def _queue(*names: str) -> pa.Table:
    return plain(QUEUE_COLUMNS.arrow.empty_table().select(names))


def _status(*names: str) -> pa.Table:
    return plain(STATUS_COLUMNS.arrow.empty_table().select(names))


def _look() -> dict[str, pa.Table]:
    """Return the tables of a question: both logs, and items that were found."""
    items = _queue(*look.ENTERED).append_column("own", pa.array([], pa.int64()))
    sizes = pa.array([], pa.int64())
    return {
        "items": items,
        "rejected": items,
        "states": _status(*look.MOVES),
        "written": _status(*look.MOVES),
        "configs": _status(*look.CONFIGURED),
        "sized": _queue("_seq", "_step", "_enqueued_at").append_column("bytes", sizes),
        "found": _status(*look.MOVED, "_lease_expires_at"),
        "asked": look.ASKED.empty_table(),
        "taken": sql_engines.taken_table(Played()),
        **_order(),
    }


def _order() -> dict[str, pa.Table]:
    """Return where the order of service stands."""
    weights = log_rows.weights_of(Settings.initial(QueueConfig()), [])
    pointers = log_rows.pointers_of({}, {}, [])
    limits = {
        name: getattr(limit_pass, name.upper()).empty_table()
        for name in (*limit_pass.KEY_TABLES, "chosen", "closed", "reached")
    }
    limits["debts"] = limits["owed"] = sql_engines.DEBTS.empty_table()
    limits["chosen_when_full"] = limits["chosen"]
    return {"weights": weights, "weights_after": weights, "pointers": pointers, **limits}


def _fold(asked: pa.Schema) -> dict[str, pa.Table]:
    """Return the tables of a reader since its checkpoint."""
    return {
        "states": _status(*RECENT, "_item_gen"),
        "items": _queue(*look.ENTERED),
        "entered": _queue(*log_rows.ENTERED),
        "waiting": _queue(*log_rows.PLACES),
        "times": _queue(*log_rows.TIMES),
        "candidates": _queue(*entry_rows.KEYED),
        "sized": _look()["sized"],
        "asked": asked.empty_table(),
        **_order(),
    }


def _enqueue() -> dict[str, pa.Table]:
    """Return the tables of a batch."""
    nothing = {name: pa.schema(kinds).empty_table() for name, kinds in admission.NOTHING.items()}
    given = {"seq": pa.int64(), "bytes": pa.int64(), "line": pa.int64()}
    batch = _queue(*entry_rows.BATCH, "_origin", "_round")
    for name, kind in {"given": pa.int32(), **given}.items():
        batch = batch.append_column(name, pa.array([], kind))
    return {
        **_fold(admission.ASKED),
        "batch": batch,
        "keyed": _queue(*entry_rows.KEYED),
        "members": _queue(*entry_rows.MEMBER),
        "there": _queue("_seq"),
        **{name: nothing[name] for name in ("open", "busy", "ends", "line_rows")},
    }


def _settle() -> dict[str, pa.Table]:
    """Return the tables of a settle."""
    return {
        "states": _status(*RECENT),
        "asked": settlement.ASKED.empty_table(),
        "outcomes": settlement.OUTCOMES.empty_table(),
        "delays": settlement.DELAYS.empty_table(),
        "workers_ended": settlement.WORKERS.empty_table(),
    }


def _tables(file: str) -> Mapping[str, pa.Table]:
    if file in _FOLDS:
        return _fold(_FOLDS[file])
    others: dict[str, Callable[[], dict[str, pa.Table]]]
    others = {"enqueue.sql": _enqueue, "settle.sql": _settle}
    return others.get(file, _look)()


@pytest.fixture(params=sorted(_FILES))
def file(request: pytest.FixtureRequest) -> str:
    """Take each file of views."""
    name: str = request.param
    return name


@pytest.fixture
def database(file: str) -> Iterator[Database]:
    """Make an engine over tables without a row."""
    with closing(Database({})) as made:
        for word in _WORDS:
            made._connection.execute(f"CREATE TEMP MACRO {word}")
        for name, rows in _tables(file).items():
            made.give(name, rows)
        for name, view in _MADE.get(file, {}).items():
            made.give(name, made.rows(view))
        yield made


def _views(file: str) -> dict[str, catalogue.View]:
    return catalogue.read(file, _FILES[file])


def test_a_view_has_the_columns_that_its_first_line_says(database: Database, file: str) -> None:
    """Names and order are so, and instants are numbers of microseconds."""
    for name, view in _views(file).items():
        found = database.rows(name).schema
        assert list(view.columns) == found.names, name
        instants = [one for one, is_instant in view.columns.items() if is_instant]
        assert {found.field(one).type for one in instants} <= {pa.int64()}, name


def test_a_view_is_made_of_those_above_it(file: str) -> None:
    """Others are views of files, or tables of an engine, that the head of the file names."""
    above = {name for other in _names(file, "Uses") for name in _views(f"{other}.sql")}
    used, tables = set(), set()
    for name, view in _views(file).items():
        for table in view.tables:
            first = table
            if table not in catalogue.views():
                first = table.removesuffix(SECOND).removesuffix(OF_STATUS)
            if first in catalogue.views():
                assert first in above, name
                used.add(first)
            else:
                tables.add(table)
        above.add(name)
    assert sorted(tables) == _names(file, "Tables")
    assert all(used & _views(f"{other}.sql").keys() for other in _names(file, "Uses"))


def _names(file: str, what: str) -> list[str]:
    """Return the names that the head of a file lists."""
    found = re.search(rf"^-- {what}: (.*)\.$", _FILES[file].partition("\n\n")[0], re.MULTILINE)
    return found[1].split(", ") if found else []


def test_no_view_stands_twice() -> None:
    """Each name is that of one view; a file has nothing else."""
    names = [name for file in _FILES for name in _views(file)]
    assert len(names) == len({*names}) == len(catalogue.views())
    assert sum(text.count("\n\n-- ") for text in _FILES.values()) == len(names)


def test_the_second_stage_has_the_columns_of_the_first() -> None:
    """What is derived of a view of a claim is the same over other tables."""
    with closing(Database({})) as database:
        for name, rows in _tables("claim.sql").items():
            database.give(name, rows)
        staged = [n for n in _views("claim.sql") if needed_by(n) & {"startable_items"}]
        assert "ranked_items" in staged
        for name in staged:
            assert database.rows(f"{name}{SECOND}").schema == database.rows(name).schema, name


def test_a_phrase_is_said_more_than_once() -> None:
    """What one view alone says stands in its text."""
    phrases = resources.files(catalogue.__package__).joinpath("phrases.sql").read_text("utf-8")
    said = Counter(re.findall(r"\$(\w+)\(", phrases + "".join(_FILES.values())))
    names = re.findall(r"^-- (\w+)\(", phrases, re.MULTILINE)
    assert all(said[name] > 1 for name in names), said
