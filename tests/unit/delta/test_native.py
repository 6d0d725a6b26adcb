"""Steps appended without Spark: what is on the disk when, and what others read of them."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Schema, write_deltalake

from spark_queue.errors import InvalidArgumentError
from spark_queue.log import maintenance
from spark_queue.log.delta_log import DeltaLog
from spark_queue.log.disk import fsync as fsyncs
from spark_queue.log.disk.fsync import sync_commits
from spark_queue.log.disk.open_table import OpenTable
from spark_queue.log.disk.row_files import write_file
from spark_queue.log.heads import StatusHead, following
from spark_queue.log.schema import SKIPPING_COLUMNS, STATUS_COLUMNS
from spark_queue.log.spark.spark_types import struct_of

_AT = datetime(2026, 1, 2, 3, 4, 5, 678901, timezone.utc)


def _log(directory: Path, **properties: str) -> DeltaLog[Any]:
    """Return an empty log."""
    settings = {"delta.dataSkippingStatsColumns": SKIPPING_COLUMNS} | properties
    schema = Schema.from_json(struct_of(STATUS_COLUMNS).json())
    DeltaTable.create(str(directory), schema, partition_by=["_gen"], configuration=settings)
    return DeltaLog.at(directory)


def _rows(seq: int, gen: int = 0) -> pa.Table:
    return pa.table(
        {
            "_gen": pa.array([gen], pa.int32()),
            "_kind": ["item"],
            "_seq": [seq],
            "_round": [seq + 0.5],
            "_available_at": pa.array([_AT], pa.timestamp("us", "UTC")),
        }
    )


def _large(seq: int) -> pa.Table:
    """Return a row that no redo file takes."""
    return _rows(seq).append_column("_body", pa.array([secrets.token_hex(200_000)]))


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Return the calls that force something to the disk or make it visible, as they come."""
    calls: list[tuple[str, str]] = []

    def noted(name: str, path_of: Callable[..., str]) -> None:
        real = getattr(os, name)

        def call(*args: Any, **options: Any) -> Any:
            calls.append((name, path_of(*args)))
            return real(*args, **options)

        monkeypatch.setattr(os, name, call)

    for name in ("fsync", "fdatasync"):
        noted(name, lambda fd: str(Path(f"/proc/self/fd/{fd}").readlink()))
    noted("link", lambda _, new: str(new))
    return calls


# rule: order of forcing
def test_all_is_on_the_disk_before_a_step_is_seen(
    tmp_path: Path, told: list[tuple[str, str]]
) -> None:
    """Files, their names, and the commit's content come before its name; then that is forced.

    Of a small step it is one file that has all of that.
    """
    log, first = _log(tmp_path), following(StatusHead())
    assert log.commit(first, _rows(1))
    told.clear()
    small, large = following(first), following(following(first))
    assert log.commit(small, _rows(2))
    commit = tmp_path / "_delta_log" / f"{2:020}.json"
    assert told == [("fdatasync", str(tmp_path / "_redo")), ("link", str(commit))]
    told.clear()
    there = {*tmp_path.glob("_gen=*/*.parquet")}
    assert log.commit(large, _large(3))
    names = [(call, Path(path)) for call, path in told]
    seen = names.index(("link", tmp_path / "_delta_log" / f"{3:020}.json"))
    files = sorted({*tmp_path.glob("_gen=*/*.parquet")} - there)
    assert len(files) == 2
    before = [path for _, path in names[:seen]]
    assert {*files, *(file.parent for file in files)} <= {*before}
    for file in files:
        assert before.index(file) < before.index(file.parent)
    assert [path.parent.name for path in before if path.suffix == ".tmp"] == ["_delta_log"]
    assert names[seen + 1 :] == [("fsync", tmp_path / "_delta_log")]


def test_files_are_replaced_as_safely_as_others_promised(
    tmp_path: Path, told: list[tuple[str, str]]
) -> None:
    """A process that has made no step of a log does not know that less was promised."""
    writer, head = _log(tmp_path), following(StatusHead())
    assert writer.commit(head, _rows(1))
    vars(fsyncs)["_forced"].clear()
    (file,) = [file for file in writer.files() if file.gen == 0]

    for log, is_forced in ((DeltaLog.at(tmp_path), True), (writer, False)):
        if not is_forced:
            head = following(head)
            assert log.commit(head, None, is_synced=False)
        add = log.written(0, _rows(1))
        told.clear()
        assert log.replace([file], [add], takes_away=False)
        (file,) = [file for file in log.files() if file.gen == 0]
        linked = next(at for at, (call, _) in enumerate(told) if call == "link")
        forced = [Path(path).suffix for call, path in told[:linked] if call == "fsync"]
        assert (".tmp" in forced, told[linked + 1 :] != []) == (is_forced, is_forced)


