"""Checksums of commits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import spark_queue
from spark_queue.errors import FileDamagedError
from spark_queue.local_queue import LocalQueue
from spark_queue.log.delta.integrity import require_seal


def test_each_changed_bit_of_a_commit_is_noticed(tmp_path: Path) -> None:
    """Whatever is changed behind the checksum, it is that of another text."""
    queue = LocalQueue.create(tmp_path / "queue", "id string", durability="process")
    queue.enqueue({"id": "a"})
    commit = max((tmp_path / "queue" / "queue" / "_delta_log").glob("*.json"))
    written = commit.read_bytes()
    require_seal(written.decode())

    for at in range(len('{"commitInfo":{"checksum":"01234567"'), len(written)):
        changed = bytearray(written)
        changed[at] ^= 4
        with pytest.raises(ValueError, match="checksum"):
            require_seal(changed.decode())


def test_a_digit_of_a_commit_is_noticed_before_it_is_believed(tmp_path: Path) -> None:
    """Who opens the queue learns which commit it is, whatever deltalake makes of it."""
    queue = LocalQueue.create(tmp_path / "queue", "id string", durability="process")
    queue.enqueue({"id": "a"})
    queue.enqueue({"id": "b"})
    queue.close()
    commit = sorted((tmp_path / "queue" / "queue" / "_delta_log").glob("*.json"))[1]
    text = commit.read_text()
    commit.write_text(text.replace('"_gen":"0"', '"_gen":"8"'))
    assert commit.read_text() != text

    with pytest.raises(FileDamagedError, match=commit.name):
        spark_queue.open(tmp_path / "queue").status()


def test_a_commit_of_another_program_is_believed() -> None:
    """What has no checksum is read as it is."""
    require_seal(json.dumps({"commitInfo": {"operation": "WRITE"}}) + "\n")
    require_seal(json.dumps({"protocol": {"minReaderVersion": 1}}) + "\n")
