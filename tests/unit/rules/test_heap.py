from __future__ import annotations

import pytest

from spark_queue.rules.heap import Heap


def heap_of(**keys: int) -> Heap[str]:
    """Return a heap with some values."""
    heap: Heap[str] = Heap()
    for value, key in keys.items():
        heap.put(value, (key,))
    return heap


def test_take_returns_values_by_key_when_they_came_in_any_order() -> None:
    """The lowest key comes first, then there is none."""
    heap = heap_of(b=2, a=1, c=3)
    assert [heap.take() for _ in range(3)] == ["a", "b", "c"]
    assert heap.first() is None
    with pytest.raises(IndexError):
        heap.take()


def test_first_removes_nothing() -> None:
    """Looking at the first value leaves it where it is."""
    heap = heap_of(a=1)
    assert heap.first() == heap.first() == ((1,), "a")
    assert len(heap) == 1


def test_discard_keeps_the_rest_when_a_value_leaves_from_the_middle() -> None:
    """A removed value never comes up; removing it again says no."""
    heap = heap_of(a=1, b=2, c=3)
    assert heap.discard("b")
    assert not heap.discard("b")
    assert heap.take_until(9) == ["a", "c"]


def test_put_changes_the_key_when_the_value_is_there() -> None:
    """A value counts once, at its latest key."""
    heap = heap_of(a=1, b=2)
    heap.put("a", (3,))
    heap.put("a", (3,))
    assert len(heap) == 2
    assert heap.take_until(9) == ["b", "a"]


def test_take_until_takes_the_bound_itself() -> None:
    """Keys up to and including the bound are taken."""
    heap = heap_of(a=1, b=2, c=3)
    assert heap.take_until(2) == ["a", "b"]
    assert list(heap) == ["c"]


def test_entries_stay_few_when_values_come_and_go() -> None:
    """The memory of a heap is that of its values, however many have left it."""
    heap: Heap[int] = Heap()
    heap.put(-1, (-1,))
    for value in range(10_000):
        heap.put(value, (value,))
        heap.discard(value)
    assert len(heap._entries) < 50
