"""``spark-queue replay``: a table, JSON, and a picture, without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spark_queue.cli.app import app

TRACE = """; a header
1 0 -1 10 1 -1 -1 1 -1 -1 1 ann 1 -1 -1 -1 -1 -1
2 0 -1 10 1 -1 -1 1 -1 -1 1 ann 1 -1 -1 -1 -1 -1
3 0 -1 10 1 -1 -1 1 -1 -1 1 ann 1 -1 -1 -1 -1 -1
4 1 -1 5 1 -1 -1 1 -1 -1 1 bob 1 -1 -1 -1 -1 -1
"""


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """Write a small trace."""
    path = tmp_path / "small.swf"
    path.write_text(TRACE)
    return str(path)


def test_orders_are_shown_side_by_side(trace: str, tmp_path: Path) -> None:
    """The table has every order, the lines the work, and the picture is where it was asked for."""
    plot = tmp_path / "waits.png"
    done = CliRunner().invoke(app, ["replay", trace, "--servers", "1", "--plot", str(plot)])
    assert done.exit_code == 0, done.output
    wide = [line for line in done.output.splitlines() if len(line) > 80]
    assert [line for line in wide if str(plot) not in line] == []
    for word in ("fifo", "fair", "weighted", "cost", "bob", "35 s in every order"):
        assert word in done.output
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_json_has_every_user_of_every_order(trace: str) -> None:
    """With ``--json`` one object is printed, with the waits of all users in all orders."""
    done = CliRunner().invoke(app, ["replay", trace, "--servers", "1", "--json"])
    result = json.loads(done.stdout)
    waits = {
        order["order"]: {user["user"]: user["wait_max"] for user in order["users"]}
        for order in result["orders"]
    }
    assert waits["fifo"] == {"ann": 20.0, "bob": 29.0}
    assert waits["fair"]["bob"] == 19.0
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--weight", "bob"], "give it as KEY=WEIGHT"),
        (["--weight", "eve=2"], "'eve': the trace has no such user"),
    ],
)
def test_bad_weights_are_usage_errors(trace: str, options: list[str], message: str) -> None:
    """A weight that is none, or of nobody, ends the command with code 2."""
    done = CliRunner().invoke(app, ["replay", trace, *options, "--json"])
    assert done.exit_code == 2
    assert message in json.loads(done.stdout)["message"]
