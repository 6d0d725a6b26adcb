"""The exercise that every log of numbered steps passes, wherever its rows are."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from deltalake import DeltaTable, write_deltalake

from spark_queue.errors import InvalidArgumentError, LogDamagedError
from spark_queue.log import maintenance
from spark_queue.log.disk.leftover_files import Ages
from spark_queue.log.heads import StatusHead, following
from spark_queue.log.schema import CONFIG, HEAD
from spark_queue.state import existence
from tests.logs import writer
from tests.logs.conftest import log_of
from tests.logs.killing import kill_at
from tests.logs.logs import TestedLog, disk_log, local_log, rows, settings
from tests.logs.stand_ins import NEEDS_AZURITE
from tests.unit.local.test_damage import COMMITS, FILES, Damage

#: All kinds of logs, with Spark as the one who commits on a shared store and on this disk; and
#: those whose files this process reads. One is on an object store, beside a session of Spark.
#: "disk" is a disk that is used by its calls alone, as a storage is that somebody adds.
FAR = pytest.param("far", marks=pytest.mark.spark)
SPARK = pytest.param("spark", marks=pytest.mark.spark)
BESIDE = pytest.param("beside", marks=pytest.mark.spark)
AZURE = pytest.param("azure", marks=NEEDS_AZURITE)
HERE = ("memory", "local", "object", "storage", "disk", "shaky", "fsspec", AZURE)
EVERY = (*HERE, FAR, SPARK, BESIDE)
DISK = ("local", SPARK)

#: Those on a storage: a disk in place, and others through a copy.
STORAGES = ("local", "object", "storage", "disk", "fsspec", AZURE)

_MORE = {"name": "_more", "type": "string", "nullable": True, "metadata": {}}


@pytest.mark.parametrize("log", EVERY, indirect=True)
def test_steps_come_in_the_order_in_which_they_were_made(log: TestedLog) -> None:
    """A follower sees each with its token and rows; who opens the log then sees the newest."""
    start = log.version()
    made = [log.add(1), log.add(2, 3)]

    assert start is not None
    followed = log.follow(start)
    assert [(commit.step, commit.token) for commit, _ in followed] == [
        (head.step, head.token) for head in made
    ]
    assert all(commit.is_step() and not commit.redefines for commit, _ in followed)
    seqs = [sorted(row["_seq"] for row in found if row["_seq"]) for _, found in followed]
    assert seqs == [[1], [2, 3]]
    kinds = {row["_kind"] for _, found in followed for row in found}
    assert kinds == {"item", HEAD}
    again = log.open_again()
    assert (again.head(), again.version(), again.seqs()) == (made[-1], start + 2, [1, 2, 3])


@pytest.mark.parametrize("log", EVERY, indirect=True)
def test_a_step_that_somebody_has_is_lost(log: TestedLog) -> None:
    """Its loser has written nothing, reads whose it is, and makes the next one."""
    late = following(log.head())
    first = log.add(1)

    assert not log.append(late, rows(2))
    known = log.log.head_at(1)
    assert known is not None
    assert known.token == first.token
    assert log.append(following(first), rows(3))
    assert log.seqs() == [1, 3]


@pytest.mark.parametrize("log", EVERY, indirect=True)
def test_rows_of_a_step_are_found_by_their_kind(log: TestedLog) -> None:
    """A text is that of its step; a step that has none of a kind has none."""
    head = StatusHead()
    for text in ("one", None, "three"):
        head = following(head)
        assert log.append(head, rows(head.step) if text is None else settings(text))

    assert [log.log.text(CONFIG, step) for step in (1, 2, 3, 4)] == ["one", None, "three", None]
    assert sorted(log.log.texts(CONFIG)) == ["one", "three"]
    assert len(log.log.texts(HEAD)) == 3
    assert (log.log.last_seq(3), log.log.is_empty()) == (2, False)


@pytest.mark.parametrize("log", [*HERE, FAR, BESIDE], indirect=True)
def test_a_column_that_is_added_is_null_in_what_was_there(log: TestedLog) -> None:
    """Steps go on with it, and a follower learns that the table is another one."""
    log.add(1)
    known = log.version()

    log.log.add_columns([_MORE])

    head = following(log.head())
    assert log.append(head, rows(2).append_column("_more", [["new"]]))
    again = log.open_again()
    assert "_more" in (existence.status_columns(again.store) or ())
    assert (again.head().step, again.seqs()) == (2, [1, 2])
    if log.rows_of_files:
        assert set(
            log.rows_here.rows_of(log.rows_here.files(), ["_more"])["_more"].to_pylist()
        ) == {None, "new"}
    assert known is not None
    assert [commit.redefines for commit, _ in log.follow(known)] == [True, False]


@pytest.mark.parametrize("log", [SPARK, BESIDE], indirect=True)
def test_steps_of_spark_and_of_this_process_follow_each_other(log: TestedLog) -> None:
    """Each sees those of the other at once, and a step that either has is lost to the other."""
    first = log.add(1)
    late = following(first)
    second = following(log.head())
    assert log.append_here(second, rows(2))
    assert not log.append(late, rows(9))
    third = following(second)
    assert log.append(third, rows(3))
    assert not log.append_here(following(second), rows(9))

    assert log.append_here(following(third), rows(4))

    assert log.seqs() == [1, 2, 3, 4]
    assert log.open_again().head().step == 4


@pytest.mark.parametrize("log", HERE, indirect=True)
def test_handles_of_a_log_see_each_others_steps(log: TestedLog) -> None:
    """One that has looked before sees what another has made, replaced and added since."""
    log.add(1)
    other = log.open_again()
    assert (other.head().step, other.seqs()) == (1, [1])

    log.add(2)
    old = [file for file in log.files() if file.gen == 0]
    here = log.rows_here
    add = here.written(0, here.rows_of(old, here.columns()))
    assert here.replace(old, [add], takes_away=False)
    log.log.add_columns([_MORE])

    assert (other.head().step, other.seqs()) == (2, [1, 2])
    assert add["path"] in {file.path for file in other.files()}
    assert "_more" in other.rows_here.columns()
    assert other.add(3).step == 3
    assert log.seqs() == [1, 2, 3]


@pytest.mark.parametrize("log", ["memory", "local"], indirect=True)
def test_a_log_that_was_made_in_the_place_of_another_is_another(log: TestedLog) -> None:
    """A handle that knew the first sees nothing of it in the second, and goes on there."""
    for seq in (1, 2):
        log.add(seq)
    other = log.open_again()
    assert other.seqs() == [1, 2]

    log.log.drop()
    again = log.open_again()
    again.create()

    assert again.add(7).step == 1
    assert (other.head().step, other.seqs()) == (1, [7])


@pytest.mark.parametrize("kind", HERE)
def test_a_log_is_there_from_its_making_to_its_drop(
    kind: str, place: str, request: pytest.FixtureRequest
) -> None:
    """Made a second time it stays as it is, unless it is to be replaced."""
    log, _ = log_of(kind, request, place)
    assert not log.log.exists()
    log.create()
    assert log.log.exists()
    assert log.log.is_empty()
    log.add(1)
    log.open_again().create(replaces=False)
    assert log.seqs() == [1]

    log.log.drop()

    assert not log.open_again().log.exists()
    log = log.open_again()
    log.create()
    assert log.head() == StatusHead()


@pytest.mark.spark
def test_files_of_a_store_are_its_own_to_remove(place: str, request: pytest.FixtureRequest) -> None:
    """A log on a shared store by path is not dropped, and stays."""
    log, undo = log_of("far", request, place)
    log.create()
    with pytest.raises(InvalidArgumentError, match="delete its files"):
        log.log.drop()
    assert log.open_again().log.exists()
    undo()


@pytest.mark.parametrize("log", HERE, indirect=True)
def test_threads_that_append_have_a_step_each(log: TestedLog) -> None:
    """Whoever loses one makes a later one; no step is missing, or there twice."""

    def append(first: int) -> list[tuple[int, str]]:
        made: list[tuple[int, str]] = []
        while len(made) < 6:
            head = following(log.head())
            if log.append(head, rows(first + len(made))):
                made.append((head.step, head.token))
        return made

    with ThreadPoolExecutor(4) as threads:
        made = [step for steps in threads.map(append, (100, 200, 300, 400)) for step in steps]

    assert sorted(step for step, _ in made) == list(range(1, 25))
    followed = log.follow(0)
    assert [(commit.step, commit.token) for commit, _ in followed] == sorted(made)
    assert log.seqs() == [first + n for first in (100, 200, 300, 400) for n in range(6)]


@pytest.mark.parametrize("log", ["local", "object-on-disk", "disk"], indirect=True)
def test_processes_that_append_have_a_step_each(
    log: TestedLog, place: str, request: pytest.FixtureRequest
) -> None:
    """So do they while another one merges their files and sums them up."""
    command = [sys.executable, writer.__file__, request.node.callspec.params["log"], place]
    others = [
        subprocess.Popen([*command, str(first), "40"], stdout=subprocess.PIPE, text=True)  # noqa: S603
        for first in (100, 200)
    ]
    while any(process.poll() is None for process in others):
        sum(maintenance.merging(log.rows_here))
        log.rows_here.sum_up()
    lines = [line for process in others for line in (process.communicate()[0]).splitlines()]

    assert [process.returncode for process in others] == [0, 0]
    made = sorted((int(step), token) for step, token in map(str.split, lines))
    assert [step for step, _ in made] == list(range(1, 81))
    again = log.open_again()
    assert again.head().token == made[-1][1]
    assert again.seqs() == [*range(100, 140), *range(200, 240)]
    tokens = {head.step: head.token for head in map(log.log.parse, again.log.texts(HEAD))}
    assert tokens == dict(made)


@pytest.mark.parametrize("log", [*HERE, SPARK, BESIDE], indirect=True)
def test_files_are_put_in_the_place_of_others(log: TestedLog) -> None:
    """The same rows lie elsewhere then, and a follower sees no step."""
    for seq in (1, 2):
        log.add(seq)
    known, head = log.version(), log.head()
    old = [file for file in log.files() if file.gen == 0]

    here = log.rows_here
    add = here.written(0, here.rows_of(old, here.columns()))
    assert here.replace(old, [add], takes_away=False)

    assert (log.seqs(), log.head(), log.open_again().seqs()) == ([1, 2], head, [1, 2])
    assert {file.path for file in log.files() if file.gen == 0} == {add["path"]}
    assert known is not None
    ((commit, found),) = log.follow(known)
    assert (commit.is_quiet(), commit.is_step(), list(found)) == (True, False, [])
    assert commit.gone == {file.name for file in old}


@pytest.mark.parametrize("log", [*HERE, SPARK, BESIDE], indirect=True)
def test_files_that_are_gone_are_not_replaced(log: TestedLog) -> None:
    """Who comes second to a file has changed nothing, and removes what he has written."""
    log.add(1, 2)
    here = log.rows_here
    (old,) = [file for file in log.files() if file.gen == 0]
    mine, theirs = (here.written(0, here.rows_of([old], here.columns())) for _ in range(2))
    assert here.replace([old], [theirs], takes_away=False)
    version = log.version()

    assert not here.replace([old], [mine], takes_away=True)
    here.discard([mine])

    assert (log.version(), log.seqs(), log.open_again().seqs()) == (version, [1, 2], [1, 2])


@pytest.mark.parametrize("log", [*HERE, SPARK, BESIDE], indirect=True)
def test_rows_that_are_taken_away_are_no_step(log: TestedLog) -> None:
    """A follower does not take their commit for one, and a step follows upon it."""
    log.add(1, 2)
    known, here = log.version(), log.rows_here
    (old,) = [file for file in log.files() if file.gen == 0]
    add = here.written(0, here.rows_of([old], here.columns()).slice(1))

    assert here.replace([old], [add], takes_away=True)

    assert known is not None
    ((commit, _),) = log.follow(known)
    assert (commit.takes_away, commit.is_step(), commit.is_quiet()) == (True, False, False)
    assert log.add(3).step == 2
    assert log.seqs() == [2, 3]


@pytest.mark.parametrize("log", HERE, indirect=True)
def test_a_file_that_was_never_there_is_an_error(log: TestedLog) -> None:
    """Rows that cannot be had are no fewer rows."""
    log.add(1)
    (old,) = [file for file in log.files() if file.gen == 0]
    here = log.rows_here
    here.discard([{"path": old.name}])
    with pytest.raises(OSError, match=old.name):
        here.rows_of([old], ["_seq"])


@pytest.mark.parametrize("log", DISK, indirect=True)
def test_a_follower_behind_a_clean_up_is_told(log: TestedLog) -> None:
    """A commit that is gone is an error; the newest version and what is read are right."""
    for seq in range(1, 6):
        log.add(seq)
    assert log.directory is not None
    DeltaTable(str(log.directory)).create_checkpoint()
    for version in range(4):
        (log.directory / "_delta_log" / f"{version:020}.json").unlink()

    assert log.version(1) == 5
    with pytest.raises(OSError, match=f"{2:020}.json"):
        log.follow(1)
    again = log.open_again()
    assert (again.head().step, again.seqs()) == (5, [1, 2, 3, 4, 5])
    assert log.add(6).step == 6
    assert log.seqs() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("log", STORAGES, indirect=True)
def test_a_log_is_read_from_its_checkpoint(log: TestedLog) -> None:
    """Summed up, it has the same head and rows, for those who knew it and for others."""
    head = log.sum_up()
    assert [name for name in log.storage.list() if name.endswith(".checkpoint.parquet")]

    for seen in (log, log.open_again()):
        assert (seen.head(), seen.seqs()) == (head, list(range(1, head.step + 1)))
    assert log.open_again().add(1_000).step == head.step + 1


@pytest.mark.parametrize("log", STORAGES, indirect=True)
def test_a_follower_that_slept_begins_at_the_checkpoint(
    log: TestedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commits after its last one are gone: it takes none of their numbers for free."""
    log.add(1)
    sleeper = log.open_again()
    late = following(sleeper.head())
    head = log.sum_up()
    log.storage.delete(f"_delta_log/{version:020}.json" for version in (1, 2, 3))
    later = log.storage.now() + timedelta(hours=2)
    monkeypatch.setattr(type(log.storage), "now", lambda _: later)

    assert not sleeper.append(late, rows(99))
    with pytest.raises(OSError, match=f"{2:020}.json"):
        sleeper.log.follow(1, 3)
    assert (sleeper.head(), sleeper.seqs()) == (head, list(range(1, head.step + 1)))
    assert sleeper.add(head.step + 1).step == log.head().step == head.step + 1


