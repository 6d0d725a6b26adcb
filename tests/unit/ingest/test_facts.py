from __future__ import annotations

import hashlib
import os
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from spark_queue.errors import Reject
from spark_queue.ingest import file_handler
from spark_queue.ingest.file_handler import file_facts, media_type


def _item(path: Path, **changes: Any) -> dict[str, Any]:
    known = path.stat() if path.exists() else path.lstat()
    seconds, micros = divmod(known.st_mtime_ns // 1000, 1_000_000)
    at = datetime.fromtimestamp(seconds, timezone.utc).replace(microsecond=micros)
    item = {"path": str(path), "size": known.st_size, "modified_at": at, "tenant": "t"}
    return {**item, "_seq": 1, **changes}


def test_text_file_has_digest_type_encoding_and_lines(tmp_path: Path) -> None:
    """A text file is described by its bytes; names of definitions are for Python only."""
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,b\r\n1,2\r\n")

    assert file_facts(_item(path)) == {
        "path": str(path),
        "tenant": "t",
        "size": 10,
        "sha256": hashlib.sha256(b"a,b\r\n1,2\r\n").hexdigest(),
        "media_type": "text/csv",
        "encoding": "utf-8",
        "lines": 2,
        "functions": None,
        "classes": None,
        "parse_error": None,
    }


def test_python_source_has_its_definitions(tmp_path: Path) -> None:
    """Functions and classes come from the syntax tree, the encoding from the declaration."""
    path = tmp_path / "a.py"
    path.write_bytes("# coding: latin-1\nclass Ä:\n    def é(self): ...\n".encode("latin-1"))

    read = file_facts(_item(path))

    assert (read["classes"], read["functions"]) == (["Ä"], ["Ä.é"])
    assert (read["encoding"], read["lines"], read["parse_error"]) == ("iso-8859-1", 3, None)


def test_python_source_that_does_not_parse_has_the_error(tmp_path: Path) -> None:
    """A broken source is a fact, not a failure."""
    path = tmp_path / "a.py"
    path.write_text("def")

    read = file_facts(_item(path))

    assert read["parse_error"].startswith("line 1: ")
    assert read["functions"] is None


def test_wrongly_declared_source_still_has_an_encoding(tmp_path: Path) -> None:
    """Where the declaration is nonsense, the bytes decide."""
    path = tmp_path / "a.py"
    path.write_text("# coding: nonsense\n")

    assert file_facts(_item(path))["encoding"] == "utf-8"


def test_file_longer_than_a_chunk_is_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Digest, lines and names are those of the whole file, however it is read."""
    monkeypatch.setattr(file_handler, "_CHUNK", 16)
    text = "".join(f"def f{n}(): ...\n" for n in range(50))
    path = tmp_path / "a.py"
    path.write_text(text)

    read = file_facts(_item(path))

    assert read["sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert (read["lines"], len(read["functions"])) == (50, 50)


def test_source_beyond_all_measure_is_not_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source that is too long for a syntax tree says so, and is read all the same."""
    monkeypatch.setattr(file_handler, "_CHUNK", 16)
    monkeypatch.setattr(file_handler, "_LONGEST_SOURCE", 32)
    path = tmp_path / "a.py"
    path.write_text("x = 1\n" * 20)

    read = file_facts(_item(path))

    assert "longer than" in read["parse_error"]
    assert read["lines"] == 20


def _missing(directory: Path) -> dict[str, Any]:
    path = directory / "gone"
    path.write_text("x")
    item = _item(path)
    path.unlink()
    return item


def _dangling(directory: Path) -> dict[str, Any]:
    path = directory / "link"
    path.symlink_to("nowhere")
    return _item(path)


def _pipe(directory: Path) -> dict[str, Any]:
    os.mkfifo(directory / "pipe")
    return _item(directory / "pipe")


def _replaced(directory: Path) -> dict[str, Any]:
    path = directory / "late"
    path.write_text("x")
    item = _item(path)
    path.unlink()
    os.mkfifo(path)
    return item


def _directory(directory: Path) -> dict[str, Any]:
    return _item(directory)


@pytest.mark.parametrize(
    ("unreadable", "why"),
    [
        (_missing, "FileNotFoundError: No such file"),
        (_dangling, "FileNotFoundError: No such file"),
        (_pipe, "not a regular file"),
        (_replaced, "not a regular file"),
        (_directory, "a directory that could not be listed"),
    ],
)
def test_file_that_cannot_be_read_is_rejected(tmp_path: Path, unreadable: Any, why: str) -> None:
    """What cannot be read goes to the dead letters at once, with the reason."""
    with pytest.raises(Reject, match=why):
        file_facts(unreadable(tmp_path))


@pytest.mark.parametrize("target", ["/proc/kmsg", "/proc/self/status"])
def test_file_is_read_to_its_size(tmp_path: Path, target: str) -> None:
    """A link to a file without a size, whose reader may wait for ever, is as empty as it says."""
    if not os.access(target, os.R_OK):
        pytest.skip(f"{target} cannot be read here")
    (tmp_path / "log").symlink_to(target)

    read = file_facts(_item(tmp_path / "log"))

    assert (read["size"], read["lines"], read["encoding"]) == (0, 0, "utf-8")


def test_version_that_is_gone_is_rejected(tmp_path: Path) -> None:
    """A file that changed since it was found is left to the run that finds the change."""
    path = tmp_path / "a"
    path.write_text("old")
    item = _item(path)
    path.write_text("newer")

    with pytest.raises(Reject, match="changed since it was found"):
        file_facts(item)


def test_file_written_to_while_it_is_read_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read halfway through a change is no version of the file."""
    path = tmp_path / "a"
    path.write_text("old")
    item = _item(path)
    sha256 = hashlib.sha256

    def meanwhile() -> Any:
        path.write_text("newer")
        return sha256()

    monkeypatch.setattr(hashlib, "sha256", meanwhile)

    with pytest.raises(Reject, match="changed since it was found"):
        file_facts(item)


@pytest.mark.parametrize(
    ("path", "kind"),
    [("a/b.html", "text/html"), ("b.tar.gz", "application/gzip"), ("b.unheard", None), ("b", None)],
)
def test_media_type_is_guessed_from_the_name(path: str, kind: str | None) -> None:
    """The outermost layer of a file names its type."""
    assert media_type(path) == kind
