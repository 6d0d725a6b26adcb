"""How idempotency keys are written as text: equal keys alike, all others apart."""

from __future__ import annotations

from collections.abc import Hashable

import pytest

from spark_queue.errors import InvalidArgumentError
from spark_queue.stores.keys import _text_of


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, 1.0), (True, 1), (0.0, -0.0), ((1, ("a",)), (1.0, ("a",))), (2**70, float(2**70))],
)
def test_keys_that_are_equal_have_one_text(one: Hashable, other: Hashable) -> None:
    """What Python calls equal is one key."""
    assert one == other
    assert _text_of(one) == _text_of(other)


def test_keys_that_differ_have_texts_that_differ() -> None:
    """Neither a type nor the borders of the parts are lost."""
    keys: list[Hashable] = [None, "None", "", "1", 1, 1.5, ("a", "b"), ("ab",), "ab", ("a,b",), ()]
    keys += [("a", ("b",)), (("a",), "b"), ("1",), (1,), "null", (None,)]

    assert len({_text_of(key) for key in keys}) == len(keys)


@pytest.mark.parametrize("key", [float("nan"), float("inf"), b"bytes", frozenset({1}), 1j])
def test_keys_of_other_kinds_are_refused(key: Hashable) -> None:
    """What a table cannot hold, or would equal nothing, is no key."""
    with pytest.raises(InvalidArgumentError, match="key is"):
        _text_of(key)
