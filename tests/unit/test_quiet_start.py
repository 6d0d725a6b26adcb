"""What a session prints while it starts is kept back, and nothing else is."""

from __future__ import annotations

import os
from unittest.mock import MagicMock

import pytest
from pyspark.sql import SparkSession

from spark_queue import local_session


def _starts(monkeypatch: pytest.MonkeyPatch, start: object) -> None:
    """Have Spark start so, without a JVM."""
    builder = MagicMock()
    for name in ("master", "appName", "config"):
        getattr(builder, name).return_value = builder
    builder.getOrCreate.side_effect = start
    monkeypatch.setattr(SparkSession, "builder", builder)


def test_what_the_start_prints_is_not_shown_and_what_comes_later_is(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A program prints after its session has started, to both of its streams."""

    def start() -> MagicMock:
        os.write(1, b"resolved 3 jars\n")
        os.write(2, b"a warning of the JVM\n")
        return MagicMock()

    _starts(monkeypatch, start)
    local_session(quiet=True)
    os.write(1, b"1 item\n")
    os.write(2, b"done\n")
    assert capfd.readouterr() == ("1 item\n", "done\n")


def test_a_start_that_fails_shows_what_it_printed(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Why it failed may stand there alone."""

    def start() -> MagicMock:
        os.write(1, b"no such jar\n")
        raise RuntimeError("the gateway ended")

    _starts(monkeypatch, start)
    with pytest.raises(RuntimeError, match="the gateway ended"):
        local_session(quiet=True)
    assert "no such jar" in capfd.readouterr().err
