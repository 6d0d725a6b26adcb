from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark_queue import session
from spark_queue.session import heap, machine_memory

_GIB = 1 << 30


@pytest.mark.parametrize(
    ("memory", "size"),
    [
        (None, None),
        (2 * _GIB, None),
        (4 * _GIB, None),
        (8 * _GIB, "2048m"),
        (24 * _GIB, "6144m"),
        (512 * _GIB, "16384m"),
    ],
)
def test_heap_is_a_share_of_the_memory(memory: int | None, size: str | None) -> None:
    """A quarter of the machine, never below Spark's default, and never beyond 16 GiB."""
    assert heap(memory) == size


def test_memory_of_a_container_is_its_limit(tmp_path: Path) -> None:
    """The smallest limit counts; one that is absent, or says that there is none, does not."""
    named = {"none": "max\n", "wide": f"{1 << 62}\n", "tight": f"{3 * _GIB}\n"}
    for name, text in named.items():
        (tmp_path / name).write_text(text)
    there = [tmp_path / name for name in (*named, "absent")]

    assert machine_memory(there) == min(3 * _GIB, machine_memory([]) or 3 * _GIB)
    assert machine_memory(there[:2]) == machine_memory([])


def test_system_that_does_not_say_has_no_known_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system cannot be asked, nothing is assumed."""
    monkeypatch.delattr(os, "sysconf")

    assert machine_memory([]) is None


def test_local_session_takes_its_heap_from_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The heap is chosen, unless a setting or the environment chose it before."""
    monkeypatch.setattr(session, "machine_memory", lambda: 24 * _GIB)
    monkeypatch.delenv("SPARK_DRIVER_MEMORY", raising=False)
    name = "spark.driver.memory"

    assert session.local_conf({})[name] == "6144m"
    assert session.local_conf({name: "3g"})[name] == "3g"
    monkeypatch.setenv("SPARK_DRIVER_MEMORY", "5g")
    assert name not in session.local_conf({})
