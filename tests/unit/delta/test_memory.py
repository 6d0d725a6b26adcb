"""What a process remembers of the steps that were made, without reading them again."""

from __future__ import annotations

from spark_queue.log.heads import StatusHead
from spark_queue.state.catch_up import Cache

HEAD = StatusHead(step=7)


def test_each_reader_has_a_position_of_its_own() -> None:
    """What was seen of one reader's log is not what was seen of another's."""
    cache = Cache()
    cache.position(1).status.head = HEAD

    assert cache.position(1).status.head is HEAD
    assert cache.position(2).status.head is None