def test_a_new_column_is_on_the_disk_before_it_is_seen(
    tmp_path: Path, told: list[tuple[str, str]]
) -> None:
    """So a power cut leaves no commit without content, and other readers know the column."""
    log = _log(tmp_path)
    assert log.commit(following(StatusHead()), _rows(1))
    told.clear()
    log.add_columns([{"name": "_more", "type": "string", "nullable": True, "metadata": {}}])
    seen = told.index(("link", str(tmp_path / "_delta_log" / f"{2:020}.json")))
    assert [Path(path).suffix for call, path in told[:seen]][-1] == ".tmp"
    assert told[seen + 1] == ("fsync", str(tmp_path / "_delta_log"))
    table = DeltaTable(str(tmp_path))
    assert table.to_pyarrow_table()["_more"].to_pylist() == [None, None]
    assert table.metadata().partition_columns == ["_gen"]


def test_a_step_of_less_promise_forces_nothing(tmp_path: Path, told: list[tuple[str, str]]) -> None:
    """Who asks for no more than the process survives pays for no more."""
    log = _log(tmp_path)
    told.clear()
    assert log.commit(following(StatusHead()), _rows(1), is_synced=False)
    assert [call for call, _ in told] == ["link"]


def test_a_commit_of_others_is_forced_with_its_files(
    tmp_path: Path, told: list[tuple[str, str]]
) -> None:
    """What Spark or another library has committed is on the disk before anyone builds on it."""
    _log(tmp_path)
    write_deltalake(str(tmp_path), DeltaTable(str(tmp_path)).to_pyarrow_table(), mode="append")
    table = pa.table({"_gen": pa.array([3], pa.int32()), "_seq": [7]})
    write_deltalake(str(tmp_path), table, mode="append", schema_mode="merge")
    told.clear()
    sync_commits(tmp_path)
    forced = [Path(path) for _, path in told]
    (file,) = tmp_path.glob("_gen=3/*.parquet")
    log = tmp_path / "_delta_log"
    folders = {file.parent, tmp_path, tmp_path.parent, log}
    assert set(forced) == {file, *log.glob("*.json"), *folders}
    told.clear()
    sync_commits(tmp_path)
    assert {path for _, path in told} <= {str(folder) for folder in folders}


# rule: order of forcing
def test_what_a_step_stands_on_is_forced_before_it(
    tmp_path: Path, told: list[tuple[str, str]]
) -> None:
    """A step that survives a power cut does not lose one of less promise that it follows."""
    log, first = _log(tmp_path), following(StatusHead())
    assert log.commit(first, _rows(1), is_synced=False)
    files = {str(file) for file in tmp_path.glob("_gen=*/*.parquet")}
    told.clear()
    assert log.commit(following(first), _rows(2))
    linked = next(at for at, (call, _) in enumerate(told) if call == "link")
    before = {path for _, path in told[:linked]}
    commits = {str(tmp_path / "_delta_log" / f"{version:020}.json") for version in (0, 1)}
    assert files | commits <= before


