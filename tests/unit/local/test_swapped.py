"""Files of rows in each other's place, as a restore of single files leaves them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_queue.cli import main
from spark_queue.errors import FileDamagedError
from spark_queue.local_queue import LocalQueue
from spark_queue.state import catch_up
from tests.unit.local.conftest import Make

Again = Callable[[], LocalQueue]

LOGS = ("queue", "status")

#: What reads files: each names the one that is not its own.
VERBS: dict[str, Callable[[LocalQueue], Any]] = {
    "status": lambda queue: queue.status(),
    "stats": lambda queue: queue.stats(),
    "report": lambda queue: queue.report(),
    "history": lambda queue: queue.history(1),
    "claim": lambda queue: queue.claim(9).rows,
    "purge": lambda queue: queue.purge({"id": "a"}),
    "maintain": lambda queue: queue.maintain(retention=timedelta(days=1)),
    "clone": lambda queue: queue.clone(f"{queue.name}-clone").status(),
}


@pytest.fixture
def queue(make: Make) -> LocalQueue:
    """Return a queue of five items, two of them done, whose files are small."""
    made = make(dedup_key="id")
    for name in ("a", "b", "c" * 900, "d", "e"):
        made.enqueue({"id": name})
    made.claim().ack()
    made.claim().ack()
    return made


def _swap(log: Path, first: int, second: int) -> None:
    """Put two files of items in each other's place, by their age."""
    files = sorted(log.glob("_gen=0/*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    one, other = files[first], files[second]
    aside = shutil.move(one, log / "aside")
    other.rename(one)
    Path(aside).rename(other)


@pytest.mark.parametrize("pair", [(0, 2), (0, 1)], ids=["of two sizes", "of one size"])
@pytest.mark.parametrize(
    ("verb", "which"),
    # The history of an item is in the status log alone.
    sorted({(verb, which) for verb in VERBS for which in LOGS} - {("history", "queue")}),
)
def test_a_file_in_the_place_of_another_is_named(
    queue: LocalQueue, again: Again, which: str, verb: str, pair: tuple[int, int]
) -> None:
    """No verb answers with what is not the queue's, or goes on by it."""
    log = Path(queue.name, which)
    _swap(log, *pair)
    caches: dict[str, object] = vars(catch_up)["_caches"]
    caches.clear()
    before = sorted(Path(queue.name).rglob("*.json"))

    with pytest.raises(FileDamagedError, match=r"by its commit.*: put it back"):
        VERBS[verb](again())
    assert sorted(Path(queue.name).rglob("*.json")) == before


def test_the_command_line_names_the_file(
    queue: LocalQueue, capsys: pytest.CaptureFixture[str]
) -> None:
    """A look at the queue ends with the file and the way out, and not with exit code 0."""
    _swap(Path(queue.name, "status"), 0, 1)
    queue._store.forget()

    with pytest.raises(SystemExit, match="1"):
        main(["status", queue.name])
    assert "by its commit: put it back from a copy" in capsys.readouterr().err
