from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from spark_queue.errors import InvalidArgumentError
from spark_queue.ingest import tree
from spark_queue.ingest.tree import FoundFile, locate, micros, modified_micros, walk


def _below(root: Path, **options: Any) -> dict[str, FoundFile]:
    return {os.path.relpath(file.path, root): file for file in walk(root, **options)}


def test_tenant_is_the_first_directory_below_the_source(tmp_path: Path) -> None:
    """A file's tenant is the first directory of its path, and empty for a file at the top."""
    (tmp_path / "acme/in/deep").mkdir(parents=True)
    (tmp_path / "acme/in/deep/a.txt").write_text("a")
    (tmp_path / "top.txt").write_text("t")

    found = _below(tmp_path)

    assert found["acme/in/deep/a.txt"].tenant == "acme"
    assert found["acme/in/deep/a.txt"].directory == str(tmp_path / "acme/in/deep")
    assert found["top.txt"].tenant == ""


def test_version_is_size_and_time_of_the_file(tmp_path: Path) -> None:
    """A found file carries its size and its modification time to the microsecond."""
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    os.utime(path, ns=(0, 1_700_000_000_123_456_789))

    (file,) = walk(tmp_path)

    assert (file.size, file.modified) == (5, 1_700_000_000_123_456)


def test_files_of_a_directory_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    """The walk lists a directory by name, whatever order the disk has."""
    for name in ("c", "a", "b"):
        (tmp_path / name).write_text(name)

    assert [Path(file.path).name for file in walk(tmp_path)] == ["a", "b", "c"]


def test_linked_directories_are_left_out(tmp_path: Path) -> None:
    """A link to a directory is not walked; a link to a file is a file."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real/a").write_text("a")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real/b").symlink_to("a")

    assert sorted(_below(tmp_path)) == ["real/a", "real/b"]


def test_linked_directories_are_followed_where_asked_and_read_once(tmp_path: Path) -> None:
    """A directory below the source is read by its own path, any other by one link to it."""
    inside, outside = tmp_path / "source", tmp_path / "outside"
    (inside / "real/deep").mkdir(parents=True)
    (outside / "deep").mkdir(parents=True)
    for place in (inside / "real", inside / "real/deep", outside, outside / "deep"):
        (place / "file").write_text("x")
    (inside / "again").symlink_to("real")
    (inside / "real/up").symlink_to(inside)
    (inside / "out").symlink_to(outside)
    (inside / "real/out").symlink_to(outside)
    (outside / "back").symlink_to(inside / "real")
    (outside / "above").symlink_to(tmp_path)

    found = {os.path.realpath(file.path) for file in walk(inside, follow_links=True)}
    paths = [file.path for file in walk(inside, follow_links=True)]

    assert len(paths) == len(found) == 4
    assert {str(inside / "real/file"), str(inside / "real/deep/file")} < set(paths)
    assert {str(outside / "file"), str(outside / "deep/file")} < found


def test_two_directories_that_link_to_each_other_are_read_once(tmp_path: Path) -> None:
    """Links between siblings add nothing to what is found without them."""
    for name, other in (("a", "b"), ("b", "a")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
        (tmp_path / name / "other").symlink_to(tmp_path / other)

    assert sorted(_below(tmp_path, follow_links=True)) == ["a/file", "b/file"]


@pytest.mark.parametrize(
    ("exclude", "left"),
    [
        ([], ["lib/a.py", "lib/a.pyc", "lib/site/b.py", "site/lib/a.py", "top.py"]),
        (["*.pyc"], ["lib/a.py", "lib/site/b.py", "site/lib/a.py", "top.py"]),
        (["site"], ["lib/a.py", "lib/a.pyc", "top.py"]),
        (["lib/site/"], ["lib/a.py", "lib/a.pyc", "site/lib/a.py", "top.py"]),
        (["./lib/*.py", "top.*"], ["lib/a.pyc", "site/lib/a.py"]),
        (["s*e", "li?"], ["top.py"]),
        (["*"], []),
    ],
)
def test_what_a_pattern_names_is_left_out(
    tmp_path: Path, exclude: list[str], left: list[str]
) -> None:
    """A pattern is of names, or with a slash of paths; a directory goes with all that is in it."""
    for name in ("lib/a.py", "lib/a.pyc", "lib/site/b.py", "site/lib/a.py", "top.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")

    assert sorted(_below(tmp_path, exclude=exclude)) == left


@pytest.mark.parametrize("exclude", ["*.pyc", [""], [1]])
def test_patterns_are_a_list_of_strings(tmp_path: Path, exclude: Any) -> None:
    """A single string is no list of patterns, and an empty pattern is a mistake."""
    with pytest.raises(InvalidArgumentError, match=r"exclude is .* give a list of patterns"):
        next(walk(tmp_path, exclude=exclude))


def test_what_cannot_be_opened_is_found_all_the_same(tmp_path: Path) -> None:
    """Dangling links, links to themselves and pipes are found, so that reading them can fail."""
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "self").symlink_to("self")
    os.mkfifo(tmp_path / "pipe")

    assert sorted(_below(tmp_path)) == ["dangling", "pipe", "self"]


def test_directory_that_cannot_be_listed_is_found_as_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory that refuses to be listed is reported by its own path."""
    (tmp_path / "closed").mkdir()
    scandir = os.scandir

    def refusing(path: str) -> object:
        if path.endswith("closed"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)

    assert [(file.path, file.tenant) for file in walk(tmp_path)] == [
        (str(tmp_path / "closed"), "closed")
    ]


