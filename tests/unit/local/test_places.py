"""Places of queues without Spark: they work, or are refused before anything is made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import spark_queue
from spark_queue.errors import InvalidArgumentError, QueueNotFoundError, SparkNeededError
from spark_queue.local_queue import LocalQueue

#: What is refused, and a word of why.
REFUSED = {
    "a%b": "%",
    "a%20b": "%",
    "100%": "%",
    "s3:x": ":",
    "x/../y": r"\.\.",
    "a\\b": "backslash",
    "_delta_log": "_delta_log",
    "_delta_log/queue": "_delta_log",
    "a\udcffb": "UTF-8",
    "a\0b": "control sign",
    "a\nb": "control sign",
    "x" * 256: "too long",
    "ä" * 128: "too long",
    "/".join(["y" * 100] * 41): "too long",
}

#: What looks odd, and works.
ODD = ["a b", "ä€😀", "a'b\"c", "a#b?c&d=e", "*[a]{b}", "~x", "$HOME", "a. ", ".crc", "_gen=1"]


def _uses(queue: LocalQueue, place: Any) -> list[Callable[[], object]]:
    """Return the ways to name a place."""
    return [
        lambda: LocalQueue.create(place, "id string"),
        lambda: spark_queue.open(place),
        lambda: queue.clone(place),
    ]


@pytest.mark.parametrize("name", [*ODD, "x" * 255])
def test_an_odd_path_works(tmp_path: Path, name: str) -> None:
    """A queue goes through its life there, and so does a clone of it."""
    queue = LocalQueue.create(tmp_path / name, "id string", durability="process")
    queue.enqueue({"id": "a"})
    clone = queue.clone(tmp_path / "clones" / name)
    with spark_queue.open(tmp_path / name).claim() as claim:
        assert [row["id"] for row in claim.rows] == ["a"]
    assert queue.report().overview.runnable == 0
    assert (queue.counts()["acked"], clone.counts()["ready"]) == (1, 1)
    LocalQueue.drop(queue.name)
    assert not (tmp_path / name / "queue").exists()


@pytest.mark.parametrize("name", REFUSED, ids=[f"{number}" for number in range(len(REFUSED))])
def test_a_path_that_cannot_be_is_refused_first(tmp_path: Path, name: str) -> None:
    """To create, open, clone or drop there is an error that says why, and nothing is made."""
    queue = LocalQueue.create(tmp_path / "queue", "id string", durability="process")
    place, before = f"{tmp_path}/{name}", sorted(tmp_path.rglob("*"))

    for call in _uses(queue, place):
        with pytest.raises(InvalidArgumentError, match=REFUSED[name]):
            call()
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("path", [None, 5, b"files", ["files"], ""])
def test_what_is_no_path_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: Any
) -> None:
    """It is not turned into a text by which a directory is made."""
    monkeypatch.chdir(tmp_path)
    queue = LocalQueue.create(tmp_path / "queue", "id string", durability="process")
    before = sorted(tmp_path.rglob("*"))

    for call in _uses(queue, path):
        with pytest.raises(InvalidArgumentError, match="path is"):
            call()
    assert sorted(tmp_path.rglob("*")) == before


def test_a_shared_store_is_for_spark(tmp_path: Path) -> None:
    """Without Spark a queue there is neither made nor opened nor cloned to."""
    queue = LocalQueue.create(tmp_path / "queue", "id string", durability="process")

    for call in _uses(queue, "hdfs://host/queue"):
        with pytest.raises(SparkNeededError, match="not on this machine's disk"):
            call()


@pytest.mark.parametrize("name", ["a\u2028b", "a\x85b", "a\u2029b"])
def test_a_column_is_named_by_any_sign(tmp_path: Path, name: str) -> None:
    """A sign that ends a line to Python, and not to JSON, does not cut a commit."""
    queue = LocalQueue.create(tmp_path / "q", f"`{name}` string")
    queue.enqueue([{name: "x"}])

    (row,) = spark_queue.open(tmp_path / "q").claim(limit=1).rows
    assert row[name] == "x"


@pytest.mark.parametrize(
    "name", ["a\\b", "_delta_log", "x" * 256, "x/" * 2_100, "a\udcffb", "a\nb", "a`b"]
)
def test_an_output_that_cannot_be_is_refused_first(tmp_path: Path, name: str) -> None:
    """Nothing is claimed, and nothing is made at the path."""
    queue = LocalQueue.create(tmp_path / "q", "n bigint")
    queue.enqueue([{"n": 1}])

    with pytest.raises(InvalidArgumentError, match=r"^output "):
        queue.process(lambda item: item, returns="n bigint", output=f"{tmp_path}/out/{name}")
    assert (queue.counts()["ready"], (tmp_path / "out").exists()) == (1, False)


@pytest.mark.parametrize("name", ["main.ops.files", "ops.files", "files"])
def test_a_name_of_a_catalog_is_told_to_need_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Where no directory has the name, the error says how to open a queue by its table name."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(QueueNotFoundError, match=rf"takes DeltaQueue\.open\(spark, '{name}'\)"):
        spark_queue.open(name)
    LocalQueue.create(name, "id string", durability="process")
    assert LocalQueue.open(name).counts()["ready"] == 0
