from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from spark_queue.errors import InvalidArgumentError
from spark_queue.memory.fair.rounds import Rounds, snapshot_of


def filled(*items: str) -> Rounds[str]:
    """Make rounds of items whose first letter is their key."""
    rounds: Rounds[str] = Rounds()
    for item in items:
        rounds.add(item[0], item)
    return rounds


def hand_over(rounds: Rounds[Any], count: int = 1) -> None:
    """Count items that came and went without being queued."""
    rounds.added += count
    rounds.taken += count


def drain(rounds: Rounds[Any]) -> list[Any]:
    """Take everything."""
    return [rounds.take() for _ in range(len(rounds))]


def test_a_key_begins_with_its_first_item_and_grows() -> None:
    """FQ-01: the first item of a key makes its line, the next one joins it."""
    rounds = filled("Kx")
    assert snapshot_of(rounds.copy()).queued == {"K": ("Kx",)}
    rounds.add("K", "Ky")
    assert snapshot_of(rounds.copy()).queued == {"K": ("Kx", "Ky")}


def test_keys_that_are_served_leave_nothing_behind() -> None:
    """A key is forgotten with its last item, and rounds that were passed with theirs."""
    rounds: Rounds[int] = Rounds()
    for item in range(5000):
        rounds.add(item % 7, item)
    assert len(rounds._last) == 7
    assert len(drain(rounds)) == 5000
    assert len(rounds._last) == 0
    assert sum(map(len, rounds._ahead)) == 0
    for item in range(1000):
        rounds.add(item, item)
        rounds.take()
    assert len(rounds._last) == 0
    assert len(rounds._ahead) < 200


def test_deep_keys_of_different_depths_keep_their_rounds() -> None:
    """A key's next round is found however deep another key is and however many were passed."""
    rounds: Rounds[tuple[str, int]] = Rounds()
    for number in range(500):
        rounds.add("deep", ("deep", number))
    for number in range(300):
        assert rounds.take() == ("deep", number)
    for number in range(100):
        rounds.add("late", ("late", number))
    expected = itertools.chain.from_iterable(
        (("deep", 300 + number), ("late", number)) for number in range(100)
    )
    assert [rounds.take() for _ in range(200)] == list(expected)
    assert [number for _, number in drain(rounds)] == list(range(400, 500))


def test_a_key_that_cannot_be_hashed_adds_nothing() -> None:
    """An unhashable key is refused with the key and the way out, and the rounds stay whole."""
    rounds = filled("A1")
    with pytest.raises(InvalidArgumentError, match=r"key\(item\) is \['b'\].*hashable value"):
        rounds.add(["b"], "b")  # type: ignore[arg-type]
    assert drain(rounds) == ["A1"]


def test_items_that_come_back_keep_their_order() -> None:
    """Whatever comes back is served first, by its number, in whatever order it came back."""
    for order in itertools.permutations(range(4)):
        rounds = filled("A1", "B1", "A2", "B2")
        assert rounds.take() == "A1"
        hand_over(rounds, 4)
        for number in order:
            rounds.restore(number, "X", f"X{number}")
        assert drain(rounds) == ["X0", "X1", "X2", "X3", "B1", "A2", "B2"]


def test_items_come_back_between_takes() -> None:
    """Items may come back while others that came back are being served, over several rounds."""
    seed = random.Random(7)  # noqa: S311 - the same every time
    for _ in range(200):
        rounds: Rounds[int] = Rounds()
        expected: list[int] = []
        for step in range(60):
            if seed.random() < 0.4:
                hand_over(rounds)
                rounds.restore(step, "X", step)
                expected.append(step)
            elif expected:
                expected.sort()
                assert rounds.take() == expected.pop(0)
            else:
                rounds.add(step % 3, -step)
                assert rounds.take() == -step
        assert drain(rounds) == sorted(expected)


def test_an_item_may_come_back_after_rounds_have_passed() -> None:
    """What came back and was served does not count for what comes back in a later round."""
    rounds = filled()
    hand_over(rounds, 2)
    rounds.restore(1, "X", "X1")
    assert rounds.take() == "X1"
    for item in ("A1", "B1", "C1"):
        rounds.add(item[0], item)
    assert rounds.take() == "A1"
    rounds.restore(2, "X", "X2")
    assert drain(rounds) == ["X2", "B1", "C1"]


def test_an_interrupted_take_leaves_the_rounds_whole() -> None:
    """An interrupt while the key is asked takes nothing, and sets no trap for the next item."""

    class Key:
        interrupts = 0

        def __hash__(self) -> int:
            if self.interrupts:
                self.interrupts -= 1
                raise KeyboardInterrupt
            return 1

    rounds: Rounds[str] = Rounds()
    key = Key()
    rounds.add(key, "K1")
    key.interrupts = 1
    with pytest.raises(KeyboardInterrupt):
        rounds.take()
    assert len(rounds) == 1
    assert rounds.take() == "K1"
    for item in ("A1", "A2"):
        rounds.add("A", item)
        assert rounds.take() == item
    rounds.add(key, "K2")
    rounds.add("A", "A3")
    assert drain(rounds) == ["K2", "A3"]
    assert len(rounds._last) == 0


def test_clear_drops_everything_and_goes_on() -> None:
    """After a clear nothing is there, and new items are served in rounds again."""
    rounds = filled("A1", "A2", "B1", "A3")
    rounds.take()
    assert rounds.clear() == 3
    assert (len(rounds), len(rounds._last)) == (0, 0)
    for item in ("A4", "A5", "B2"):
        rounds.add(item[0], item)
    assert drain(rounds) == ["A4", "B2", "A5"]
