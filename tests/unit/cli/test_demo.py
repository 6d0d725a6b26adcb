from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from spark_queue import LocalQueue
from spark_queue.cli import main
from spark_queue.cli.commands import serving


def _run(*words: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["demo", *words])
    assert not ended.value.code


def test_demo_shows_what_a_queue_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A worker dies and loses nothing, a broken file is set aside, small tenants do not wait."""
    _run("--keep", str(tmp_path), "--json")

    told = json.loads(capsys.readouterr().out)
    queue = LocalQueue.open(told["queue"])
    assert told["killed"]["held"] > 0
    assert told["dead"] == [
        {"path": "bob/3.csv", "attempts": 2, "error": told["dead"][0]["error"]},
    ]
    assert told["dead"][0]["error"].endswith("line 7 has 4 columns")
    waits = {row["tenant"]: row for row in told["tenants"]}
    assert waits["bob"]["waited"] < waits["bob"]["in_line"]
    done: pa.Table = DeltaTable(f"{told['queue']}/rows").to_pyarrow_table()
    assert len(set(done["_seq"].to_pylist())) == len(done) == told["acked"] == queue.stats().acked


def test_demo_leaves_nothing_and_may_end_in_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The queue is in a temporary place, gone afterwards; the page is that of the queue."""
    shown: list[Path] = []
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def serve(_: object, names: list[str], **how: object) -> None:
        assert how["show"]
        shown.extend(map(Path, names))

    monkeypatch.setattr(serving, "serve_queues", serve)

    _run("--open")

    assert len(shown) == 1
    root = next(one for one in shown[0].parents if one.parent == tmp_path)
    assert not root.exists()
    said = capsys.readouterr().out
    assert "bob/3.csv failed 2 times and was set aside" in said
    assert max(map(len, said.splitlines()[:14])) <= 80
