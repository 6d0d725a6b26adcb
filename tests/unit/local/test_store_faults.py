"""Every public verb of a queue on an object store whose store answers as it should not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

import spark_queue
from spark_queue import LocalQueue
from spark_queue.errors import QueueNotFoundError, SparkQueueError
from spark_queue.log.object import remote_storage
from tests.logs.s3_server import Answer, Asked, FaultyS3, faulty_s3

PLACE = "s3://bucket/team/q"

Verb = Callable[[LocalQueue, Any], object]


def _create(_: LocalQueue, storage: Any) -> object:
    return LocalQueue.create(f"{PLACE}2", "id string", storage=storage)


def _open(_: LocalQueue, storage: Any) -> object:
    return spark_queue.open(PLACE, storage=storage).counts()


def _process(queue: LocalQueue, _: Any) -> object:
    def handler(row: dict[str, Any]) -> dict[str, Any]:
        return {"said": row["id"]}

    return queue.process(handler, returns="said string", output="s3://bucket/team/out")


def _drop(_: LocalQueue, storage: Any) -> object:
    return LocalQueue.drop(PLACE, storage=storage)


#: Each leaves the queue in one state, whatever the store answered in between.
VERBS: dict[str, Verb] = {
    "create": _create,
    "open": _open,
    "exists": lambda _, storage: LocalQueue.exists(PLACE, storage=storage),
    "enqueue": lambda queue, _: queue.enqueue([{"id": "d"}]),
    "claim": lambda queue, _: queue.claim(1).count,
    "ack": lambda queue, _: queue.claim(1).ack(),
    "nack": lambda queue, _: queue.claim(1).nack("no"),
    "release": lambda queue, _: queue.claim(1).release(),
    "renew": lambda queue, _: queue.claim(1).renew(),
    "process": _process,
    "cancel": lambda queue, _: queue.cancel({"id": "b"}),
    "redrive": lambda queue, _: queue.redrive({"id": "b"}),
    "purge": lambda queue, _: queue.purge("true"),
    "maintain": lambda queue, _: queue.maintain(retention=timedelta(days=1)),
    "configure": lambda queue, _: queue.configure(max_attempts=2),
    "pause": lambda queue, _: queue.pause(),
    "add_columns": lambda queue, _: queue.add_columns("extra string"),
    "upgrade": lambda queue, _: queue.upgrade(),
    "reader": lambda queue, _: queue.reader("other").counts(),
    "status": lambda queue, _: queue.status(),
    "history": lambda queue, _: queue.history(1),
    "stats": lambda queue, _: queue.stats(),
    "explain": lambda queue, _: queue.explain(1),
    "report": lambda queue, _: queue.report(),
    "doctor": lambda queue, _: queue.doctor(),
    "drop": _drop,
}

#: Answers that say nothing of what was done; a cut connection is `None`.
UNCLEAR: list[Answer] = [408, 409, 412, 416, 429, 500, 503, None]


@pytest.fixture(autouse=True)
def _no_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a queue give up soon."""
    monkeypatch.setattr(remote_storage, "_PATIENCE", 0.02)
    monkeypatch.setattr(remote_storage, "_MAX_PAUSE", 0.005)


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[FaultyS3, dict[str, Any]]]:
    """Run the store of all tests here."""
    with faulty_s3() as found:
        yield found


def _begin(store: FaultyS3, storage: Any) -> LocalQueue:
    """Make a queue of three items, of which one is acked."""
    store.fault = None
    store.objects.clear()
    queue = LocalQueue.create(PLACE, "id string", storage=storage)
    queue.enqueue([{"id": name} for name in "abc"])
    queue.claim(1).ack()
    store.asked.clear()
    return queue


def _state(storage: Any) -> dict[str, Any]:
    """Return what a new handle sees."""
    found = {}
    for place in (PLACE, f"{PLACE}2"):
        try:
            queue = spark_queue.open(place, storage=storage)
        except QueueNotFoundError:
            continue
        found[place] = (queue.counts(), queue.config, str(queue.schema), queue.readers())
    return found


def _is_like(kind: Asked, asked: Asked) -> bool:
    return (asked[0], asked[2]) == (kind[0], kind[2])


def _kinds(asked: list[Asked]) -> list[Asked]:
    """Return the kinds of requests among some."""
    return [*{(verb, cond): (verb, "", cond) for verb, _, cond in asked}.values()]


@pytest.mark.parametrize("name", ["enqueue", "claim", "drop"])
def test_a_conflict_is_no_word_of_what_is_there(
    name: str, server: tuple[FaultyS3, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told so of a file of rows, of a look or of a removal, a verb asks once more."""
    _outlive(name, server, [409], monkeypatch)


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_outlives_any_unclear_answer(
    name: str,
    server: tuple[FaultyS3, dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The request is asked again; once the answer is clear it is done once."""
    _outlive(name, server, UNCLEAR, monkeypatch)


def _outlive(
    name: str,
    server: tuple[FaultyS3, dict[str, Any]],
    answers: list[Answer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, storage = server
    monkeypatch.setattr(remote_storage, "_PATIENCE", 60.0)
    VERBS[name](_begin(store, storage), storage)
    kinds, wanted = _kinds(store.asked), _state(storage)
    assert kinds
    for kind in kinds:
        for answer in answers:
            queue = _begin(store, storage)
            store.fail_once(partial(_is_like, kind), answer)
            VERBS[name](queue, storage)
            assert _state(storage) == wanted, (kind, answer)


@pytest.mark.parametrize("answer", [*UNCLEAR, 400, 401, 403, 404, 501], ids=str)
def test_a_store_that_never_answers_is_named(
    answer: Answer, server: tuple[FaultyS3, dict[str, Any]]
) -> None:
    """Whatever it says of a kind of request, a verb does its work or raises an error of ours."""
    store, storage = server
    for verb in VERBS.values():
        queue = _begin(store, storage)
        verb(queue, storage)
        for kind in _kinds(store.asked):
            queue = _begin(store, storage)
            store.fault = lambda asked, kind=kind: answer if _is_like(kind, asked) else False
            with suppress(SparkQueueError):
                verb(queue, storage)


def test_a_queue_is_dropped_beside_an_object_that_no_client_reads(
    server: tuple[FaultyS3, dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    """It is passed over and named, by upkeep, too; all that is the queue's is gone."""
    store, storage = server
    queue = _begin(store, storage)
    queue.reader("other")
    note = "team/q/queue//note"
    store.objects[note] = b"x"

    queue.maintain()
    assert _drop(queue, storage) is None

    assert [*store.objects] == [note]
    assert note in caplog.text
    assert LocalQueue.create(PLACE, "id string", storage=storage).counts()["ready"] == 0


@pytest.mark.parametrize("left", range(5))
def test_a_drop_that_was_cut_is_finished(
    left: int, server: tuple[FaultyS3, dict[str, Any]]
) -> None:
    """After any number of its requests there is a queue, or the next drop removes the rest."""
    store, storage = server
    queue = _begin(store, storage)
    queue.reader("other").claim(1).ack()
    count = [0]

    def cut(asked: Asked) -> Answer | bool:
        count[0] += asked[0] in ("DELETE", "POST")
        return 403 if count[0] > left else False

    store.fault = cut
    with pytest.raises(SparkQueueError):
        _drop(queue, storage)
    store.fault = None

    _drop(queue, storage)

    assert not store.objects
    with pytest.raises(QueueNotFoundError):
        _drop(queue, storage)
