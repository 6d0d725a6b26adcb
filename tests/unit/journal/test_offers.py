"""What a put takes: an item of the queue's own, and what goes with it, in order."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from spark_queue.errors import InvalidArgumentError
from spark_queue.journal import JournaledQueue, MemoryJournal


def test_a_dict_that_is_used_again_is_several_items() -> None:
    """What is changed after it was put, or after it was got, changes no item of the queue."""
    with JournaledQueue(MemoryJournal[dict[str, Any]]()) as queue:
        billing, mail = queue.reader("billing"), queue.reader("mail")
        item: dict[str, Any] = {"n": 0, "tags": []}
        for number in range(3):
            item["n"] = number
            item["tags"].append(number)
            queue.put(item)
        first = billing.get(timeout=0)
        first.item.pop("n")
        billing.nack(first)

        for reader in (billing, mail):
            got = [reader.get(timeout=0).item for _ in range(3)]
            assert [(one["n"], one["tags"]) for one in got] == [
                (0, [0]),
                (1, [0, 1]),
                (2, [0, 1, 2]),
            ]


def test_a_read_shows_one_item() -> None:
    """The item of a read is the same one each time it is looked at."""
    with JournaledQueue(MemoryJournal[list[int]]()) as queue:
        queue.put([1])
        read = queue.reader().get(timeout=0)

        read.item.append(2)

        assert read.item == [1, 2]


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"expires_at": datetime(2026, 1, 31)}, "expires_at"),  # noqa: DTZ001 - that is the fault
        ({"expires_at": datetime.max.replace(tzinfo=timezone.utc)}, "expires_at"),
        ({"expires_at": "2026-01-31"}, "expires_at"),
        ({"errors": -1}, "errors"),
        ({"errors": 2**31}, "errors"),
        ({"errors": "x"}, "errors"),
        ({"origin": 5}, "origin"),
    ],
)
def test_what_goes_with_an_item_is_checked_before_it_is_in_line(
    given: dict[str, Any], what: str
) -> None:
    """A time without a zone, or a count that is none, is refused, and nobody else notices."""
    with JournaledQueue(MemoryJournal[str]()) as queue:
        with pytest.raises(InvalidArgumentError, match=f"{what} is"):
            queue.put("bad", **given)
        assert queue.put("good").result(5) == 1
        assert queue.reader().get(timeout=0).item == "good"
