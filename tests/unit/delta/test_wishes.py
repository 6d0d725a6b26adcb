"""Settings of a session of Spark that the library has for a while."""

from __future__ import annotations

from typing import Any, cast

import pytest

from spark_queue.log.session_options import size_files

_BLOCK, _MIN = "parquet.block.size", "spark.databricks.delta.optimize.minFileSize"


class _Conf:
    """Settings as a session has them; some may not be set."""

    def __init__(self, kept: tuple[str, ...] = ()) -> None:
        self.values: dict[str, str] = {_BLOCK: "1234"}
        self._kept = kept

    def get(self, name: str, default: str | None) -> str | None:
        return self.values.get(name, default)

    def set(self, name: str, value: object) -> None:
        if name in self._kept:
            raise RuntimeError("CONFIG_NOT_AVAILABLE")
        self.values[name] = str(value)

    def unset(self, name: str) -> None:
        del self.values[name]


class _Session:
    def __init__(self, *kept: str) -> None:
        self.conf = _Conf(kept)


def _sized(session: _Session, *, is_large: bool = True) -> Any:
    return size_files(cast("Any", session), is_large=is_large)


def test_sizes_are_those_of_the_user_again_after_blocks_that_overlap() -> None:
    """The first to end leaves them to the other; the last restores what was there before both."""
    session = _Session()
    first, second = _sized(session), _sized(session)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert session.conf.values[_BLOCK] != "1234"
    assert _MIN in session.conf.values
    second.__exit__(None, None, None)
    assert session.conf.values == {_BLOCK: "1234"}


def test_sizes_are_restored_after_an_error() -> None:
    """What Spark raises comes through, and nothing stays set."""
    session = _Session()
    with pytest.raises(ValueError, match="boom"), _sized(session):
        raise ValueError("boom")
    assert session.conf.values == {_BLOCK: "1234"}


def test_a_setting_that_a_service_keeps_to_itself_stops_no_write() -> None:
    """The others are set, and restored."""
    session = _Session(_BLOCK)
    with _sized(session):
        assert session.conf.values[_BLOCK] == "1234"
        assert _MIN in session.conf.values
    assert session.conf.values == {_BLOCK: "1234"}


def test_a_small_step_sets_nothing() -> None:
    """It is one file of few rows in any case."""
    session = _Session()
    with _sized(session, is_large=False):
        assert session.conf.values == {_BLOCK: "1234"}