@pytest.mark.parametrize("log", STORAGES, indirect=True)
def test_a_file_of_no_commit_is_swept(log: TestedLog) -> None:
    """So is one whose writer is gone, once it is old enough; all that is read stays."""
    log.sum_up()
    known, before = log.seqs(), set(log.storage.list())
    log.rows_here.written(0, log.rows_here.rows_of(log.files()[:1], log.rows_here.columns()))
    assert len(log.storage.list()) == len(before) + 1

    assert log.rows_here.sweep() == 0
    assert log.rows_here.sweep(Ages(ours=0.0, others=0.0)) == 1
    assert set(log.storage.list()) - {"_writer.lock", "_writer.next"} == before
    assert (log.seqs(), log.open_again().seqs()) == (known, known)


@pytest.mark.parametrize("log", STORAGES, indirect=True)
@pytest.mark.parametrize("left", [0.5, 0.0], ids=["cut", "empty"])
def test_a_newest_commit_that_is_cut_is_an_error(log: TestedLog, left: float) -> None:
    """Who opens the log is told its name, and nobody writes upon it."""
    for seq in (1, 2, 3):
        head = log.add(seq)
    name = f"_delta_log/{log.version():020}.json"
    whole = log.storage.read(name)
    assert whole is not None
    log.storage.put(name, whole[: int(len(whole) * left)])
    before = set(log.storage.list())

    for _ in range(2):
        again = log.open_again()
        with pytest.raises((LogDamagedError, OSError), match=name.rpartition("/")[2]):
            again.append(following(again.head()), rows(4))
    assert set(log.storage.list()) == before

    log.storage.put(name, whole)
    assert (log.open_again().head(), log.open_again().seqs()) == (head, [1, 2, 3])


