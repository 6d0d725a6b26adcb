"""A queue on a store that speaks as S3 does, on the loopback, where the program ``gofakes3`` is."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import spark_queue
from spark_queue.cli.app import app
from spark_queue.local_queue import LocalQueue
from tests.logs.stand_ins import s3


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Run a store in memory, and return how it is reached."""
    with s3(tmp_path) as options:
        yield options


def test_a_queue_is_shared_by_its_url(storage: dict[str, Any]) -> None:
    """Threads with handles of their own claim each item once."""
    place = "s3://bucket/team/files"
    LocalQueue.create(place, "path string", storage=storage)
    paths = [f"{number:02}" for number in range(24)]
    spark_queue.open(place, storage=storage).enqueue([{"path": path} for path in paths])

    def work(_: int) -> list[str]:
        queue, done = spark_queue.open(place, storage=storage), []
        while (claim := queue.claim(3)).count:
            done += [row["path"] for row in claim.rows]
            claim.ack()
        return done

    with ThreadPoolExecutor(3) as threads:
        done = [path for some in threads.map(work, range(3)) for path in some]
    assert sorted(done) == paths
    assert spark_queue.open(place, storage=storage).counts()["acked"] == 24


def test_a_command_reaches_it_by_the_environment(
    storage: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told to do without Spark, it makes a queue there, fills it and shows it."""
    for name in ("endpoint", "access_key_id", "secret_access_key", "region"):
        monkeypatch.setenv(f"AWS_{name.upper()}", storage[name])
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("SPARK_QUEUE_ENGINE", "local")
    place = "s3://bucket/files"

    def run(*words: str) -> str:
        done = CliRunner().invoke(app, [*words])
        assert done.exit_code == 0, done.output
        return done.output

    run("create", place, "--schema", "path string")
    assert "ready" in run("stats", place)
