"""Claims of large items: as many as take so much memory, and one at least."""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq
import pytest

from spark_queue.errors import InvalidArgumentError
from spark_queue.local_queue import LocalQueue
from spark_queue.queue_views import store_of
from tests.unit.local.conftest import Make

MIB = 2**20


@pytest.fixture
def queue(make: Make) -> LocalQueue:
    """Return a queue of forty items of a mebibyte, which take next to nothing on the disk."""
    made = make("n long, text string")
    made.enqueue([{"n": number, "text": f"{number:02}" * (MIB // 2)} for number in range(40)])
    return made


def test_a_claim_takes_as_many_as_it_may(queue: LocalQueue) -> None:
    """The next one takes the others, in their order."""
    claims = [queue.claim(40, max_bytes=10 * MIB) for _ in range(3)]
    assert [8 <= claim.count <= 10 for claim in claims] == [True] * 3
    found = [row["n"] for claim in claims for row in claim.rows]
    assert found == list(range(len(found)))


def test_a_claim_takes_one_item_however_large(queue: LocalQueue) -> None:
    """An item that is larger than what a claim may take is not left for ever."""
    assert queue.claim(40, max_bytes=1).count == 1
    with pytest.raises(InvalidArgumentError, match="max_bytes is 0"):
        queue.claim(1, max_bytes=0)


def test_small_items_are_not_fewer_for_a_large_one(make: Make) -> None:
    """What is large elsewhere in the queue does not count."""
    queue = make("n long, text string")
    queue.enqueue([{"n": 0, "text": "x" * 10 * MIB}])
    queue.enqueue([{"n": number, "text": ""} for number in range(1, 100)])
    assert [queue.claim(50, max_bytes=5 * MIB).count for _ in range(3)] == [1, 50, 49]


def test_process_works_large_items_off_in_shorter_claims(queue: LocalQueue) -> None:
    """A claim that is shorter for its bytes is not the last."""
    seen: list[Any] = []
    done = queue.process(lambda item: seen.append(item["n"]), max_bytes=10 * MIB)
    assert (done.acked, done.stopped, seen) == (40, "empty", list(range(40)))
    assert done.claims >= 4


def test_a_claim_by_sql_takes_as_many_as_it_may(
    queue: LocalQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the open items are not in memory, too."""
    monkeypatch.setattr("spark_queue.state.replica_choice.is_large", lambda *_: True)
    assert 8 <= queue.claim(40, max_bytes=10 * MIB).count <= 10


def test_large_rows_lie_in_small_parts_of_their_file(queue: LocalQueue) -> None:
    """A claim of some need not read all of them."""
    log = store_of(queue).native("queue")
    assert log is not None
    (file,) = (file for file in log.files() if file.rows == 40)
    path = store_of(queue).queue.find_directory() / file.name  # type: ignore[operator]
    assert pq.ParquetFile(path).metadata.num_row_groups == 2
