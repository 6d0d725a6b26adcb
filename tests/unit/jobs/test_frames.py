"""The job that enqueues frames of other libraries and appends to their tables, and its document."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake

_ROOT = Path(__file__).parents[3]


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Import the job from where it lies."""
    monkeypatch.syspath_prepend(str(_ROOT / "jobs"))
    return import_module("frames")


def test_the_document_has_what_came_of_each_library(frames: Any) -> None:
    """The table is that of the last run, with each library in it, and none failed midway."""
    results = frames.kept(frames.RESULTS)
    assert [*results] == [*frames.LIBRARIES]
    assert {part for outcomes in results.values() for part in outcomes} <= {"frame", "table"}
    assert frames.table(results) in (_ROOT / "docs" / "engines.md").read_text("utf-8")


def test_a_library_that_gives_what_it_got_is_right() -> None:
    """Values at the edges come through, as items and as results."""
    command = [sys.executable, str(_ROOT / "jobs" / "frames.py"), "--play", "deltalake"]
    said = subprocess.check_output(command, text=True)  # noqa: S603 - our own
    assert [json.loads(line) for line in said.splitlines()] == [
        {"part": "frame", "outcome": "right"},
        {"part": "table", "outcome": "right"},
    ]


def test_columns_are_named_that_do_not_come_through(
    frames: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A zero without its sign is wrong; what is refused says why, and leaves out the place."""

    def frame(_: Any, rows: pa.Table) -> pa.Table:
        rows = _changed(rows, "ratio", lambda values: pc.add(values, 0.0))
        return _changed(rows, "text", lambda values: values.cast(pa.binary()))

    def write(_: Any, rows: pa.Table, path: str) -> None:
        write_deltalake(path, _changed(rows, "whole", lambda values: values.cast(pa.int64())))

    library = frames.Library("a frame", frame, write, module="pyarrow")
    monkeypatch.setattr(frames, "LIBRARIES", {"other": library})
    monkeypatch.setattr(sys, "path", [*sys.path])
    frames.play_library("other")

    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["part"] for one in said] == ["frame", "table"]
    assert said[0]["outcome"].startswith("`ratio` wrong; `text` refused: SchemaMismatchError: ")
    assert said[1]["outcome"] == (
        "`whole` refused: SchemaMismatchError: column 'whole': is int64 in the output '…', and "
        "int32 in returns"
    )


def _changed(rows: pa.Table, name: str, change: Callable[[Any], Any]) -> pa.Table:
    """Return rows with other values of a column, if they have it."""
    if name not in rows.column_names:
        return rows
    return rows.set_column(rows.column_names.index(name), name, change(rows[name]))


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ({}, "right"),
        ({"a": "wrong", "b": "wrong"}, "wrong"),
        ({"a": "wrong", "c": "refused: no"}, "`a` wrong; `c` refused: no"),
        ({"a": "refused: no", "b": "refused: no", "c": "refused: no"}, "refused: no"),
        ({"all": "refused: so many"}, "refused: so many"),
    ],
)
def test_columns_that_fail_alike_are_together(
    frames: Any, said: Mapping[str, str], outcome: str
) -> None:
    """What fails with all columns alone, and none by itself, is said as it was."""

    def ask(names: Sequence[str]) -> str:
        if len(names) == 1:
            return said.get(names[0], "right")
        return said.get("all") or next(iter(said.values()), "right")

    names = ["a", "b"] if outcome == "wrong" else ["a", "b", "c"]
    assert frames.together(ask, names) == outcome


@pytest.mark.usefixtures("frames")
def test_an_environment_with_more_packages_is_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job of engines uses those of this one; one that lacks a package is made anew."""
    environments = import_module("environments")
    (tmp_path / "installed").write_text("duckdb==1.5.5\npyarrow==26.0.1\nrich>=13.7", "utf-8")
    python = environments.make_environment(tmp_path, ("pyarrow==26.0.1", "duckdb==1.5.5"))
    assert python == tmp_path / "bin" / "python"

    def refuse(*_: Any, **__: Any) -> None:
        raise subprocess.CalledProcessError(1, "venv")

    monkeypatch.setattr(environments.subprocess, "run", refuse)
    with pytest.raises(subprocess.CalledProcessError):
        environments.make_environment(tmp_path, ("duckdb==1.5.6",))


@pytest.mark.usefixtures("frames")
def test_what_a_newer_run_has_kept_stays(tmp_path: Path) -> None:
    """An older one that is not done yet knows fewer names."""
    environments, results = import_module("environments"), tmp_path / "results.json"
    environments.keep(results, "new", "yes", ["a", "new"])
    environments.keep(results, "b", "no", ["a", "b"])
    environments.keep(results, "a", "yes", ["a", "b"])
    assert list(environments.kept(results).items()) == [("a", "yes"), ("b", "no"), ("new", "yes")]
