"""The head row of a step: how it follows the one before, and how it is written and read."""

from __future__ import annotations

import dataclasses
import json

import pytest

from spark_queue.log.heads import (
    Checkpoint,
    Hold,
    Mark,
    QueueHead,
    Registered,
    StatusHead,
    following,
    queue_head,
    status_head,
    to_json,
)

TOKEN = "0f"  # noqa: S105 - it tells attempts apart, and opens nothing


@pytest.mark.parametrize(
    ("handed_out", "stands_at"),
    [
        ((4.0, 1), (4.0, 1)),
        ((3.0, 8), (3.0, 8)),
        ((3.0, 7), (3.0, 7)),
        ((3.0, 6), (3.0, 7)),
        ((2.0, 99), (3.0, 7)),
    ],
)
def test_a_pointer_never_goes_back(
    handed_out: tuple[float, int], stands_at: tuple[float, int]
) -> None:
    """The order of service stands at the highest turn, and seq, ever handed out."""
    head = StatusHead(pointers={0: (3.0, 7), 5: (1.0, 1)})

    assert head.advanced({0: handed_out}) == {0: stands_at, 5: (1.0, 1)}
    assert head.pointers == {0: (3.0, 7), 5: (1.0, 1)}


def test_a_priority_without_a_pointer_gets_one() -> None:
    """A priority that nothing was served at so far stands where its first items were served."""
    assert StatusHead().advanced({2: (1.0, 4)}) == {2: (1.0, 4)}


def test_ends_are_counted_for_ever() -> None:
    """The items of a terminal state are those of all steps together."""
    head = StatusHead(finished={"acked": 3, "dead": 1})

    assert head.finishing({"acked": 2, "expired": 1}) == {"acked": 5, "dead": 1, "expired": 1}
    assert head.finished == {"acked": 3, "dead": 1}


def test_a_head_follows_with_a_token_of_its_own() -> None:
    """Two attempts at the same step are told apart, whoever makes them."""
    head = StatusHead(step=4, token=TOKEN, claimed=2)
    one, other = following(head, claimed=3), following(head, claimed=3)

    assert (one.step, one.claimed) == (5, 3)
    assert len({head.token, one.token, other.token}) == 3
    assert dataclasses.replace(one, token="") == dataclasses.replace(other, token="")


def test_the_head_of_the_items_is_read_as_it_was_written() -> None:
    """Priorities are numbers again, pointers pairs, and nothing is left out."""
    head = QueueHead(
        step=3,
        token=TOKEN,
        last_seq=9,
        items=8,
        refused=1,
        gen=2,
        gen_since="2026-01-31T00:00:00+00:00",
        tops={-1: 4.5, 0: 9.0},
        streams={"query": Mark(7), "named": Mark(8, 9, 10, 11, 12, 13)},
        readers={
            0: Registered(),
            4: Registered(name="audit", config={"max_items": 5}, pointers={1: (2.5, 6)}, lost=2),
        },
        last_reader=4,
        hold=Hold(by="host", until="2026-01-31T00:00:00+00:00"),
    )

    assert queue_head(to_json(head)) == head


def test_the_head_of_the_states_is_read_as_it_was_written() -> None:
    """So are the pointers of the checkpoint, and who holds the queue."""
    head = StatusHead(
        step=12,
        token=TOKEN,
        config_step=3,
        pointers={0: (7.0, 41), 9: (0.5, 2)},
        claimed=4,
        finished={"acked": 30},
        checkpoint=Checkpoint(step=10, queue_step=6, pointers={9: (0.25, 1)}),
        log_rows=17,
        width=96.0,
        hold=Hold(by="host"),
    )

    assert status_head(to_json(head)) == head


def test_a_head_is_written_whole() -> None:
    """Its text has every field, those of what is in it included, as plain data."""
    head = QueueHead(
        step=3,
        tops={0: 1.5},
        readers={2: Registered(name="b", config={"max_items": 5}, pointers={1: (2.0, 7)})},
        hold=Hold(by="me", until="then"),
        chain_step=2,
    )

    assert to_json(head) == json.dumps(dataclasses.asdict(head), separators=(",", ":"))


@pytest.mark.parametrize("head", [QueueHead(step=3), StatusHead(step=3)])
def test_a_head_says_what_came_later_only_where_it_is_used(head: QueueHead | StatusHead) -> None:
    """To an older release, which reads queues of its format, the names would be unknown."""
    known = json.loads(to_json(head))

    assert {"chain_step", "looked"}.isdisjoint(known)
    assert known["step"] == 3
