"""Texts of callers that are not UTF-8: a log keeps what of them can be kept."""

from __future__ import annotations

from typing import Any

import pytest

from spark_queue import DurableQueue, InvalidArgumentError, LocalQueue
from spark_queue.testing import memory_queue

STRAY = "no such file: a\udcff"
KEPT = "no such file: a?"


class Mute(Exception):  # noqa: N818 - it is what users write
    """An exception that cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.fixture(params=["memory", "disk"])
def queue(request: pytest.FixtureRequest, queue_path: str) -> LocalQueue:
    """Return a queue of three items that is read back from where its steps are kept."""
    made = memory_queue("id int") if request.param == "memory" else None
    found = made or LocalQueue.create(queue_path, "id int", durability="process")
    found.enqueue([{"id": number} for number in range(3)])
    return found


def _errors(queue: LocalQueue) -> list[str | None]:
    errors: list[str | None] = queue.status()["_error"].to_pylist()
    return errors


@pytest.mark.parametrize(
    ("raised", "kept"),
    [(OSError(STRAY), f"OSError: {KEPT}"), (Mute(), "Mute")],
)
def test_a_block_that_raises_nacks_whatever_the_error_says(
    queue: LocalQueue, raised: Exception, kept: str
) -> None:
    """An error without a text that can be kept is charged like any other, and is what is raised."""
    with pytest.raises(type(raised)) as seen, queue.claim(3):
        raise raised
    assert seen.value is raised
    assert _errors(queue) == [kept] * 3
    assert queue.status()["_attempts"].to_pylist() == [1, 1, 1]


def test_what_is_said_of_items_is_kept_as_far_as_it_can_be(queue: LocalQueue) -> None:
    """``nack``, ``dead`` and ``settle_each`` replace the signs that are not UTF-8."""
    queue.claim(1).nack(STRAY)
    queue.claim(1).dead(STRAY)
    queue.claim(1).settle_each({3: ("dead", STRAY)})
    assert _errors(queue) == [KEPT] * 3


def test_who_claims_may_have_any_name(queue: LocalQueue) -> None:
    """A worker's name is shown as far as it can be; two ids of claims stay two."""
    first = queue.claim(1, worker_id="host\udcff", claim_id="a\udcff")
    other = queue.claim(1, claim_id="a\udcfe")
    again = queue.claim(1, claim_id="a\udcff")
    assert again.lease == first.lease != other.lease
    assert "host?" in queue.status()["_worker_id"].to_pylist()
    assert first.ack().acked == 1


def test_a_front_says_it_as_well(queue: LocalQueue) -> None:
    """A delivery whose error is not UTF-8 is nacked, and so is a block that raises one."""
    with DurableQueue(queue) as front:
        front.dead(front.get(5), STRAY).result(5)
        with pytest.raises(Mute), front.receive(5):
            raise Mute
        front.sync()
    assert sorted(map(str, _errors(queue))) == ["Mute", "None", KEPT]


@pytest.mark.parametrize(
    "outcomes",
    [
        5,
        None,
        [1],
        "ack",
        {1: 5},
        {1: None},
        {1: "done"},
        {1: ("dead", 5)},
        {1: ("dead", "a", "b")},
        {1: ("dead",)},
        {1: ["dead", "a"]},
        {"1": "ack"},
        {1.0: "ack"},
        {True: "ack"},
        {2**63: "ack"},
        {1: "ack", 2: b"ack"},
    ],
)
def test_what_is_no_outcome_is_refused_before_anything_is_settled(
    queue: LocalQueue, outcomes: Any
) -> None:
    """An outcome, an error or a seq that is none is named, and no item is settled."""
    claim = queue.claim(3)
    with pytest.raises(InvalidArgumentError, match=r"outcome|error of seq"):
        claim.settle_each(outcomes)
    assert claim.ack().acked == 3
