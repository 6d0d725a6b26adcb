"""The conformance cases of the fair queue, FQ-01 to FQ-34 (FQ-01 is with the rounds)."""

from __future__ import annotations

import threading
from functools import partial
from queue import Empty
from types import MappingProxyType
from typing import Any

import pytest

from spark_queue.errors import InvalidArgumentError, QueueFullError
from spark_queue.memory.fair import FairQueue, FairSnapshot
from tests.unit.threads import threads, together

#: Each item is its key and a number, as in ``A1``.
NINE = ["A1", "B1", "A2", "A3", "B2", "C1", "C2", "C3", "C4"]
NINE_IN_ROUNDS = ["A1", "B1", "C1", "A2", "B2", "C2", "A3", "C3", "C4"]


def by_letter(limit: int | None = 128) -> FairQueue[str]:
    """Make a queue whose key is the first letter of an item."""
    return FairQueue(lambda item: item[0], limit)


def push(queue: FairQueue[Any], *items: Any) -> None:
    """Put items without waiting."""
    for item in items:
        queue.put_nowait(item)


def pops(queue: FairQueue[Any], count: int | None = None) -> list[Any]:
    """Take so many items, or all."""
    return [queue.get_nowait() for _ in range(queue.qsize() if count is None else count)]


def assert_nothing(queue: FairQueue[Any]) -> None:
    """Assert that there is no item, in any way of asking."""
    with pytest.raises(Empty):
        queue.get_nowait()
    assert (len(queue), queue.qsize(), queue.empty()) == (0, 0, True)


def test_counts_go_up_and_down() -> None:
    """FQ-02: every put and every take changes the count by one, down to an empty queue."""
    queue = by_letter()
    counts = [len(queue)]
    for item in ("a1", "a2", "b3", "b4"):
        queue.put(item)
        counts.append(len(queue))
    for _ in range(4):
        queue.get()
        counts.append(len(queue))
    assert counts == [0, 1, 2, 3, 4, 3, 2, 1, 0]
    assert_nothing(queue)


@pytest.mark.parametrize(
    "story",
    [
        pytest.param([(["A1"], ["A1"])], id="FQ-03: one item"),
        pytest.param([(["A1", "A2"], ["A1", "A2"])], id="FQ-04: one key, in the order of its puts"),
        pytest.param([(["A1", "B1"], ["A1", "B1"])], id="FQ-05: two keys"),
        pytest.param([(NINE, NINE_IN_ROUNDS)], id="FQ-06: rounds"),
        pytest.param(
            [(["A1", "A2", "A3", "B1"], ["A1", "B1", "A2", "A3"])],
            id="FQ-16: one item of B comes after one of A, though three of A were put before it",
        ),
        pytest.param(
            [(["A1", "B1"], ["A1"]), (["A2", "A3"], ["B1", "A2", "A3"])],
            id="FQ-17: what was put during a round waits for the next",
        ),
        pytest.param(
            [(["A1", "B1", "A2"], ["A1"]), (["C1"], ["B1", "A2", "C1"])],
            id="FQ-27: a key that comes during a round is served in the next, behind older heads",
        ),
        pytest.param(
            [(["B1", "A1", "A2", "B2"], ["B1", "A1", "A2", "B2"])],
            id="FQ-28: a round begins with the key whose item came first",
        ),
    ],
)
def test_items_are_served_in_rounds(story: list[tuple[list[str], list[str]]]) -> None:
    """What is put, and what is taken then; in a queue that was emptied before, too."""
    queue = by_letter()
    for _ in range(2):
        for items, expected in story:
            push(queue, *items)
            assert pops(queue, len(expected)) == expected
        assert_nothing(queue)


def test_a_full_queue_refuses() -> None:
    """FQ-07: the third item of a queue for two is an overflow, and two are still there."""
    queue = by_letter(2)
    push(queue, "A1", "A2")
    assert queue.full()
    with pytest.raises(QueueFullError, match="overflow"):
        queue.put_nowait("A3")
    assert pops(queue) == ["A1", "A2"]


def test_the_default_limit_is_128() -> None:
    """FQ-08: without a limit named, 128 items fit and no more."""
    queue: FairQueue[int] = FairQueue(lambda _: "one key")
    push(queue, *range(128))
    with pytest.raises(QueueFullError):
        queue.put_nowait(128)
    assert queue.limit == 128


def test_no_limit_is_none() -> None:
    """FQ-09: a queue without a limit takes the 129th item too, and is never full."""
    queue = by_letter(None)
    push(queue, *["A"] * 129)
    assert (len(queue), queue.full(), queue.limit) == (129, False, None)


