"""Whether a process that used a queue on a local disk still runs is told by a file it locks."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from spark_queue.errors import FileAccessError
from spark_queue.log.disk import liveness
from spark_queue.log.disk.liveness import has_ended, leave, looking_at, mine, sweep
from tests.unit.delta.others import WITHOUT_LOCKS, Other, other, said_by, until
from tests.unit.threads import together

#: Another process that says its name, and lives until it is told to end.
_ALIVE = """
    tell(liveness.mine(d))
    hear()
"""


@pytest.fixture
def alive(tmp_path: Path) -> Iterator[Other]:
    """Have another process live."""
    with other(tmp_path, _ALIVE) as process:
        yield process


@pytest.fixture(autouse=True)
def _left(tmp_path: Path) -> Iterator[None]:
    """End the life of this process in the directory."""
    yield
    leave(tmp_path)


def file_of(directory: Path, name: str) -> Path:
    """Return the file of a life."""
    _, pid, token = name.split("/")
    return directory / "_lives" / f"{pid}-{token}"


def test_a_life_is_named_by_host_and_process(tmp_path: Path) -> None:
    """Its file is there before anybody knows the name."""
    name = mine(tmp_path)

    assert re.fullmatch(rf"{re.escape(socket.gethostname())}/{os.getpid()}/[0-9a-f]{{8}}", name)
    assert [file.name for file in (tmp_path / "_lives").iterdir()] == [file_of(tmp_path, name).name]


def test_a_process_has_one_name(tmp_path: Path) -> None:
    """It is the same each time, in every directory and on every thread."""
    places = [tmp_path / "a", tmp_path / "b"]
    names: list[str] = []
    ready = threading.Barrier(8)

    def ask(place: Path) -> None:
        ready.wait(10)
        names.append(mine(place))

    for place in places:
        place.mkdir()
    together(*(partial(ask, places[at % 2]) for at in range(8)))

    assert names == [mine(places[0])] * 8
    assert [len(list((place / "_lives").iterdir())) for place in places] == [1, 1]
    for place in places:
        leave(place)


def test_a_life_lasts_as_long_as_its_process(tmp_path: Path, alive: Other) -> None:
    """Others see it run, and ended when the process has come to its end."""
    name = alive.hear()
    assert has_ended(tmp_path, name) is False
    alive.tell()
    alive.end()

    assert has_ended(tmp_path, name) is True


# rule: end of a worker
def test_a_killed_process_is_known_to_have_ended_at_once(tmp_path: Path, alive: Other) -> None:
    """Nothing has to be cleaned up by whoever dies."""
    name = alive.hear()
    alive.process.kill()

    assert until(lambda: has_ended(tmp_path, name)) < 0.5


def test_others_see_this_process_run(tmp_path: Path) -> None:
    """What one process is told of itself, all others are told of it."""
    name = mine(tmp_path)
    program = f"tell(liveness.has_ended(d, {name!r}), liveness.sweep(d))"

    assert has_ended(tmp_path, name) is False
    assert said_by(tmp_path, program) == ["False 0"]
    leave(tmp_path)
    assert said_by(tmp_path, program) == ["True 1"]


@pytest.mark.parametrize(
    "name",
    [
        "host/4711",
        "nightly",
        "",
        "host/4711/0123456",
        "host/4711/0123456g",
        "host/x/01234567",
        "/4711/01234567",
        "host/4711/01234567/89abcdef",
        "host/../01234567",
    ],
)
def test_nothing_is_said_of_other_names(tmp_path: Path, name: str) -> None:
    """Workers of older releases, and those that users have named, are no lives."""
    assert has_ended(tmp_path, name) is None


def test_a_life_without_a_file_has_ended(tmp_path: Path) -> None:
    """It is so in a directory that never had a life, too, and in one that is gone."""
    assert has_ended(tmp_path, "host/4711/01234567") is True
    mine(tmp_path)
    assert has_ended(tmp_path, "host/4711/01234567") is True
    assert has_ended(tmp_path / "gone", "host/4711/01234567") is True


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_name_whose_file_was_lost_is_never_used_again(
    tmp_path: Path, *, is_replaced: bool
) -> None:
    """Others have taken that life for ended: the process goes on under another name."""
    name = mine(tmp_path)
    file_of(tmp_path, name).unlink()
    if is_replaced:
        file_of(tmp_path, name).touch()
    other_name = mine(tmp_path)

    assert other_name != name
    assert mine(tmp_path) == other_name
    assert has_ended(tmp_path, name) is True
    assert has_ended(tmp_path, other_name) is False
    leave(tmp_path)
    assert mine(tmp_path) not in {name, other_name}


def test_a_life_goes_on_where_its_file_is(tmp_path: Path) -> None:
    """What was lost in one directory keeps its name in the others."""
    there, here = tmp_path / "there", tmp_path / "here"
    for place in (there, here):
        place.mkdir()
    name = mine(here)
    assert mine(there) == name
    file_of(there, name).unlink()

    assert mine(there) != name
    assert mine(here) == name
    assert said_by(here, f"tell(liveness.has_ended(d, {name!r}))") == ["False"]
    leave(there)
    leave(here)


def test_a_directory_that_is_made_anew_knows_no_life(tmp_path: Path) -> None:
    """What was restored from a copy may name a life that others have meanwhile taken for ended."""
    place = tmp_path / "status"
    place.mkdir()
    name = mine(place)
    place.rename(tmp_path / "old")
    place.mkdir()

    assert mine(place) != name
    assert has_ended(place, name) is True
    leave(place)


def test_a_life_is_the_same_however_its_directory_is_spelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link, or a path from where the process stands, leads to one life."""
    (tmp_path / "alias").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)

    assert len({mine(tmp_path), mine(tmp_path / "alias"), mine(Path())}) == 1