@pytest.mark.parametrize("is_cleaned", [False, True])
def test_what_a_checkpoint_sums_up_is_forced_before_a_step_that_stands_on_it(
    tmp_path: Path,
    told: list[tuple[str, str]],
    monkeypatch: pytest.MonkeyPatch,
    is_cleaned: bool,  # noqa: FBT001
) -> None:
    """Another process knows from the table what was forced, and what was not."""
    log, first = _log(tmp_path, **{"delta.checkpointInterval": "2"}), following(StatusHead())
    assert log.commit(first, _rows(1))
    second, third = following(first), following(following(first))
    assert log.commit(second, _rows(2), is_synced=False)
    assert log.commit(third, _rows(3), is_synced=False)
    assert log.sum_up()
    commits = [tmp_path / "_delta_log" / f"{version:020}.json" for version in range(4)]
    files = {
        str(file) for file in tmp_path.glob("_gen=*/*.parquet") if not _is_in(commits[1], file)
    }
    for commit in commits[:3] if is_cleaned else ():
        commit.unlink()
    vars(fsyncs)["_forced"].clear()
    told.clear()
    monkeypatch.setattr(os, "sync", lambda: told.append(("sync", "")))
    assert DeltaLog.at(tmp_path).commit(following(third), _rows(4))
    linked = next(at for at, (call, _) in enumerate(told) if call == "link")
    before = {path for call, path in told[:linked] if call != "sync"}
    assert ("sync" in dict(told[:linked])) == is_cleaned
    if not is_cleaned:
        assert files | {str(commit) for commit in commits[2:]} <= before
        # What was forced once is not forced by every process that begins.
        assert not before & {str(commit) for commit in commits[:2]}
    vars(fsyncs)["_forced"].clear()
    told.clear()
    assert DeltaLog.at(tmp_path).commit(following(following(third)), _rows(5))
    assert [call for call, path in told if "_delta_log" in path or call == "sync"] == ["link"]


