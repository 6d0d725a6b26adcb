"""Outputs that others made, with features of Delta's: results are appended, or refused by name."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from spark_queue.errors import FileDamagedError, SparkNeededError
from spark_queue.log.delta.table_properties import APPENDED, FEATURES
from spark_queue.log.disk.disk_storage import DiskStorage
from spark_queue.log.output.outputs import ResultTable
from tests.unit.local.conftest import Make

RETURNS = "n bigint"

#: Features that readers have to know, too.
_READ = (
    *("deletionVectors", "typeWidening", "v2Checkpoint", "vacuumProtocolCheck", "timestampNtz"),
    *("columnMapping", "variantType", "variantShredding", "catalogManaged"),
)

#: What others have set beside a feature.
_SET: dict[str, dict[str, str]] = {
    "deletionVectors": {"delta.enableDeletionVectors": "true"},
    "inCommitTimestamp": {"delta.enableInCommitTimestamps": "true"},
    "rowTracking": {"delta.enableRowTracking": "true"},
    "typeWidening": {"delta.enableTypeWidening": "true"},
    "v2Checkpoint": {"delta.checkpointPolicy": "v2"},
}

#: What is left to Spark; no library of Python opens a table of a catalog by its path.
OTHERS = {one.name for one in FEATURES} - APPENDED - {"catalogManaged"}

#: A commit in the year 2070: what comes later says that it does.
_LATER = 3_155_760_000_000


def _commit(table: Path, *actions: Mapping[str, Any]) -> None:
    version = DeltaTable(table).version() + 1
    info = {"commitInfo": {"timestamp": 1, "inCommitTimestamp": _LATER, "operation": "SET"}}
    lines = map(json.dumps, (info, *actions))
    (table / "_delta_log" / f"{version:020}.json").write_text("\n".join(lines) + "\n")


def _turn_on(
    table: Path, *features: str, rows: int = 0, settings: Mapping[str, str] | None = None
) -> None:
    """Turn features on, as a platform does that knows them."""
    read = [name for name in features if name in _READ]
    asked: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 7}
    asked |= {"minReaderVersion": 3, "readerFeatures": read} if read else {}
    known = DeltaTable(table)
    given = {key: value for name in features for key, value in _SET.get(name, {}).items()}
    defined = {
        "id": str(known.metadata().id),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": known.schema().to_json(),
        "partitionColumns": [],
        "configuration": {**known.metadata().configuration, **given, **(settings or {})},
    }
    actions = [{"protocol": {**asked, "writerFeatures": [*features]}}, {"metaData": defined}]
    if "rowTracking" in features:
        said = json.dumps({"rowIdHighWaterMark": rows - 1})
        domain = {"domain": "delta.rowTracking", "configuration": said, "removed": False}
        actions.append({"domainMetadata": domain})
    _commit(table, *actions)


def _actions(table: Path, version: int | None = None) -> list[dict[str, Any]]:
    """Return what a commit of a table says, or the newest one."""
    at = DeltaTable(table).version() if version is None else version
    text = (table / "_delta_log" / f"{at:020}.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Return a table that another library made."""
    marks = {"_seq": pa.array([0], pa.int64()), "_claim_id": ["theirs"]}
    write_deltalake(tmp_path / "out", pa.table({"n": pa.array([0], pa.int64()), **marks}))
    return tmp_path / "out"


@pytest.mark.parametrize("name", sorted(APPENDED))
def test_results_are_appended_beside_a_feature(make: Make, out: Path, name: str) -> None:
    """The table has each result once, also after its log was summed up."""
    features = [name, "domainMetadata"] if name == "rowTracking" else [name]
    _turn_on(out, *features, rows=1, settings={"delta.checkpointInterval": "2"})
    queue = make("n long")
    for number in range(1, 5):
        queue.enqueue({"n": number})
        queue.process(lambda item: {"n": item["n"]}, returns=RETURNS, output=str(out))

    table = DeltaTable(out)
    files = pa.table(table.get_add_actions(flatten=True))
    assert sum(files["num_records"].to_pylist()) == 5
    protocol = table.protocol()
    assert {*(protocol.writer_features or ())} == {*features}
    log = out / "_delta_log"
    assert bool([*log.glob("*.checkpoint.parquet")]) is (name != "v2Checkpoint")


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_other_features_are_refused_by_name(make: Make, out: Path, name: str) -> None:
    """No handler runs, the table stays as it is, and the error names it and the feature."""
    active = {"changeDataFeed": {"delta.enableChangeDataFeed": "true"}}
    active |= {"checkConstraints": {"delta.constraints.known": "n >= 0"}}
    _turn_on(out, name, settings=active.get(name))
    commits = {*out.glob("_delta_log/*")}
    queue = make("n long")
    called: list[object] = []
    queue.enqueue({"n": 1})
    with pytest.raises(SparkNeededError, match=name) as refused:
        queue.process(called.append, returns=RETURNS, output=str(out))
    assert str(out) in str(refused.value)
    assert (called, {*out.glob("_delta_log/*")}) == ([], commits)


