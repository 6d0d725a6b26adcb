"""Databases of reports and of decisions: closed to the outside."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import spark_queue
from spark_queue.sql import database

#: A variable that a text of SQL must not find.
SECRETS = pa.table({"key": ["secret"]})

HOSTILE = {
    "read a file": "SELECT * FROM read_text('/etc/passwd')",
    "read a table of texts": "SELECT * FROM read_csv('/etc/passwd')",
    "read a file by its name": "FROM '/etc/passwd'",
    "read the environment": "SELECT * FROM read_blob('/proc/self/environ')",
    "list files": "FROM glob('/etc/*')",
    "read another computer": "FROM read_csv('http://localhost:9/x.csv')",
    "read a variable": "FROM SECRETS",
    "write a file": "COPY (SELECT 1) TO '/tmp/spark-queue-hostile.csv'",
    "write all": "EXPORT DATABASE '/tmp/spark-queue-hostile'",
    "attach": "ATTACH '/tmp/spark-queue-hostile.db'",
    "install": "INSTALL httpfs",
    "load": "LOAD httpfs",
    "load a file": "LOAD '/tmp/hostile.duckdb_extension'",
    "open up": "SET enable_external_access = true",
    "add a directory": "SET allowed_directories = ['/etc']",
    "unlock": "SET lock_configuration = false",
    "reset": "RESET lock_configuration",
    "take more memory": "PRAGMA memory_limit = '90GB'",
    "spill elsewhere": "SET temp_directory = '/etc'",
    "install by itself": "SET autoinstall_known_extensions = true",
    "log queries": "PRAGMA log_query_path = '/tmp/spark-queue-hostile.log'",
}


def _as_an_answer(spilled: str) -> Any:
    start = partial(database.connect, spilled, database.AS_SPARK)
    return database.OneDatabase(lambda _: start()).connect()


@pytest.mark.parametrize("connect", [_as_an_answer, partial(database.connect, statements=())])
@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_text_gets_nowhere(
    tmp_path: Path, what: str, connect: Callable[[str], Any]
) -> None:
    """A text of SQL reads no file and no variable, installs nothing, and changes no setting."""
    connection = connect(str(tmp_path))
    before = connection.execute("FROM duckdb_settings() ORDER BY name").fetchall()

    with pytest.raises(duckdb.Error):
        connection.execute(HOSTILE[what]).fetchall()

    assert connection.execute("FROM duckdb_settings() ORDER BY name").fetchall() == before
    assert list(Path("/tmp").glob("spark-queue-hostile*")) == []  # noqa: S108 - that is the point


def test_what_does_not_fit_is_spilled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is closed to a text is open to the database itself: it sorts more than memory holds."""
    monkeypatch.setenv(database.MEMORY, "100MB")
    connection = _as_an_answer(str(tmp_path))
    connection.execute(
        "CREATE TEMP TABLE many AS SELECT md5(i::varchar) || repeat('x', 400) AS text "
        "FROM range(400_000) AS r(i)"
    )

    assert list(tmp_path.glob("*.tmp"))
    connection.close()


def test_there_is_one_way_to_connect() -> None:
    """No other module of the library makes a connection."""
    sources = Path(spark_queue.__file__).parent.rglob("*.py")
    found = [file.name for file in sources if "duckdb.connect(" in file.read_text()]
    assert found == ["database.py"]
