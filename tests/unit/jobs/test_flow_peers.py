from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

Import = Callable[[str], Any]


def test_items_of_a_key_are_counted_at_a_time(script: Import) -> None:
    """Two that overlap are two; one that starts when another ends is not beside it."""
    peers = script("flow_peers")
    runs = [peers.Run("a", 0.0, 2.0), peers.Run("a", 1.0, 3.0), peers.Run("a", 3.0, 4.0)]
    assert peers.most_in_flight([*runs, peers.Run("b", 0.0, 4.0)], "a") == 2
    assert peers.mean_in_flight(runs) == 5.0 / 4.0


def test_starts_are_counted_in_any_window(script: Import) -> None:
    """A burst on each side of a clock's edge is one of twice the size; the window's end is out."""
    peers = script("flow_peers")
    runs = [peers.Run("a", at, at) for at in (0.8, 0.9, 1.0, 1.1, 1.8)]
    assert peers.most_starts(runs, 1.0) == 4


def test_a_burst_at_the_beginning_is_no_rate(script: Import) -> None:
    """Ten at once and then one a second come to less than 1.3 a second, where a mean says 1.45."""
    peers = script("flow_peers")
    burst = [peers.Run("a", 0.0, 0.0) for _ in range(10)]
    paced = [peers.Run("a", float(at), float(at)) for at in range(1, 21)]
    assert 1.0 < peers.starts_per_second([*burst, *paced]) < 1.3
    assert peers.starts_per_second(paced) == pytest.approx(1.0)


def test_a_callable_gets_a_row_for_the_limit_and_one_for_the_rate(script: Import) -> None:
    """It is asked for both trials; what it let run beyond the limit of a key is in its row."""
    peers = script("flow_peers")
    asked: list[Any] = []

    def work(trial: Any) -> list[Any]:
        asked.append(trial)
        return [peers.Run(key, 0.1 * n, 0.1 * n + 0.35) for n in range(40) for key in trial.keys]

    limit = peers.play("mine", "a limit by key", peers.LIMIT, work)
    rate = peers.play("mine", "a rate", peers.RATE, work)
    assert asked == [peers.LIMIT, peers.RATE]
    assert limit.cells()[:6] == ("mine", "a limit by key", "2", "4", "3.3", "+2")
    assert rate.cells() == ("mine", "a rate", *"----", "10", "10", "10.0", "1.00")


def test_a_queue_that_handles_nothing_has_no_row(script: Import) -> None:
    """A table would show it as one that keeps its limit."""
    peers = script("flow_peers")
    with pytest.raises(AssertionError, match="mine: no item was handled"):
        peers.play("mine", "a limit", peers.LIMIT, lambda _: [])


def test_a_queue_without_its_server_is_left_out(
    script: Import, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
) -> None:
    """It is named with what the machine has not got; a name that is no queue is refused."""
    peers = script("flow_peers")
    monkeypatch.setattr(peers.shutil, "which", lambda _: None)
    monkeypatch.setattr(peers.postgres, "programs", lambda: None)
    names = ["pg-boss", "River", "BullMQ", "PgQueuer"]
    assert list(peers.peers(tmp_path, peers.LIMIT, peers.RATE, names)) == []
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" is left out, without ")[0] for line in lines] == names
    assert lines[2].endswith("npm, Redis (Debian: apt-get install redis-server)")
    with pytest.raises(typer.BadParameter, match="Celery: not one of spark_queue, pg-boss"):
        list(peers.peers(tmp_path, peers.LIMIT, peers.RATE, ["Celery"]))