def test_file_removed_during_the_walk_is_found_without_facts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is gone by the time it is looked at does not end the walk."""
    monkeypatch.setattr(tree, "_list_directory", lambda directory: [(f"{directory}/gone", "file")])

    (file,) = walk(tmp_path)

    assert (file.size, file.modified) == (0, 0)


def test_name_that_is_no_utf8_is_written_so_that_it_can_be_found_again(tmp_path: Path) -> None:
    """A path with foreign bytes is plain text, and leads back to the file."""
    raw = os.fsencode(tmp_path) + b"/caf\xe9"
    try:
        Path(os.fsdecode(raw)).write_text("x")
    except OSError:
        pytest.skip("this disk takes UTF-8 names only")

    (file,) = walk(tmp_path)

    assert file.path.endswith("caf\\xe9")
    assert Path(locate(file.path)).read_text() == "x"


def test_path_that_only_looks_escaped_is_left_alone(tmp_path: Path) -> None:
    """A name with a real backslash is found as it is."""
    path = tmp_path / "a\\xe9"
    path.write_text("x")

    assert locate(str(path)) == str(path)


@pytest.mark.parametrize("name", ["missing", "file"])
def test_source_must_be_a_directory(tmp_path: Path, name: str) -> None:
    """A source that is missing, or is a file, is refused by name."""
    (tmp_path / "file").write_text("x")

    with pytest.raises(InvalidArgumentError, match=f"{name}' is not a directory"):
        next(walk(tmp_path / name))


def test_time_that_no_timestamp_holds_is_brought_into_range(tmp_path: Path) -> None:
    """A file from the year 20000 keeps a time that can be stored."""
    path = tmp_path / "a"
    path.write_text("a")
    try:
        os.utime(path, (0, 570_000_000_000))
    except (OSError, OverflowError):
        pytest.skip("this disk has no such time")
    year = 253_402_300_800_000_000  # the first microsecond of the year 10000

    assert modified_micros(path.stat()) < year


def test_micros_undoes_the_timestamp() -> None:
    """An aware time and its microseconds are the same instant."""
    at = datetime(2026, 5, 4, 3, 2, 1, 999_999, tzinfo=timezone(timedelta(hours=2)))

    assert micros(at) == int(at.timestamp()) * 1_000_000 + 999_999