def test_the_way_back_leaves_alone_what_turns_nothing_on(make: Make) -> None:
    """A queue's tables have no lists of deleted rows, by a property that is no fault of them."""
    queue = make("n long")
    log = Path(queue.name) / "queue"
    _turn_on(log, "checkConstraints", settings={"delta.constraints.known": "n >= 0"})
    with pytest.raises(SparkNeededError, match=r"back: [^;]* DROP CONSTRAINT known; open"):
        queue.enqueue({"n": 1})


def test_a_commit_says_that_it_is_later_than_the_one_before(make: Make, out: Path) -> None:
    """Whatever the clock says, where a table asks commits when they were made."""
    _turn_on(out, "inCommitTimestamp")
    queue = make("n long")
    queue.enqueue([{"n": 1}, {"n": 2}])
    for _ in range(2):
        queue.process(lambda item: {"n": item["n"]}, returns=RETURNS, output=str(out), limit=1)
    newest = DeltaTable(out).version()
    infos = [_actions(out, version)[0]["commitInfo"] for version in range(1, newest + 1)]
    assert [one["inCommitTimestamp"] for one in infos] == [_LATER + at for at in range(newest)]


@pytest.mark.parametrize("is_summed_up", [False, True])
def test_rows_get_the_next_ids(make: Make, out: Path, *, is_summed_up: bool) -> None:
    """The files of results say where their ids begin, and the log which is the last one."""
    _turn_on(out, "rowTracking", "domainMetadata", rows=1)
    if is_summed_up:
        DeltaTable(out).create_checkpoint()
        for version in (0, 1):
            (out / "_delta_log" / f"{version:020}.json").unlink()
    queue = make("n long")
    found = []
    for count in (2, 3):
        queue.enqueue([{"n": count}] * count)
        queue.process(lambda item: {"n": item["n"]}, returns=RETURNS, output=str(out))
        actions = {name: value for one in _actions(out) for name, value in one.items()}
        version = DeltaTable(out).version()
        assert actions["add"]["defaultRowCommitVersion"] == version
        said = json.loads(actions["domainMetadata"]["configuration"])
        found.append((actions["add"]["baseRowId"], said["rowIdHighWaterMark"]))
    assert found == [(1, 2), (3, 5)]


def test_ids_begin_again_where_the_feature_was_dropped(out: Path) -> None:
    """A domain that was removed counts no ids, whatever its text is."""
    _turn_on(out, "rowTracking", "domainMetadata", rows=1)
    removed = {"domain": "delta.rowTracking", "configuration": "", "removed": True}
    _commit(out, {"domainMetadata": removed})
    ResultTable(DiskStorage(out), is_synced=False).write(DeltaTable(out).to_pyarrow_table(), "mine")
    actions = {name: value for one in _actions(out) for name, value in one.items()}
    said = json.loads(actions["domainMetadata"]["configuration"])
    assert (actions["add"]["baseRowId"], said) == (0, {"rowIdHighWaterMark": 0})


def test_no_id_is_given_where_the_log_does_not_say_the_last_one(out: Path) -> None:
    """The error names the commit that is gone, and nothing is written."""
    _turn_on(out, "rowTracking", "domainMetadata", rows=1)
    _commit(out)
    _commit(out)
    DeltaTable(out).create_checkpoint()
    log = out / "_delta_log"
    for version in (0, 1, 2):
        (log / f"{version:020}.json").unlink()
    checkpoint = log / f"{3:020}.checkpoint.parquet"
    known = pq.read_table(checkpoint)
    pq.write_table(known.drop_columns(["domainMetadata"]), checkpoint)

    table = ResultTable(DiskStorage(out), is_synced=False)
    with pytest.raises(FileDamagedError, match=f"{2:020}.json"):
        table.write(DeltaTable(out).to_pyarrow_table(), "mine")
    assert DeltaTable(out).version() == 3


def test_commits_stay_where_a_table_protects_them(make: Make, out: Path) -> None:
    """It is summed up, and nothing is cleaned up."""
    _turn_on(
        out,
        "checkpointProtection",
        settings={"delta.checkpointInterval": "2", "delta.logRetentionDuration": "interval 0 days"},
    )
    queue = make("n long")
    for number in range(4):
        queue.enqueue({"n": number})
        time.sleep(0.01)
        queue.process(lambda item: {"n": item["n"]}, returns=RETURNS, output=str(out))
    log = out / "_delta_log"
    assert [*log.glob("*.checkpoint.parquet")]
    assert len([*log.glob("0*.json")]) == DeltaTable(out).version() + 1


def test_times_without_a_zone_are_appended_to_a_table_that_has_them(
    make: Make, tmp_path: Path
) -> None:
    """As frames of other libraries often have them; a table with them is not made here."""
    noon = datetime(2026, 3, 1, 12, 0, 0, 5)  # noqa: DTZ001 - it has no zone
    marks = {"_seq": pa.array([0], pa.int64()), "_claim_id": ["theirs"]}
    write_deltalake(tmp_path / "out", pa.table({"at": [noon], **marks}))
    queue = make("n long")
    queue.enqueue({"n": 1})
    queue.process(lambda _: {"at": noon}, returns="at timestamp_ntz", output=f"{tmp_path}/out")
    assert DeltaTable(tmp_path / "out").to_pyarrow_table()["at"].to_pylist() == [noon, noon]
