"""Workers with an output that are killed: each item's row is there once, whoever goes on."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from spark_queue.local_queue import LocalQueue
from tests.programs import run_python
from tests.unit.local.conftest import Make

_MORTALS = Path(__file__).with_name("mortals.py")

#: Works a queue off, and kills itself where it is told to.
_WORKER = """
import sys
sys.path.insert(0, sys.argv[4])
import mortals, spark_queue
mortals.MOMENTS[sys.argv[3]][0](1)
queue = spark_queue.open(sys.argv[1], durability="process")
queue.process(
    lambda item: {"who": "first"},
    returns="who string", output=sys.argv[2], limit=3, using=sys.argv[5],
)
"""


def _rows(out: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = DeltaTable(str(out)).to_pyarrow_table().sort_by("_seq").to_pylist()
    return rows


@pytest.mark.parametrize("using", ["threads", "processes"])
@pytest.mark.parametrize(
    ("moment", "losses", "who"),
    [
        ("output not begun", [1, 1, 1, 0, 0], "second"),
        ("commit made in output", [0] * 5, "first"),
        ("output written", [0] * 5, "first"),
        ("settled", [0, 0, 0, 1, 1], "first"),
    ],
)
def test_who_goes_on_finds_what_was_done(
    make: Make, tmp_path: Path, using: str, moment: str, losses: list[int], who: str
) -> None:
    """Killed before its rows are there, a worker has lost its items; after that, done them.

    What it claimed in the step that settled is lost with it, too.
    """
    queue, out = make("id long"), tmp_path / "out"
    queue.enqueue([{"id": number} for number in range(5)])
    words = [queue.name, str(out), moment, str(_MORTALS.parent), using]
    ended = run_python("-c", _WORKER, *words)
    assert ended.returncode == -9

    done = queue.process(lambda _: {"who": "second"}, returns="who string", output=str(out))

    assert done.acked == (5 if who == "second" else 2)
    rows = _rows(out)
    assert [(row["_seq"], row["who"]) for row in rows] == [
        *[(seq, who) for seq in (1, 2, 3)],
        (4, "second"),
        (5, "second"),
    ]
    states = {row["id"]: (row["_state"], row["_losses"]) for row in queue.status().to_pylist()}
    assert states == {number: ("acked", count) for number, count in enumerate(losses)}


@pytest.mark.slow
def test_killed_workers_leave_an_exact_output(tmp_path: Path) -> None:
    """20 times SIGKILL, at any moment, and workers that are late: one row for each item that is."""
    words = [str(tmp_path), "20", "11"]
    ended = run_python(_MORTALS, *words)

    assert ended.returncode == 0, ended.stderr
    facts = json.loads(ended.stdout)
    assert sum(facts["killed"].values()) >= 20
    assert len(facts["killed"]) >= 5
    items = LocalQueue.open(tmp_path / "queue").status().to_pylist()
    assert Counter(row["_state"] for row in items).keys() == {"acked"}
    rows = _rows(tmp_path / "out")
    expected = {row["_seq"]: 2 * row["id"] for row in items}
    assert [(row["_seq"], row["twice"]) for row in rows] == sorted(expected.items())