@pytest.mark.parametrize("log", DISK, indirect=True)
def test_rows_and_commits_of_others_are_no_steps(log: TestedLog) -> None:
    """Rows of no step move no head, and a step follows upon their commit."""
    first, known = log.add(1), log.version()
    assert log.directory is not None
    assert known is not None
    for theirs in (rows(7), rows(8).drop_columns(["_gen"])):
        write_deltalake(log.directory, theirs, mode="append", schema_mode="merge")

    assert [(commit.step, commit.is_step()) for commit, _ in log.follow(known)] == [
        (None, False)
    ] * 2
    assert log.open_again().head() == first
    assert log.add(2).step == 2


@pytest.mark.parametrize("log", ["local"], indirect=True)
@pytest.mark.parametrize("damage", COMMITS.values(), ids=COMMITS)
def test_a_newest_commit_that_is_not_whole_is_named(log: TestedLog, damage: Damage) -> None:
    """Cut, empty, gone or foreign: who opens the log is told, and nobody writes upon it."""
    for seq in (1, 2, 3):
        head = log.add(seq)
    assert log.directory is not None
    named = damage(log.directory)
    before = sorted(log.directory.rglob("*.json"))

    with pytest.raises((LogDamagedError, OSError), match=named):
        log.append(following(head), rows(4))
    with pytest.raises(LogDamagedError, match=named):
        log.open_again().head()
    assert sorted(log.directory.rglob("*.json")) == before


