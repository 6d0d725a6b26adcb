"""What commands print of a queue whose names are long, on a screen of eighty columns."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from spark_queue import LocalQueue, QueueConfig
from spark_queue.acting import acting_as
from spark_queue.cli.display import Whole, fit
from spark_queue.clock import ManualClock

Run = Callable[..., str]

_LONG = "a-tenant-of-a-name-that-is-longer-than-any-column-has-room-for"
_ERROR = f"no connection to {'a-host.' * 9}example.org after three tries, and none is left to try"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make a queue in which much went wrong; return its path."""
    monkeypatch.setenv("COLUMNS", "80")
    place = str(tmp_path / "queue")
    config = QueueConfig(dedup_key="path", fair_key="t", group_key="g", max_attempts=1)
    clock = ManualClock()
    queue = LocalQueue.create(place, "path string, t string, g string", config, clock=clock)
    rows = [
        {"path": f"/landing/{_LONG}/{n}", "t": f"{_LONG}-{n % 3}", "g": f"{_LONG}-{n % 4}"}
        for n in range(24)
    ]
    with acting_as(f"somebody.of.a.long.name.on.{_LONG}"):
        queue.enqueue(rows)
        queue.claim(2, worker_id=f"{_LONG}/1").dead(_ERROR)
        queue.claim(2, worker_id=f"{_LONG}/2").ack()
        queue.claim(1, worker_id=f"{_LONG}/3")
        queue.cancel("_seq = 20")
        queue.configure(max_in_flight=500, weights={f"{_LONG}-1": 2})
        queue.pause()
    clock.advance(timedelta(hours=3))
    queue.claim(1, worker_id=f"{_LONG}/4")
    return place


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command without a session; return what it prints."""
    from spark_queue.cli import main  # noqa: PLC0415 - the columns are set before

    def run(*words: str) -> str:
        with pytest.raises(SystemExit):
            main([*words, "--engine", "local"])
        said = capsys.readouterr()
        assert said.out, said.err
        return said.out

    return run


_SHOWN = [
    "status",
    "stats",
    "dead",
    "explain 9",
    "history 1",
    "doctor",
    "wait --timeout 0",
    "report",
    "report --item 9",
    "top --looks 1",
    "readers",
    f"add-reader reader-{_LONG}",
    "cancel --dry-run --where true",
    "redrive --dry-run",
    "purge --dry-run --where true",
    "purge --where true",
    f"configure --yes --weight {_LONG}-of-somebody-else=3",
    "pause",
    "resume",
    "undo 7",
    "maintain --dry-run",
    "maintain --retention 1",
    "drop --dry-run",
]


@pytest.mark.parametrize("asked", _SHOWN)
def test_no_line_is_wider_than_a_terminal(place: str, told: Run, asked: str) -> None:
    """Only a command to paste, and a path, stand on a line of their own however long they are."""
    command, *more = asked.split()
    for line in told(command, place, *more).splitlines():
        pasted = line.lstrip().removeprefix("$ ").startswith("spark-queue ")
        assert len(line.rstrip()) <= 80 or pasted or place in line, line


def test_a_line_is_broken_between_words() -> None:
    """Each part is indented as the line is; a path is whole, and so is a line that is to be."""
    assert fit("  one two three", 9) == ["  one two", "  three"]
    assert fit("see /a/path/of/somebody there", 10) == ["see", "/a/path/of/somebody", "there"]
    assert fit("a long-name", 5) == ["a", "long-", "name"]
    assert fit("日本語 日本語", 8) == ["日本語", "日本語"]
    assert fit(Whole("spark-queue status ./q"), 9) == ["spark-queue status ./q"]
