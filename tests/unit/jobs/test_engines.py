"""The job that asks other engines about tables of queues, and the table in its document."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import date, datetime, timezone
from decimal import Decimal
from functools import partial
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest

_ROOT = Path(__file__).parents[3]
_READERS = _ROOT / "jobs" / "readers"


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Import the job from where it lies."""
    monkeypatch.syspath_prepend(str(_ROOT / "jobs"))
    return import_module("engines")


def test_the_document_has_what_came_of_each_engine(engines: Any) -> None:
    """The table is that of the last run, with each engine in it."""
    results = engines.kept(engines.RESULTS)
    assert results.keys() == engines.ENGINES.keys()
    assert engines.table(results) in (_ROOT / "docs" / "engines.md").read_text("utf-8")


def test_each_engine_has_a_program(engines: Any) -> None:
    """And each program is that of an engine."""
    named = {engine.program or name for name, engine in engines.ENGINES.items()}
    assert {file.stem for file in _READERS.glob("with_*.py")} == {f"with_{name}" for name in named}


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        (pa.array([float("nan"), -0.0]), None),
        (pa.array([-0.0, float("nan")]), None),
        (pa.array([float("nan"), 0.0]), "wrong"),
        (pa.array([float("nan")]), "wrong"),
        (pa.array(["nan", "zero"]), "wrong"),
        ("DaftTypeError: no", "refused"),
    ],
)
def test_rows_are_right_in_any_order_and_by_each_value(
    engines: Any, values: pa.Array | str, fault: str | None
) -> None:
    """Zeros differ by their sign, NaN equals itself, and what does not fit a type is wrong."""
    right = pa.table({"x": [float("nan"), -0.0]})
    assert (
        engines.judge(right, values if isinstance(values, str) else _sent({"x": values})) == fault
    )


def test_an_instant_that_python_does_not_have_is_wrong(engines: Any) -> None:
    """An engine may round the last instant up, into the year 10000."""
    instants = pa.timestamp("us", "UTC")
    right = pa.table({"x": pa.array([datetime(9999, 12, 31, tzinfo=timezone.utc)], instants)})
    assert engines.judge(right, _sent({"x": pa.array([253402300800000000], instants)})) == "wrong"


def test_jars_are_brought_until_they_are_all_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A start that ended midway is made again; one that has them brings none."""
    monkeypatch.syspath_prepend(str(_READERS))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    brought = partial(import_module("jars").class_path, "io.delta", "4.4.0", "delta-kernel-api")
    for fails in True, False:
        _maven(tmp_path, fails=fails)
        with pytest.raises(subprocess.CalledProcessError) if fails else nullcontext():
            assert brought() == f"{tmp_path}/jars/*"
    assert brought() == f"{tmp_path}/jars/*"
    assert (tmp_path / "jars" / "asked").read_text("utf-8") == "12"


def _maven(folder: Path, *, fails: bool) -> None:
    """Write a program that copies its one jar, in which is how often it was asked, and may fail."""
    program = folder / "mvn"
    program.write_text(
        f"#!/bin/sh\nfor word; do case $word in -DoutputDirectory=*) to=${{word#*=}};; esac; done\n"
        f"mkdir -p $to; printf {1 if fails else 2} >> $to/asked; exit {int(fails)}\n",
        "utf-8",
    )
    program.chmod(0o755)


def test_each_table_of_a_queue_is_asked_about(engines: Any, tmp_path: Path) -> None:
    """Each kind of table is there, with rows that some question finds."""
    tables = import_module("engine_tables")
    tables.make_tables(str(tmp_path), tables.Alone())
    asked = list(tables.questions("without Spark", tables.KINDS))
    rows = {kind: engines.rows_of(tmp_path / path) for kind, path in tables.KINDS.items()}
    found = {one.table for one in asked if engines.right_rows(rows[one.table], one).num_rows}
    assert found == {"items", "status", "output", "journal", "archive"}


@pytest.mark.parametrize(
    ("where", "text"),
    [
        (None, "true"),
        (("text", "=", "b%"), "`text` = 'b%'"),
        (("text", "IS NULL", None), "`text` IS NULL"),
        (("large", "=", -(2**63)), "`large` = CAST('-9223372036854775808' AS BIGINT)"),
        (
            ("amount", "=", Decimal("0e-18")),
            "`amount` = CAST('0.000000000000000000' AS DECIMAL(38, 18))",
        ),
        (("raw", "=", b"\x00\xff"), "`raw` = X'00ff'"),
        (
            ("at", ">", datetime(1, 1, 1, tzinfo=timezone.utc)),
            "`at` > TIMESTAMP '0001-01-01 00:00:00+00:00'",
        ),
    ],
)
def test_a_condition_is_written_in_the_words_of_an_engine(
    engines: Any, where: Any, text: str
) -> None:
    """Each value has all its digits, and its type."""
    assert engines.ENGINES["sail"].dialect.sql(where) == text


def test_a_line_says_what_is_wrong_and_of_which_tables(engines: Any) -> None:
    """Filters of the same tables are together; what did not install has what was said."""
    outcome = {
        "without Spark": {
            "items": {"`at` filtered": "refused", "`day` filtered": "refused"},
            "output": {"`tags`": "wrong", "`at` filtered": "refused", "`day` filtered": "refused"},
            "status": {},
        },
        "by Spark": {"items": {"everything": "refused"}, "status": {}},
    }
    missing = dict.fromkeys(engines.MAKINGS, "does not start: no")
    daft, ray = engines.table({"daft": outcome, "ray": missing}).splitlines()[2:]
    wrong = "wrong: `tags` (output); refused: filters on `at`, `day` (items, output)"
    assert daft == f"| daft 0.7.26 | {wrong} | refused: everything (items) {2 * '| not asked '}|"
    assert ray == f"| ray 2.60.0 {4 * '| does not start: no '}|"


def test_a_store_sends_all_where_more_last_bytes_are_asked_for_than_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The store of this machine refuses, and engines ask S3 so; other ranges are its own."""
    monkeypatch.syspath_prepend(str(_ROOT / "jobs" / "bench"))
    proxies = import_module("shaky_proxy")
    with _serving(("127.0.0.1", 0), _Small) as store:
        proxy = partial(proxies.ShakyProxy, lost=0, refused=0, delay=0, seed=0)
        with _serving(0, store.server_address[1], of=proxy) as before:
            said = [_asked(before.server_address[1], words) for words in ("-8", "-2", "9-12")]
    assert said == [(206, "bytes 0-2/3", b"abc"), (206, "bytes 1-2/3", b"bc"), (416, None, b"")]