@pytest.mark.parametrize("log", ["local"], indirect=True)
@pytest.mark.parametrize("damage", FILES.values(), ids=FILES)
def test_a_file_that_is_not_whole_is_named(log: TestedLog, damage: Damage) -> None:
    """An older commit or rows that are gone or cut make no shorter log."""
    for seq in (1, 2, 3):
        log.add(seq)
    assert log.directory is not None
    named = damage(log.directory)

    again = log.open_again()
    with pytest.raises((LogDamagedError, OSError), match=named):
        _ = again.head(), again.seqs()


@pytest.mark.parametrize("log", ["local"], indirect=True)
def test_a_changed_bit_is_named_or_changes_nothing(log: TestedLog) -> None:
    """Wherever in a commit or in a file of rows it is."""
    for seq in (1, 2, 3):
        log.add(seq)
    right = (log.head(), log.seqs())
    assert log.directory is not None
    files = [*log.directory.glob("_delta_log/*.json"), *log.directory.glob("_gen=*/*.parquet")]
    for number, file in enumerate(sorted(files)):
        content = file.read_bytes()
        at = (number * 7919) % len(content)
        changed = bytearray(content)
        changed[at] ^= 1 << number % 8
        file.write_bytes(changed)
        again = log.open_again()
        try:
            assert (again.head(), again.seqs()) == right
        except (LogDamagedError, OSError) as exc:
            assert file.name in str(exc)  # noqa: PT017 - or it is read rightly
        file.write_bytes(content)


@pytest.mark.parametrize("kind", ["local", "disk"])
def test_what_was_told_survives_a_kill_at_any_point(kind: str, place: str) -> None:
    """Each step is there whole or not at all, and the log goes on behind it."""
    log = local_log(place, "disk") if kind == "local" else disk_log(place)
    log.create()
    log.add(1)
    for point in range(1, 100):
        before = log.head().step
        told, is_over = kill_at(point, log, place)
        again = log.open_again()
        step = again.head().step
        assert before + told <= step <= before + told + 1
        assert again.seqs() == list(range(1, step + 1))
        assert log.add(step + 1).step == step + 1
        if is_over:
            assert point > 15
            break
    assert is_over
    log.sum_up()
    log.rows_here.sweep(Ages(ours=0.0, others=0.0))
    found = [name for name in log.storage.list() if name.endswith(".parquet")]
    assert len([name for name in found if "_delta_log" not in name]) == len(
        {file.name for file in log.files()}
    )