def test_a_copy_of_a_life_is_not_taken_over(tmp_path: Path) -> None:
    """Where a directory was copied with all its files, the process takes a name of its own."""
    place, copy = tmp_path / "status", tmp_path / "copy"
    place.mkdir()
    name = mine(place)
    (copy / "_lives").mkdir(parents=True)
    file_of(copy, name).touch()

    assert mine(copy) != name
    assert has_ended(copy, name) is True
    leave(place)
    leave(copy)


def test_a_child_has_a_life_of_its_own(tmp_path: Path) -> None:
    """It does not keep its parent's alive, nor its parent its."""
    program = """
        tell(liveness.mine(d))
        if os.fork() > 0:
            time.sleep(60)
        tell(liveness.mine(d / "elsewhere"))
        tell(liveness.mine(d))
        hear()
    """
    (tmp_path / "elsewhere").mkdir()
    with other(tmp_path, program) as parent:
        name, elsewhere, child = parent.hear(), parent.hear(), parent.hear()
        assert elsewhere == child != name
        assert has_ended(tmp_path, name) is False
        parent.process.kill()
        assert until(lambda: has_ended(tmp_path, name)) < 0.5
        assert has_ended(tmp_path, child) is False
        assert parent.process.stdin is not None
        parent.tell()
        assert until(lambda: has_ended(tmp_path, child)) < 10


def test_a_child_ends_alone(tmp_path: Path) -> None:
    """When it exits, its parent still runs, with the same name."""
    program = """
        name = liveness.mine(d)
        child = os.fork()
        if child == 0:
            os._exit(0 if liveness.mine(d) != name else 1)
        tell(os.waitpid(child, 0)[1], liveness.mine(d) == name)
        tell(name)
        hear()
    """
    with other(tmp_path, program) as parent:
        assert parent.hear() == "0 True"
        assert has_ended(tmp_path, parent.hear()) is False


def test_whoever_looks_hides_nothing_from_others(tmp_path: Path, alive: Other) -> None:
    """A life that somebody looks at has ended for the next one, too, and can be removed."""
    name = alive.hear()
    alive.kill()
    with looking_at(str(file_of(tmp_path, name))) as is_ended:
        assert is_ended
        assert has_ended(tmp_path, name) is True
        assert sweep(tmp_path) == 1


