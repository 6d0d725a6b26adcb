"""Columns that a queue gets after it was made, as all who have it open see them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spark_queue import LocalQueue, journaled_queue
from spark_queue.errors import FencedError, SchemaMismatchError, SparkNeededError
from tests.conftest import CommandLine
from tests.unit.local.conftest import Make, Worker

Again = Callable[[], LocalQueue]


def test_other_handles_have_the_column_at_once(
    make: Make, again: Again, start: Callable[..., Worker]
) -> None:
    """Whoever had the queue open, here or in another process, enqueues and claims with it."""
    queue, other = make(dedup_key="id"), again()
    queue.enqueue([{"id": "a"}, {"id": "b"}])
    process = start()
    assert process.says("queue.claim(1).rows[0]['id']") == "a"

    assert queue.add_columns("region string, size bigint COMMENT 'in bytes'") == ["region", "size"]

    assert other.enqueue({"id": "c", "region": "eu", "size": 7}).inserted == 1
    added = "queue.enqueue({'id': 'd', 'region': 'us', 'size': None}).inserted"
    assert process.says(added) == "1"
    shown = "[(row['id'], row['region'], row['size']) for row in queue.claim(9).rows]"
    assert process.says(shown) == "[('b', None, None), ('c', 'eu', 7), ('d', 'us', None)]"


def test_what_is_enqueued_has_to_have_the_column(make: Make, again: Again) -> None:
    """A producer that does not know of it is refused by its name, and nothing is written."""
    queue, other = make(), again()
    queue.add_columns("region string")

    with pytest.raises(SchemaMismatchError, match="'region': is missing"):
        other.enqueue({"id": "a"})
    assert queue.counts()["ready"] == 0


@pytest.mark.parametrize(
    ("schema", "error", "named"),
    [
        ("id bigint", SchemaMismatchError, "'id': is string in the queue"),
        ("_seq bigint", SchemaMismatchError, "belong to the queue"),
        ("cost double", SchemaMismatchError, "is read from the frames"),
        ("a string, A string", SchemaMismatchError, "is there twice"),
        ("tags array<string>", SparkNeededError, "to add fine, tags.*type of 'tags'"),
    ],
)
def test_column_that_cannot_be_is_refused(
    make: Make, schema: str, error: type[Exception], named: str
) -> None:
    """It is named, and the columns are as they were, also those beside it."""
    queue = make()
    with pytest.raises(error, match=named):
        queue.add_columns(f"fine string, {schema}")
    queue.enqueue({"id": "a"})


def test_queue_that_a_front_holds_is_refused(make: Make, again: Again) -> None:
    """A journaled queue has its items in memory: it is closed first."""
    with journaled_queue(make()), pytest.raises(FencedError):
        again().add_columns("region string")
    assert again().add_columns("region string") == ["region"]


def test_command_adds_columns_once(make: Make, command_line: CommandLine) -> None:
    """The command says what is new, and succeeds where nothing is."""
    queue = make()
    for said in ("added region", "nothing to add"):
        ended = command_line("add-columns", queue.name, "--schema", "region string")
        assert ended.code == 0
        assert said in ended.out
