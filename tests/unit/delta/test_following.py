"""What this process knows of a queue follows what others have committed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import spark_queue
from spark_queue import LocalQueue, QueueConfig
from spark_queue.commands import claims
from spark_queue.log.delta.commits import Commit, LogFile
from spark_queue.log.heads import QueueHead
from spark_queue.log.schema import HEAD
from spark_queue.queue_views import store_of
from spark_queue.state import catch_up
from spark_queue.state.catch_up import Cache, Seen
from spark_queue.state.snapshot import Snapshot, look_as_far
from spark_queue.state.store import Store


@contextmanager
def another_process() -> Iterator[None]:
    """Know nothing of any queue, and forget again what was learnt."""
    mine = dict(catch_up._caches)
    catch_up._caches.clear()
    yield
    catch_up._caches.clear()
    catch_up._caches.update(mine)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a queue of which this process knows the state."""
    queue = LocalQueue.create(tmp_path / "queue", "k string", durability="process")
    queue.enqueue({"k": "first"})
    queue.claim().ack()
    return tmp_path / "queue"


def enter_and(path: Path, *, ack: bool) -> None:
    """Enqueue and claim an item, as another process."""
    with another_process():
        queue = spark_queue.open(path, durability="process")
        queue.enqueue({"k": "second"})
        claim = queue.claim(worker_id="another")
        if ack:
            claim.ack()


@pytest.mark.parametrize("ack", [False, True])
def test_what_others_have_entered_and_taken_is_not_ready(path: Path, *, ack: bool) -> None:
    """An item that came and was taken since this process last looked is not taken once more."""
    enter_and(path, ack=ack)
    assert spark_queue.open(path).claim().count == 0


# rule: reach of a claim
def test_a_claim_looks_no_less_far_than_the_one_before(tmp_path: Path) -> None:
    """Law 3: where its view of the items is older than that claim's, it looks again (K5)."""
    config = QueueConfig(dedup_key="k", on_duplicate="replace")
    queue = LocalQueue.create(tmp_path / "queue", "k string", config, durability="process")
    queue.enqueue({"k": "a"})
    at = Snapshot(queue._store)
    assert at.queue.step == 1
    with another_process():
        other = spark_queue.open(tmp_path / "queue", durability="process")
        other.enqueue({"k": "a"})
        other.claim(worker_id="another")
    assert (at.queue.step, at.status.looked) == (1, 2)
    look_as_far(at)
    assert at.queue.step == 2


def _far_store(cache: Cache, commit: Commit) -> Any:
    """Return a queue on a shared store, whose item log got one commit since it was looked at."""
    log = SimpleNamespace(
        newest=lambda _: 5,
        follow=lambda *_: [commit],
        is_followed=lambda: True,
        head=lambda since: QueueHead(step=since),
    )
    place = SimpleNamespace(is_local=lambda: False, directory_of=lambda _: None)
    return SimpleNamespace(
        cache=lambda: cache,
        name="far",
        handle=SimpleNamespace(place=place),
        native=lambda _: None,
        is_local=lambda: False,
        queue=log,
    )


@pytest.mark.parametrize(
    ("change", "columns"),
    [({}, "known"), ({"redefines": True}, None), ({"takes_away": True}, None)],
)
def test_columns_that_another_process_added_are_seen(
    change: dict[str, bool], columns: str | None
) -> None:
    """On a shared store they are asked for again once the table was changed by more than steps."""
    same: dict[str, Any] = {"redefines": False, "takes_away": False}
    commit = Commit(
        step=None, token=None, files=(), merged=(), gone=frozenset(), **{**same, **change}
    )
    cache = Cache(queue=Seen(QueueHead(step=1), version=4), columns="known")

    assert catch_up.items(_far_store(cache, commit), cache).step == 1

    assert cache.columns == columns


def test_steps_that_a_query_sees_before_their_commits_are_left_for_later() -> None:
    """Another process makes one while the rows of those before it are asked for."""

    def head(step: int) -> dict[str, Any]:
        return {"_kind": HEAD, "_step": step, "_body": str(step)}

    file = LogFile(path="x", gen=0, size=1, rows=1, ranges={})
    cache = Cache(queue=Seen(QueueHead(step=1), version=4))
    store = _far_store(cache, Commit(step=2, files=[file]))
    store.rows_since = lambda *_: pa.Table.from_pylist([head(2), head(3)])
    store.queue.parse = lambda body: QueueHead(step=int(body), items=9)

    assert catch_up.items(store, cache) == QueueHead(step=2, items=9)


def test_a_claim_follows_others_before_it_keeps_them_from_writing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it read for half a second after its look, and others wrote meanwhile."""
    queue = LocalQueue.open(path, durability="process")
    queue.enqueue([{"k": "x"}, {"k": "y"}])
    store = store_of(queue)
    at = Snapshot(store)
    assert at.status.step
    enter_and(path, ack=True)
    at._began -= 0.5
    followed: list[tuple[int, bool]] = []
    holding = [False]
    write, apply = Store.writing, catch_up.apply_status

    @contextmanager
    def writing(self: Store, which: Any) -> Iterator[None]:
        with write(self, which):
            holding[0] = True
            yield
            holding[0] = False

    def note(at: Any, head: Any, rows: Any) -> None:
        followed.append((head.step, holding[0]))
        apply(at, head, rows)

    monkeypatch.setattr(Store, "writing", writing)
    monkeypatch.setattr(catch_up, "apply_status", note)
    granted = claims.claim(at, claims.request(at, 1, None, None, 1, None))
    assert granted.step == at.status.step + 3
    assert [step for step, is_held in followed if not is_held] == [
        at.status.step + 1,
        at.status.step + 2,
    ]
    assert [step for step, is_held in followed if is_held] == [granted.step]