def test_a_snapshot_of_nothing_is_empty() -> None:
    """FQ-10: an empty queue has no round and no keys."""
    assert by_letter().snapshot() == ((), {})


def test_a_snapshot_shows_the_round_and_the_keys() -> None:
    """FQ-11, FQ-12: items show under their key, then in the round, and empty keys do not show."""
    queue: FairQueue[tuple[str, int]] = FairQueue(lambda item: item[0])
    one, two, other = ("one", 1), ("one", 2), ("two", 2)
    seen = []
    for item in (one, two, other):
        queue.put(item)
        seen.append(queue.snapshot())
    assert seen == [
        ((), {"one": (one,)}),
        ((), {"one": (one, two)}),
        ((), {"one": (one, two), "two": (other,)}),
    ]
    assert queue.get() == one
    assert queue.snapshot() == ((other,), {"one": (two,)})


def test_a_snapshot_is_a_copy_that_cannot_be_changed() -> None:
    """FQ-33: a snapshot stays what it was when the queue goes on, and refuses to be changed."""
    queue = by_letter()
    push(queue, "A1", "A2")
    snapshot = queue.snapshot()
    assert isinstance(snapshot, FairSnapshot)
    assert isinstance(snapshot.queued, MappingProxyType)
    pops(queue)
    assert snapshot == ((), {"A": ("A1", "A2")})


def test_threads_one_after_another_see_one_order() -> None:
    """FQ-13: nine takes from a thread each, in turn, give the rounds of nine puts of another."""
    queue = by_letter()
    together(lambda: push(queue, *NINE))
    taken: list[str] = []
    for _ in NINE:
        together(lambda: taken.append(queue.get_nowait()))
    assert taken == NINE_IN_ROUNDS
    assert_nothing(queue)


def test_three_writers_and_a_reader() -> None:
    """FQ-14: with three writers of a key each, one reader gets every item, each key in order."""
    queue = by_letter(2800)
    with threads(*(partial(push, queue, *(f"{key}{n:03}" for n in range(900))) for key in "ABC")):
        taken = [queue.get(timeout=10) for _ in range(2700)]
    assert_nothing(queue)
    for key in "ABC":
        assert [item for item in taken if item[0] == key] == [f"{key}{n:03}" for n in range(900)]


def test_an_overflow_names_the_item_and_the_size() -> None:
    """FQ-15: the error of a full queue carries the refused item and how many are queued."""
    queue: FairQueue[dict[str, int]] = FairQueue(lambda item: item["id"], 1)
    queue.put_nowait({"id": 1})
    with pytest.raises(QueueFullError) as refused:
        queue.put_nowait({"id": 2})
    assert (refused.value.item, refused.value.size) == ({"id": 2}, 1)


def test_rounds_with_puts_between() -> None:
    """FQ-18: a round is a snapshot, so that a key that had its turn waits for the next one."""
    queue = by_letter()
    push(queue, "A1", "Bx", "A2")
    assert pops(queue, 1) == ["A1"]
    assert queue.snapshot() == (("Bx",), {"A": ("A2",)})
    push(queue, "A3", "A4")
    assert pops(queue, 1) == ["Bx"]
    push(queue, "By")
    assert pops(queue, 1) == ["A2"]
    assert queue.snapshot() == (("By",), {"A": ("A3", "A4")})
    assert pops(queue) == ["By", "A3", "A4"]
    assert_nothing(queue)


def test_a_take_from_an_empty_queue_changes_nothing() -> None:
    """FQ-19: finding nothing leaves the queue as it is, and later puts work."""
    queue = by_letter()
    assert_nothing(queue)
    assert queue.snapshot() == ((), {})
    queue.put("A1")
    assert pops(queue) == ["A1"]


def test_none_is_an_item() -> None:
    """FQ-20: ``None`` can be put, counts, and comes out, while *nothing* is an exception."""
    queue: FairQueue[None] = FairQueue(lambda item: item)
    queue.put(None)
    assert len(queue) == 1
    assert queue.get_nowait() is None
    assert_nothing(queue)


def test_items_whose_key_is_none_share_it() -> None:
    """FQ-21: no item, another field, and a null field give one key, in the order of the puts."""
    queue: FairQueue[dict[str, Any] | None] = FairQueue(lambda item: (item or {}).get("k"))
    items: list[dict[str, Any] | None] = [None, {"a": 1}, {"k": None}]
    push(queue, *items)
    assert queue.snapshot() == ((), {None: tuple(items)})
    assert pops(queue) == items


