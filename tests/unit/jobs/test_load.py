from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from spark_queue.memory.blocking import BlockingQueue
from spark_queue.memory.broker import QueueBroker

Import = Callable[[str], Any]

TESTS = {
    "flood": ["--seconds", "0.05"],
    "put": ["--puts", "500", "--cycles", "2", "--limit", "300"],
    "timeout": ["--items", "20", "--interval", "0.002", "--readers", "20"],
    "many-clients": ["--items", "10", "--interval", "0.002", "--kill-rate", "0.5"],
    "leaky-reader": ["--items", "200", "--leak", "0.1"],
    "writers-reader": ["--items", "100", "--attempts", "200", "--rounds", "2"],
    "batches": ["--elements", "300"],
    "million": ["--requests", "5000"],
    "hot-group": ["--tasks", "300", "--groups", "20"],
    "slots": ["--tasks", "1200", "--width", "3"],
}


def invoke(script: Import, *arguments: str) -> Any:
    """Run the command line in this process."""
    return CliRunner().invoke(script("load").app, list(arguments))


def test_the_runner_lists_its_tests(script: Import) -> None:
    """Without an argument it lists every test, and each of them answers for its options."""
    listing = invoke(script)
    assert listing.exit_code == 0
    for name in TESTS:
        assert f"  {name} " in listing.output
        answer = invoke(script, name, "--help")
        assert answer.exit_code == 0
        assert "default" in answer.output


@pytest.mark.parametrize("name", TESTS)
def test_a_load_test_passes(script: Import, name: str) -> None:
    """Under a small load of each kind nothing is lost, repeated or out of order."""
    result = invoke(script, name, *TESTS[name])
    assert result.exit_code == 0, result.output
    assert f'"name": "{name.replace("-", "_")}.' in result.output


def test_a_lost_item_is_found(script: Import, monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue that loses one item of many makes the test fail, and say so."""
    put = BlockingQueue.put

    def put_or_lose(line: BlockingQueue[Any], item: Any) -> bool:
        return item == 7 or put(line, item)

    monkeypatch.setattr(BlockingQueue, "put", put_or_lose)
    result = invoke(script, "timeout", *TESTS["timeout"])
    assert result.exit_code == 1
    assert "1 were lost" in result.output


def test_a_leaked_slot_is_found(script: Import, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that keeps a slot after its last task makes the test fail."""
    monkeypatch.setattr(QueueBroker, "active_count", 1)
    result = invoke(script, "slots", *TESTS["slots"])
    assert result.exit_code == 1
    assert "1 active" in result.output or "(1, 0, 0) active" in result.output


def test_a_thread_that_hangs_is_found(script: Import) -> None:
    """Threads that do not end in time are counted, and an error of one is that of the test."""
    crowd = script("crowd")
    stay = script("threading").Event()
    with pytest.raises(crowd.LoadError, match="2 of 3 threads"):
        crowd.together([stay.wait, stay.wait, int], patience=0.01)
    stay.set()
    with pytest.raises(ZeroDivisionError):
        crowd.together([lambda: 1 / 0], patience=10)


@pytest.mark.parametrize(
    ("got", "problem"),
    [([1, 2, 2, 3], "came twice"), ([1, 3], "were lost"), ([1, 2, 3, 4], "came from nowhere")],
)
def test_what_came_is_held_against_what_was_sent(
    script: Import, got: list[int], problem: str
) -> None:
    """A repeated, a lost and an invented item are told apart; order is checked on its own."""
    crowd = script("crowd")
    crowd.require_once("items", [3, 1, 2], [1, 2, 3])
    with pytest.raises(crowd.LoadError, match=f"items: 1 {problem}"):
        crowd.require_once("items", got, [1, 2, 3])
    crowd.require_order("items", [1, 2, 5])
    with pytest.raises(crowd.LoadError, match=r"\(5, 3\) out of order"):
        crowd.require_order("items", [1, 5, 3])
