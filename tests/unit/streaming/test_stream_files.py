"""What the checkpoint of a query says of the files of a micro-batch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark_queue.stream_files import batch_files, is_read_more_often


def _log(place: Path, source: int, name: str, *entries: tuple[str, int]) -> None:
    folder = place / "sources" / str(source)
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"path": path, "timestamp": 1, "batchId": n}) for path, n in entries]
    # Spark writes an entry without spaces.
    text = "\n".join(line.replace(": ", ":").replace(", ", ",") for line in lines)
    (folder / name).write_text(f"v1\n{text}")


@pytest.mark.parametrize("place", ["ckpt", "a[1]*"])
def test_files_are_those_of_the_batch_in_any_log(tmp_path: Path, place: str) -> None:
    """Each source has a log; every tenth entry has those before it, too."""
    here = tmp_path / place
    _log(here, 0, "0", ("file:///a", 0))
    _log(here, 0, "9.compact", ("file:///a", 0), ("file:///b", 9), ("file:///c", 9))
    _log(here, 1, "9", ("file:///d", 9))
    (here / "sources" / "2").mkdir()
    (here / "sources" / "2" / "9").write_text('v1\n{"topic":{"0":7}}')
    for checkpoint in (str(here), f"file:{here}", f"file://{here}"):
        assert batch_files(None, checkpoint, 0) == ["file:///a"]
        assert batch_files(None, checkpoint, 9) == ["file:///b", "file:///c", "file:///d"]
        assert batch_files(None, checkpoint, 10) == []


def test_a_name_like_a_pattern_is_known_as_a_url_has_it() -> None:
    """Only beside another file it makes Spark read files more than once."""
    plain = "file:///t/one%20%25.json"
    for letter in ("%5B", "%5d", "%7B", "%7D", "*", "%3F", "%5C"):
        assert is_read_more_often([plain, f"file:///t/a{letter}.json"])
        assert not is_read_more_often([f"file:///t/a{letter}.json"])
    assert not is_read_more_often([plain, plain])
