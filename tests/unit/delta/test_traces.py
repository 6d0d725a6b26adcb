from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_queue.errors import LogDamagedError
from spark_queue.log.delta.completeness import require_end, require_uncut, seen_again, seen_first
from spark_queue.log.delta.integrity import Trace, birth, trace
from spark_queue.log.heads import QueueHead, following, new_token

OURS = "spark_queue"


class _Rows:
    """Stands for a log whose rows end with a step."""

    def __init__(self, step: int) -> None:
        self._head = QueueHead(step=step)

    def head(self, since: int = 0) -> QueueHead | None:
        return self._head if self._head.step >= since else None


def _rows(step: int) -> Any:
    return _Rows(step)


def _log(directory: Path, *steps: int | None) -> Path:
    """Write a log whose versions, from 0 on, commit these steps; None for somebody else's."""
    log = directory / "_delta_log"
    log.mkdir()
    for version, step in enumerate(steps):
        actions: list[dict[str, Any]] = [{"commitInfo": {"operation": "WRITE"}}, {"add": {}}]
        if step is not None:
            actions.insert(1, {"txn": {"appId": OURS, "version": step}})
        _commit(log, version, actions)
    return log


def _commit(log: Path, version: int, actions: list[dict[str, Any]]) -> None:
    lines = [json.dumps(action, separators=(",", ":")) for action in actions]
    (log / f"{version:020}.json").write_text("\n".join(lines))
    (log / f"{version:020}.crc").touch()


def test_the_newest_step_is_found_below_other_commits(tmp_path: Path) -> None:
    """Commits that are no steps, and files that are being written, do not hide the newest step."""
    log = _log(tmp_path, None, 1, 2, None)
    _commit(log, 4, [{"txn": {"appId": "another", "version": 9}}])
    (log / f".{5:020}.json.1234.tmp").touch()
    (log / f"{4:020}.checkpoint.parquet").touch()

    assert trace(tmp_path, OURS) == Trace(2)
    assert trace(tmp_path / "nothing", OURS) == Trace(None)


@pytest.mark.parametrize("left", ["{}.crc", ".{}.json.crc", "{}.checkpoint.parquet"])
def test_a_commit_that_is_gone_is_named_by_what_is_left(tmp_path: Path, left: str) -> None:
    """A checksum or checkpoint of a commit that is not there says that one is missing."""
    log = _log(tmp_path, None, 1)
    (log / left.format(f"{2:020}")).touch()

    assert trace(tmp_path, OURS).missing == f"{2:020}.json"
    with pytest.raises(LogDamagedError, match=r"0002\.json is gone"):
        seen_first("q", "queue", _rows(1), tmp_path, QueueHead(step=1))
    with pytest.raises(LogDamagedError, match=r"0002\.json is gone"):
        require_end("q", "queue", _rows(1), tmp_path, 1)


@pytest.mark.parametrize(
    "left", [b"", b"\n", b'{"commitInfo":{}}\n{"txn":{"appId":"spark_q', b"\0" * 80]
)
def test_a_newest_commit_that_is_not_whole_is_named(tmp_path: Path, left: bytes) -> None:
    """What a power cut leaves of a commit is refused by name, with the way out."""
    log = _log(tmp_path, None, 1)
    (log / f"{2:020}.json").write_bytes(left)

    assert trace(tmp_path, OURS).cut == f"{2:020}.json"
    with pytest.raises(LogDamagedError, match=r"0002\.json is empty, or ends early.*move"):
        require_uncut("q", "queue", tmp_path)
    with pytest.raises(LogDamagedError, match=r"0002\.json is empty, or ends early"):
        require_end("q", "queue", _rows(1), tmp_path, 1)
    (log / f"{2:020}.json").unlink()
    require_uncut("q", "queue", tmp_path)


def test_a_commit_between_others_that_is_gone_or_empty_is_named(tmp_path: Path) -> None:
    """Unless a checkpoint has summed it up: then it may have been cleaned up."""
    log = _log(tmp_path, None, 1, 2, 3)
    middle = log / f"{2:020}.json"

    middle.write_text("")
    with pytest.raises(LogDamagedError, match=f"{middle.name} is empty"):
        require_uncut("q", "queue", tmp_path)
    middle.unlink()
    (log / f"{2:020}.crc").unlink()
    with pytest.raises(LogDamagedError, match=f"{middle.name} is gone"):
        require_uncut("q", "queue", tmp_path)
    (log / f"{2:020}.checkpoint.parquet").touch()
    require_uncut("q", "queue", tmp_path)


def test_a_log_whose_rows_end_too_early_is_damaged(tmp_path: Path) -> None:
    """At first sight rows go as far as the commits, those included that came meanwhile."""
    _log(tmp_path, None, 1, 2)
    before, now = QueueHead(step=1), _rows(2)

    assert seen_first("q", "queue", now, tmp_path, before).step == 2
    with pytest.raises(LogDamagedError, match="step 2 was committed, and its rows end with step 1"):
        seen_first("q", "queue", _rows(1), tmp_path, before)


def test_a_step_follows_only_upon_the_one_before(tmp_path: Path) -> None:
    """What this process has made, and no file names any more, is not written over."""
    _log(tmp_path, None, 1)

    require_end("q", "status", _rows(1), tmp_path, 1)
    with pytest.raises(LogDamagedError, match=r"the status log .* step 2 was"):
        require_end("q", "status", _rows(2), tmp_path, 2)


def test_a_table_that_was_set_back_is_damaged_until_it_is_restored(tmp_path: Path) -> None:
    """After a restore the rows decide: those of an older version are too few."""
    log = _log(tmp_path, None, 1, 2)
    _commit(log, 3, [{"commitInfo": {"operation": "RESTORE"}}, {"add": {}}])

    assert trace(tmp_path, OURS) == Trace(2, was_restored=True)
    require_end("q", "queue", _rows(2), tmp_path, 2)
    with pytest.raises(LogDamagedError, match="rows end with step 1"):
        require_end("q", "queue", _rows(1), tmp_path, 2)


def test_what_was_seen_stays_there() -> None:
    """A log that ends before a step which this process has seen, or has another, is damaged."""
    known = QueueHead(step=3)
    later, other = following(known), replace(known, token=new_token())

    assert seen_again("q", "queue", known, known) is known
    assert seen_again("q", "queue", known, later) is later
    with pytest.raises(LogDamagedError, match="step 3, which is gone"):
        seen_again("q", "queue", known, None)
    with pytest.raises(LogDamagedError, match="another step 3"):
        seen_again("q", "queue", known, other)


def test_a_table_that_is_made_anew_is_another_one(tmp_path: Path) -> None:
    """Of two tables in one place each has a birth of its own; one that is gone has none."""
    _log(tmp_path, None)
    first = birth(tmp_path)
    shutil.rmtree(tmp_path / "_delta_log")

    assert birth(tmp_path) is None
    assert birth(None) is None
    _log(tmp_path, None)
    assert birth(tmp_path) not in (first, None)