def test_a_put_returns_the_queue() -> None:
    """FQ-22: puts can be chained, waiting or not."""
    queue = by_letter()
    assert queue.put("A1") is queue
    assert len(queue.put("A2").put_nowait("A3")) == 3


def test_the_round_counts_against_the_limit() -> None:
    """FQ-23: an item that a round has selected still takes its slot."""
    queue = by_letter(2)
    push(queue, "K1", "L2")
    assert pops(queue, 1) == ["K1"]
    assert queue.snapshot().selected == ("L2",)
    push(queue, "M3")
    with pytest.raises(QueueFullError) as refused:
        queue.put_nowait("N4")
    assert refused.value.size == 2


@pytest.mark.parametrize("limit", [0, -1])
@pytest.mark.parametrize("put", ["put", "put_nowait"])
def test_a_limit_below_one_is_always_full(limit: int, put: str) -> None:
    """FQ-24: nothing fits, and a put that waits is refused at once, as it would wait for ever."""
    queue = by_letter(limit)
    assert queue.full()
    for _ in range(2):
        with pytest.raises(QueueFullError) as refused:
            getattr(queue, put)("A1")
        assert refused.value.size == 0
    assert_nothing(queue)


def test_a_key_function_that_raises_adds_nothing() -> None:
    """FQ-25: its error is the caller's, and the queue stays usable."""

    def key(item: str) -> str:
        return {"a": "A", "b": "B"}[item]

    queue = FairQueue(key, 3)
    queue.put("a")
    with pytest.raises(KeyError, match="bad"):
        queue.put("bad")
    assert (len(queue), queue.unfinished_tasks) == (1, 1)
    queue.put("b")
    assert pops(queue) == ["a", "b"]
    assert_nothing(queue)


def test_the_limit_is_looked_at_before_the_key() -> None:
    """FQ-26: of an item that does not fit the key is not asked for, in no kind of put."""
    asked: list[str] = []
    for limit in (0, 1):
        queue: FairQueue[str] = FairQueue(asked.append, limit)
        for _ in range(limit):
            queue.put("fits")
        for put in (queue.put_nowait, lambda item, queue=queue: queue.put(item, timeout=0)):
            with pytest.raises(QueueFullError):
                put("refused")
    assert asked == ["fits"]


def test_equal_keys_are_one_key() -> None:
    """FQ-29: keys compare as Python compares them, so that 1, 1.0 and True share a line."""
    queue: FairQueue[Any] = FairQueue(lambda item: item)
    push(queue, 1, 1.0, 2**70, True, float(2**70))
    assert queue.snapshot() == ((), {1: (1, 1.0, True), 2**70: (2**70, float(2**70))})
    assert [type(item) for item in pops(queue)] == [int, int, float, float, bool]


def test_a_list_is_one_item() -> None:
    """FQ-30: an item that is a list comes out as that list."""
    queue: FairQueue[list[int]] = FairQueue(len)
    items = [[1, 2], [], [3]]
    push(queue, *items)
    assert all(taken is item for taken, item in zip(pops(queue), items, strict=True))


def test_takers_find_every_item_that_is_there() -> None:
    """FQ-31, FQ-32: of 200 takes by four threads none is in vain, and each item comes once."""
    for _ in range(20):
        queue: FairQueue[int] = FairQueue(lambda item: item % 3, None)
        push(queue, *range(200))
        taken: list[int] = []
        start = threading.Barrier(4)

        def take(queue: FairQueue[int] = queue, taken: list[int] = taken) -> None:
            start.wait()  # noqa: B023 - of this round
            taken.extend(queue.get_nowait() for _ in range(50))

        together(*[take] * 4)
        assert sorted(taken) == list(range(200))
        assert_nothing(queue)


def test_counts_and_snapshots_are_of_one_instant() -> None:
    """FQ-33: while items go round, nobody ever sees one too few or one too many."""
    queue: FairQueue[int] = FairQueue(lambda item: item % 5, None)
    push(queue, *range(50))
    stop = threading.Event()

    def turn() -> None:
        while not stop.is_set():
            with queue._state._lock:
                queue.put(queue.get())

    with threads(turn):
        for _ in range(300):
            assert len(queue) == 50
            (first, rest) = queue.snapshot()
            items = [*first, *(item for line in rest.values() for item in line)]
            assert sorted(items) == list(range(50))
        stop.set()