class _Small(BaseHTTPRequestHandler):
    """Has an object of three bytes, and refuses to send more."""

    def do_GET(self) -> None:
        """Send it, or its last two bytes."""
        status, sent, there = {
            None: (200, b"abc", None),
            "bytes=-2": (206, b"bc", "bytes 1-2/3"),
        }.get(self.headers.get("Range"), (416, b"", None))
        self.send_response(status)
        if there is not None:
            self.send_header("Content-Range", there)
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, *_: Any) -> None:
        """Say nothing of requests."""


@contextmanager
def _serving(*given: Any, of: Callable[..., Any] = ThreadingHTTPServer) -> Iterator[Any]:
    with of(*given) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def _asked(port: int, words: str) -> tuple[int, str | None, bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/bucket/object", headers={"Range": f"bytes={words}"})
    answer = connection.getresponse()
    found = answer.status, answer.getheader("Content-Range"), answer.read()
    connection.close()
    return found


def test_programs_of_engines_are_run_alone(tmp_path: Path) -> None:
    """One prints the rows of a table, and those of a condition."""
    from deltalake import write_deltalake  # noqa: PLC0415 - its import takes a while

    write_deltalake(str(tmp_path / "t"), pa.table({"x": [1, 2]}))
    command = [sys.executable, str(_READERS / "with_deltalake.py"), str(tmp_path / "t")]
    for words, rows in ([], [{"x": 1}, {"x": 2}]), (["x > 1"], [{"x": 2}]):
        said = subprocess.check_output([*command, *words], text=True)  # noqa: S603 - our own
        assert said == f"{rows}\n"


def test_a_program_has_all_paths_before_the_first_question(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One server is started for all tables that are asked about."""
    program = tmp_path / "with_server.py"
    program.write_text(
        "from answering import answer\nshared = []\n"
        "answer(lambda path, _: {'at': [shared.index(path)]}, shared.extend)\n",
        "utf-8",
    )
    monkeypatch.setenv("PYTHONPATH", str(_READERS))
    asked = pickle.dumps([("b", None), ("a", None), ("b", ("x", "=", 1))])
    said = subprocess.check_output([sys.executable, str(program)], input=asked)  # noqa: S603 - our own
    answers = pickle.loads(said)  # noqa: S301 - of our own child
    found = [pa.ipc.open_stream(one).read_all().to_pydict() for one in answers]
    assert found == [{"at": [0]}, {"at": [1]}, {"at": [0]}]


@pytest.mark.parametrize(
    ("where", "leaves"),
    [
        (("at", ">", datetime(1, 1, 1, tzinfo=timezone.utc)), ["0001-01-01T00:00:00+00:00"]),
        (("day", "=", date(9999, 12, 31)), ["9999-12-31"]),
        (("flag", "=", True), ["true"]),
        (("large", "=", -(2**63)), ["-9223372036854775808"]),
        (("flag", "IS NULL", None), []),
        (("amount", "=", Decimal("0.10")), None),
        (("raw", "=", b"a"), None),
        (("tags", "IS NULL", None), None),
    ],
)
def test_a_hint_has_the_type_of_its_column(
    monkeypatch: pytest.MonkeyPatch, shared: str, where: Any, leaves: list[str] | None
) -> None:
    """Of a type that hints do not have there is none."""
    monkeypatch.syspath_prepend(str(_READERS))
    told = import_module("sharing_hints").hints(shared, where)
    if leaves is None:
        assert told is None
        return
    hint = json.loads(told)
    known = {"at": "timestamp", "day": "date", "flag": "bool", "large": "long"}[where[0]]
    words = {"=": "equal", ">": "greaterThan", "IS NULL": "isNull"}
    assert hint["op"] == words[where[1]]
    assert {one["valueType"] for one in hint["children"]} == {known}
    assert hint["children"][0] == {"op": "column", "name": where[0], "valueType": known}
    assert [one["value"] for one in hint["children"][1:]] == leaves


@pytest.fixture
def shared(tmp_path: Path) -> str:
    """Make a table with a column of each type."""
    from deltalake import write_deltalake  # noqa: PLC0415 - its import takes a while

    types = {
        "at": pa.timestamp("us", "UTC"),
        "day": pa.date32(),
        "flag": pa.bool_(),
        "large": pa.int64(),
        "amount": pa.decimal128(38, 18),
        "raw": pa.binary(),
        "tags": pa.list_(pa.string()),
    }
    write_deltalake(str(tmp_path), pa.schema([*types.items()]).empty_table())
    return str(tmp_path)


def _sent(columns: dict[str, pa.Array]) -> bytes:
    """Return rows as an engine's process sends them."""
    table, sink = pa.table(columns), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue().to_pybytes())