def test_what_has_ended_is_swept(tmp_path: Path, alive: Other) -> None:
    """Lives that run stay, and what is no life."""
    assert sweep(tmp_path) == 0
    running, name = alive.hear(), mine(tmp_path)
    for token in ("01234567", "89abcdef"):
        file_of(tmp_path, f"host/1/{token}").touch()
    (tmp_path / "_lives" / "notes").touch()

    assert sweep(tmp_path) == 2
    assert sweep(tmp_path) == 0
    kept = {file_of(tmp_path, running).name, file_of(tmp_path, name).name, "notes"}
    assert {file.name for file in (tmp_path / "_lives").iterdir()} == kept
    assert mine(tmp_path) == name


def test_no_life_is_swept_away_while_it_begins(tmp_path: Path) -> None:
    """A name that was given away keeps its file, however many sweep meanwhile."""
    program = """
        lost = 0
        tell("ready")
        hear()
        for _ in range(400):
            name = liveness.mine(d)
            time.sleep(0.0001)
            lost += liveness.mine(d) != name
            liveness.leave(d)
        tell(lost)
    """
    with other(tmp_path, program) as one, other(tmp_path, program) as another:
        makers = (one, another)
        for maker in makers:
            assert maker.hear() == "ready"
            maker.tell()
        swept = 0
        while any(maker.process.poll() is None for maker in makers):
            swept += sweep(tmp_path)
        assert [maker.end() for maker in makers] == [["0"], ["0"]]
    assert swept + sweep(tmp_path) >= 800
    assert list((tmp_path / "_lives").iterdir()) == []


def test_a_life_that_is_swept_as_it_begins_takes_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between making its file and locking it, a sweep may come."""
    names = iter(["h/1/00000001", "h/1/00000002"])
    monkeypatch.setattr(liveness, "_new_name", lambda: next(names))
    monkeypatch.setattr(liveness, "_lives", liveness._Lives())
    opened = os.open

    def swept(path: str, flags: int, mode: int = 0o777) -> int:
        descriptor = opened(path, flags, mode)
        if path.endswith("1-00000001") and flags & os.O_EXCL:
            assert sweep(tmp_path) == 1
        return descriptor

    monkeypatch.setattr(os, "open", swept)
    assert mine(tmp_path) == "h/1/00000002"


def test_a_life_is_left_and_begun_again(tmp_path: Path) -> None:
    """Who is done with a queue keeps no file open; leaving what was never begun does nothing."""
    leave(tmp_path)
    leave(tmp_path / "gone")
    before = len(list(Path("/dev/fd").iterdir()))
    name = mine(tmp_path)
    leave(tmp_path)

    assert len(list(Path("/dev/fd").iterdir())) == before
    assert has_ended(tmp_path, name) is True
    assert mine(tmp_path) != name


def test_no_life_begins_where_it_cannot_be_seen(tmp_path: Path) -> None:
    """A directory that is gone, or in whose place is something else, is named."""
    with pytest.raises(FileNotFoundError, match="gone"):
        mine(tmp_path / "gone")
    (tmp_path / "_lives").touch()
    with pytest.raises(FileAccessError, match="_lives"):
        mine(tmp_path)
    with pytest.raises(FileAccessError, match="_lives"):
        sweep(tmp_path)
    (tmp_path / "_lives").unlink()
    assert has_ended(tmp_path, mine(tmp_path)) is False


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_no_life_begins_where_nothing_can_be_written(tmp_path: Path) -> None:
    """Who may only read writes no steps either."""
    tmp_path.chmod(0o500)
    with pytest.raises(FileAccessError, match="_lives"):
        mine(tmp_path)


def test_without_locks_no_life_is_told(tmp_path: Path) -> None:
    """Where the system has no flock nobody is taken for dead, or for alive."""
    program = """
        def refused(ask, *words):
            try:
                return ask(d, *words)
            except SetupError as error:
                return f"refused: {'flock' in str(error)}"

        tell(refused(liveness.mine), refused(liveness.sweep))
        tell(refused(liveness.has_ended, "host/1/01234567"), refused(liveness.has_ended, "nightly"))
    """
    assert said_by(tmp_path, program, first=WITHOUT_LOCKS) == [
        "refused: True refused: True",
        "refused: True None",
    ]
