"""What is printed during the start of a session is kept back, and nothing else is."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from pyspark.sql import SparkSession

from spark_queue import local_session


def _starts(monkeypatch: pytest.MonkeyPatch, start: Callable[[], object]) -> MagicMock:
    """Have Spark start so, without a JVM; return what gets the settings."""
    builder = MagicMock()
    for name in ("master", "appName", "config"):
        getattr(builder, name).return_value = builder
    builder.getOrCreate.side_effect = start
    monkeypatch.setattr(SparkSession, "builder", builder)
    return builder


def _wait_for_relays() -> None:
    """Wait until all that a JVM has printed is passed on, as it has ended."""
    for thread in threading.enumerate():
        if thread.name.startswith("spark-queue-stream"):
            thread.join()


def test_what_the_start_prints_is_not_shown_and_what_comes_later_is(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A program prints after its session has started, to both of its streams."""

    def start() -> MagicMock:
        os.write(1, b"resolved 3 jars\n")
        os.write(2, b"a warning of the JVM\n")
        return MagicMock()

    _starts(monkeypatch, start)
    local_session()
    os.write(1, b"1 item\n")
    os.write(2, b"done\n")
    assert capfd.readouterr() == ("1 item\n", "done\n")


def test_start_ends_where_somebody_has_put_another_stream_in_the_place_of_one(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """What marks the end of a start comes by no stream that others may have."""
    other = tmp_path / "other"

    def start() -> MagicMock:
        with other.open("wb") as file:
            os.dup2(file.fileno(), 1)
        return MagicMock()

    _starts(monkeypatch, start)
    local_session()
    os.write(1, b"1 item\n")
    assert (capfd.readouterr().out, other.read_bytes()) == ("1 item\n", b"")


def test_what_the_jvm_prints_after_the_start_is_shown(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Errors of Spark and prints of handlers come by the streams that it has inherited."""
    jvms: list[subprocess.Popen[bytes]] = []

    def start() -> MagicMock:
        program = "echo starts; echo a warning >&2; read go; echo a print; echo an error >&2"
        jvms.append(subprocess.Popen(["/bin/sh", "-c", program], stdin=subprocess.PIPE))  # noqa: S603 - our own
        return MagicMock()

    _starts(monkeypatch, start)
    local_session()
    jvms[0].communicate(b"go\n")
    _wait_for_relays()

    said = capfd.readouterr()
    assert said.out.endswith("a print\n")
    assert said.err.endswith("an error\n")


def test_a_download_is_told_in_a_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It may take a minute; the jars are not listed."""

    def start() -> MagicMock:
        os.write(2, b"downloading https://host/a.jar ...\n")
        os.write(2, b"downloading https://host/b.jar ...\n")
        return MagicMock()

    _starts(monkeypatch, start)
    local_session()
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "spark-queue: the first session downloads the jars of Delta; this may take a minute"
    ]


def test_a_start_that_fails_shows_what_it_printed(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Why it failed may stand there alone."""

    def start() -> MagicMock:
        os.write(1, b"no such jar\n")
        raise RuntimeError("the gateway ended")

    _starts(monkeypatch, start)
    with pytest.raises(RuntimeError, match="the gateway ended"):
        local_session()
    assert "no such jar" in capfd.readouterr().err


def test_all_is_shown_on_request(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With ``quiet=False`` the streams are those of the program, and Spark logs as it does."""

    def start() -> MagicMock:
        os.write(2, b"a warning of the JVM\n")
        return MagicMock()

    builder = _starts(monkeypatch, start)
    local_session(quiet=False)
    assert capfd.readouterr().err == "a warning of the JVM\n"
    assert "spark.log.level" not in [call.args[0] for call in builder.config.call_args_list]


def test_errors_are_logged_unless_the_caller_says_what(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warnings of Spark are not; a setting of the caller wins."""
    builder = _starts(monkeypatch, MagicMock)
    local_session()
    builder.config.assert_any_call("spark.log.level", "ERROR")
    own: dict[str, Any] = {"spark.log.level": "INFO"}
    local_session(**own)
    builder.config.assert_any_call("spark.log.level", "INFO")


def test_a_program_without_an_error_stream_starts_a_session(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As a service may be."""
    _starts(monkeypatch, MagicMock)
    kept = os.dup(2)
    os.close(2)
    try:
        local_session()
    finally:
        os.dup2(kept, 2)
        os.close(kept)
    os.write(2, b"done\n")
    assert capfd.readouterr().err == "done\n"
