"""The configuration of a reader: checked when it is made, and plain data where it is stored."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from spark_queue.errors import InvalidConfigError
from spark_queue.reader_config import ReaderConfig


def test_it_comes_back_from_plain_data() -> None:
    """What differs from the defaults is written, with durations in seconds, and read again."""
    config = ReaderConfig(max_items=3, max_age=timedelta(minutes=2), full_policy="drop_oldest")

    plain = config.to_dict()

    assert plain == {"max_items": 3, "max_age": 120.0, "full_policy": "drop_oldest"}
    assert ReaderConfig.from_dict(plain) == config
    assert ReaderConfig().to_dict() == {}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_items": 0}, "max_items is 0"),
        ({"max_bytes": True}, "max_bytes is True"),
        ({"punt_many_at": 1.5}, "punt_many_at is 1.5"),
        ({"max_age": 3}, "max_age is 3"),
        ({"max_idle": timedelta(-1)}, "max_idle"),
        ({"expire_to": ""}, "expire_to is ''"),
        ({"full_policy": "refuses"}, "did you mean 'refuse'"),
    ],
)
def test_a_bad_value_is_named(options: dict[str, Any], said: str) -> None:
    """Each value out of its range is refused by name."""
    with pytest.raises(InvalidConfigError, match=said):
        ReaderConfig(**options)


def test_an_unknown_option_is_named() -> None:
    """A misspelt name is refused with the one that was probably meant."""
    with pytest.raises(InvalidConfigError, match="did you mean 'max_items'"):
        ReaderConfig.from_dict({"max_item": 3})