def test_two_items_at_once_are_refused() -> None:
    """FQ-34: a second item is an error that names it, and nothing is put."""
    queue = by_letter()
    too_many: Any = queue.put
    too_many_now: Any = queue.put_nowait
    with pytest.raises(InvalidArgumentError, match=r"block is 'B1'.*one item"):
        too_many("A1", "B1")
    with pytest.raises(TypeError):
        too_many("A1", "B1", "C1", "D1")
    with pytest.raises(TypeError):
        too_many_now("A1", "B1")
    assert_nothing(queue)


def test_a_constant_key_is_a_plain_queue() -> None:
    """With one key items come out in the order of their puts, whatever is taken between."""
    queue: FairQueue[int] = FairQueue(lambda _: None, None)
    taken = []
    for item in range(300):
        queue.put(item)
        if item % 3 == 0:
            taken.append(queue.get())
    assert taken + pops(queue) == list(range(300))


def test_an_empty_queue_is_true() -> None:
    """An empty queue is not taken for a missing one, as a ``queue.Queue`` is not."""
    assert by_letter()


@pytest.mark.parametrize("block", [5, "yes", None])
def test_block_is_a_bool(block: Any) -> None:
    """A timeout in the place of ``block`` is refused with the way to give it; 0 and 1 are bools."""
    queue = by_letter()
    with pytest.raises(InvalidArgumentError, match="timeout=") as refused:
        queue.get(block)
    assert repr(block) in str(refused.value)
    with pytest.raises(InvalidArgumentError):
        queue.put("A1", block)
    zero, one = (getattr(number, "real") for number in (0, 1))  # noqa: B009 - an int, not a bool
    assert queue.put("A1", zero).get(one) == "A1"


@pytest.mark.parametrize("timeout", [-1, -0.001, "soon", float("nan")])
def test_a_bad_timeout_is_refused(timeout: Any) -> None:
    """A negative timeout is refused by name, also where nobody would wait, and nothing changes."""
    queue = by_letter()
    with pytest.raises(InvalidArgumentError, match="timeout"):
        queue.put("A1", timeout=timeout)
    assert_nothing(queue)
    queue.put("A1")
    with pytest.raises(InvalidArgumentError, match="timeout"):
        queue.get(timeout=timeout)
    assert queue.get(block=False, timeout=timeout) == "A1"


def test_a_key_that_cannot_be_hashed_is_refused() -> None:
    """An unhashable key names itself and leaves the queue whole, whether somebody waits or not."""
    queue: FairQueue[list[int]] = FairQueue(lambda item: item)  # type: ignore[arg-type, return-value]
    with pytest.raises(InvalidArgumentError, match=r"key\(item\) is \[1\]"):
        queue.put([1])
    assert_nothing(queue)
    assert queue.unfinished_tasks == 0


def test_the_text_form_counts() -> None:
    """The text form says what the queue holds and whether it is shut down."""
    queue = by_letter(3)
    queue.put("A1")
    assert repr(queue) == "<FairQueue open items=1 limit=3>"
    queue.shutdown()
    assert repr(queue) == "<FairQueue shut down items=1 limit=3>"


class Quarrelsome:
    """A key with the hash of all its like, which may refuse to be compared with them."""

    refuses = False

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        if Quarrelsome.refuses:
            raise ZeroDivisionError
        return self is other


def test_a_key_that_cannot_be_compared_loses_no_item(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a key raises is the caller's, and the item is still there, at its place."""
    queue: FairQueue[tuple[Any, int]] = FairQueue(lambda item: item[0])
    one, other = Quarrelsome(), Quarrelsome()
    push(queue, (one, 1), (other, 2), (one, 3))
    with monkeypatch.context() as patch:
        patch.setattr(Quarrelsome, "refuses", True)
        assert queue.get_nowait()[1] == 1
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                queue.get_nowait()
        assert queue.qsize() == 2
    assert [queue.get_nowait()[1] for _ in range(2)] == [2, 3]


def test_the_maxsize_is_the_limit_by_another_name() -> None:
    """It may be set as that of a ``queue.Queue``: below 1 is no limit, and no number is refused."""
    queue = by_letter(1)
    push(queue, "A1")
    queue.maxsize = 2
    assert (queue.limit, queue.put_nowait("A2").full()) == (2, True)
    queue.maxsize = 0
    assert (queue.limit, queue.maxsize, queue.full()) == (None, 0, False)
    for bad in (None, True, 1.5, "2"):
        with pytest.raises(InvalidArgumentError, match="maxsize"):
            queue.maxsize = bad  # type: ignore[assignment]
    assert queue.limit is None