def test_a_commit_that_a_list_lacks_is_forced(
    tmp_path: Path, told: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory is listed while others commit, and may show the later of two commits alone."""
    log, head = _log(tmp_path), StatusHead()
    for seq in range(1, 4):
        head = following(head)
        assert log.commit(head, _rows(seq), is_synced=False)
    lacks, listed = f"{2:020}.json", os.listdir
    monkeypatch.setattr(os, "listdir", lambda at: [one for one in listed(at) if one != lacks])
    monkeypatch.setattr(os, "sync", lambda: told.append(("sync", "")))
    told.clear()
    sync_commits(tmp_path)
    assert told.count(("sync", "")) == 1


def test_a_copy_of_a_table_is_forced_before_a_step_that_stands_on_it(
    tmp_path: Path, told: list[tuple[str, str]]
) -> None:
    """As one that a backup was put back from: what the first one knew is not true of it."""
    log, first = _log(tmp_path / "table"), following(StatusHead())
    assert log.commit(first, _rows(1))
    assert log.commit(following(first), _large(2))
    copy = shutil.copytree(tmp_path / "table", tmp_path / "copy")
    told.clear()
    assert DeltaLog.at(copy).commit(following(following(first)), _rows(3))
    linked = next(at for at, (call, _) in enumerate(told) if call == "link")
    commits = {str(copy / "_delta_log" / f"{version:020}.json") for version in (0, 2)}
    assert commits <= {path for _, path in told[:linked]}


def _is_in(commit: Path, file: Path) -> bool:
    return file.name in commit.read_text()


def test_a_failure_after_the_commit_is_told_where_it_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step that is there, and perhaps not on the disk, is not called done."""
    log, head = _log(tmp_path), following(StatusHead())
    assert log.commit(head, _rows(1))
    real, link, linked = os.fsync, os.link, []

    def note_link(old: Path, new: Path) -> None:
        link(old, new)
        linked.append(new)

    def broken(fd: int) -> None:
        if linked:
            raise OSError(5, "Input/output error")
        real(fd)

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", note_link)
        patch.setattr(os, "fsync", broken)
        with pytest.raises(OSError, match="Input/output"):
            log.commit(following(head), _large(2))
    assert DeltaLog.at(tmp_path).commit(following(following(head)), _rows(3))


def test_a_table_that_asks_for_more_is_left_to_others(tmp_path: Path) -> None:
    """What a table has become since it was opened counts: its columns, and its rules."""
    log = _log(tmp_path)
    assert log.is_readable()
    assert log.commit(head := following(StatusHead()), None)
    more = pa.table({"_gen": pa.array([3], pa.int32()), "more": ["x"]})
    write_deltalake(str(tmp_path), more, mode="append", schema_mode="merge")
    with_more = _rows(2).append_column("more", pa.array(["y"]))
    assert log.commit(following(head), with_more)
    assert set(log.rows_of(log.files(), ["more"])["more"].to_pylist()) == {"x", "y", None}
    DeltaTable(str(tmp_path)).alter.add_constraint({"some": "_seq > 0 OR _seq IS NULL"})
    assert not log.is_readable()
    with pytest.raises(InvalidArgumentError, match=r"delta\.constraints\.some"):
        log.require_appends()


def test_old_commits_are_kept_where_the_table_says_so(tmp_path: Path) -> None:
    """A checkpoint removes nothing from a log that is to be kept."""
    kept = {
        "delta.checkpointInterval": "2",
        "delta.enableExpiredLogCleanup": "false",
        "delta.logRetentionDuration": "interval 0 days",
    }
    log, head = _log(tmp_path, **kept), StatusHead()
    for _ in range(4):
        head = following(head)
        assert log.commit(head, None, is_synced=False)
        assert log.sum_up() == (head.step % 2 == 0)
    assert len(list((tmp_path / "_delta_log").glob("*.json"))) == 5


def test_a_checkpoint_is_on_the_disk_before_it_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut leaves none without content, which a reader would trust; nor a pointer to it."""
    log, head = _log(tmp_path, **{"delta.checkpointInterval": "2"}), StatusHead()
    for _ in range(2):
        head = following(head)
        assert log.commit(head, None)
    folder, real = tmp_path / "_delta_log", os.fsync
    seen: list[tuple[str, set[str]]] = []

    def fsync(file: int) -> None:
        path = Path(f"/proc/self/fd/{file}").readlink()
        kind = path.suffix or path.name
        seen.append((kind, {one.name for one in folder.glob("*checkpoint*")}))
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)
    assert log.sum_up()

    file, pointer = f"{2:020}.checkpoint.parquet", "_last_checkpoint"
    assert seen == [
        (".tmp", set()),
        ("_delta_log", {file}),
        (".tmp", {file}),
        ("_delta_log", {file, pointer}),
    ]
    assert {path.name for path in folder.iterdir()} >= {file, pointer}
    assert DeltaTable(str(tmp_path)).version() == 2
    assert DeltaLog.at(tmp_path).commit(following(head), _rows(1))


def test_nothing_is_seen_of_a_step_whose_files_cannot_be_forced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fails before the commit leaves the log as it was, and the step is free."""
    log, head = _log(tmp_path), following(StatusHead())

    def broken(_: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        with pytest.raises(OSError, match="Input/output"):
            log.commit(head, _rows(1))
    assert DeltaTable(str(tmp_path)).version() == 0
    assert log.commit(head, _rows(1))
    assert set(log.rows_of(log.files(), ["_seq"])["_seq"].to_pylist()) == {1, None}


def test_a_step_is_forced_in_a_child_that_was_forked(
    tmp_path: Path, told: list[tuple[str, str]]
) -> None:
    """Who forces files beside each other has no threads in a child: it begins some of its own."""
    log, head = _log(tmp_path), following(StatusHead())
    assert log.commit(head, _rows(1))
    told.clear()
    child = os.fork()
    if not child:
        made = False
        try:
            made = log.commit(following(head), _large(2))
        finally:
            # Whatever came of it: what runs the tests goes on in the parent only.
            os._exit(0 if made and len(told) == 7 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_version_is_never_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that comes between the look at the log and ours stays, and ours is lost."""
    ours, theirs = _log(tmp_path), DeltaLog.at(tmp_path)
    assert ours.commit(following(StatusHead()), None)
    head = following(StatusHead(step=1))
    assert theirs.commit(following(StatusHead(step=1)), _rows(1))
    look, looks = OpenTable.look, iter([lambda _: None])
    with monkeypatch.context() as patch:
        patch.setattr(OpenTable, "look", lambda table: next(looks, look)(table))  # noqa: PLW0108
        assert not ours.commit(head, _rows(2))
    assert list(filter(None, ours.rows_of(ours.files(), ["_seq"])["_seq"].to_pylist())) == [1]


def test_others_read_what_was_appended(tmp_path: Path) -> None:
    """Rows, statistics, transaction and token are those that any writer of the format leaves."""
    log, head = _log(tmp_path), following(StatusHead())
    assert log.commit(head, pa.concat_tables([_rows(4), _rows(9)]))
    table = DeltaTable(str(tmp_path))
    assert table.transaction_version("spark_queue") == 1
    assert table.history(1)[0]["userMetadata"] == head.token
    adds = {add["partition._gen"]: add for add in _adds(table)}
    assert (adds[0]["num_records"], adds[-1]["num_records"]) == (2, 1)
    assert (adds[0]["min._seq"], adds[0]["max._round"]) == (4, 9.5)
    assert adds[0]["null_count._priority"] == 2
    assert str(adds[0]["min._available_at"]).startswith("2026-01-02 03:04:05.678")
    rows = table.to_pyarrow_table(columns=["_seq", "_available_at"], filters=[("_gen", "=", 0)])
    assert rows.to_pylist() == [
        {"_seq": 4, "_available_at": _AT},
        {"_seq": 9, "_available_at": _AT},
    ]
    assert [file.rows for file in log.files() if file.may_have("_seq", 5, 9)] == [1, 2]


def test_few_rows_are_one_file_for_each_partition(tmp_path: Path) -> None:
    """Rows of partitions in turns are a file each, which says itself only of which steps it is."""
    log, nothing = _log(tmp_path), pa.array([None], pa.int64())
    unnamed = _rows(0).set_column(2, "_seq", nothing)
    assert log.commit(
        following(StatusHead()), pa.concat_tables([_rows(1), _rows(2, 1), unnamed, _rows(3)])
    )
    files = {file.gen: file for file in log.files()}
    known = {gen: (file.rows, file.ranges.get("_seq")) for gen, file in files.items()}
    assert known == {0: (3, (1, 3)), 1: (1, (2, 2)), -1: (1, None)}
    assert log.rows_of([files[0]], ["_seq"])["_seq"].to_pylist() == [1, None, 3]
    for file in files.values():
        group = pq.ParquetFile(tmp_path / file.name).metadata.row_group(0)
        columns = map(group.column, range(group.num_columns))
        assert [c.path_in_schema for c in columns if c.is_stats_set] == ["_step"]


def test_a_log_is_summed_up_now_and_then(tmp_path: Path) -> None:
    """Every so many commits a checkpoint is written, from which the table is read."""
    log, head = _log(tmp_path, **{"delta.checkpointInterval": "4"}), StatusHead()
    for _ in range(9):
        head = following(head)
        assert log.commit(head, _rows(head.step), is_synced=False)
        maintenance.look_after(log)
        assert maintenance.wait(30)
    last = json.loads((tmp_path / "_delta_log" / "_last_checkpoint").read_text())
    assert last["version"] == 8
    assert len(DeltaTable(str(tmp_path)).to_pyarrow_table()) == 18
    assert DeltaLog.at(tmp_path).commit(following(head), None)


def test_values_that_statistics_cannot_hold_are_left_out(tmp_path: Path) -> None:
    """A number without an end, or a long text, bounds nothing; its rows are there all the same."""
    log = _log(tmp_path)
    rows = pa.table(
        {
            "_gen": pa.array([0], pa.int32()),
            "_kind": ["k" * 40],
            "_seq": [1],
            "_round": [float("inf")],
        }
    )
    assert log.commit(following(StatusHead()), rows)
    (add,) = (add for add in _adds(DeltaTable(str(tmp_path))) if add["partition._gen"] == 0)
    assert (add.get("min._kind"), add.get("max._round"), add["max._seq"]) == (None, None, 1)
    assert log.rows_of(log.files(), ["_round"])["_round"].to_pylist().count(float("inf")) == 1


def _adds(table: DeltaTable) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return found


def test_floats_have_no_dictionary(tmp_path: Path) -> None:
    """Spark looks for 0.0 in the dictionary of a column, and skips what has -0.0 alone."""
    columns = {
        "x": pa.array([-0.0, None] * 20),
        "s": pa.array([{"y": -0.0, "text": "a"}] * 40),
        "list": pa.array([[-0.0]] * 40, pa.list_(pa.float32())),
        "map": pa.array([[("key", -0.0)]] * 40, pa.map_(pa.string(), pa.float64())),
        "a.text": pa.array(["a"] * 40),
    }
    path = tmp_path / "rows.parquet"
    assert write_file(str(path), pa.table(columns)) == path.stat().st_size

    group = pq.ParquetFile(path).metadata.row_group(0)
    found = {
        one.path_in_schema: one.has_dictionary_page
        for one in map(group.column, range(group.num_columns))
    }
    assert {name for name, has_one in found.items() if has_one} == {
        "s.text",
        "map.key_value.key",
        "a.text",
    }
    assert len(found) == 7
