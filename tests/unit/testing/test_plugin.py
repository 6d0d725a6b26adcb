"""pytest finds the fixtures, and pays nothing for those that it does not use."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.programs import run_python

_ROOT = Path(__file__).parents[3]

#: What a run of pytest, or a program, is not to load for the kit alone.
_HEAVY = ("pyspark", "pyarrow", "deltalake", "pandas", "numpy", "typer", "rich")

_TESTS = """
from datetime import timedelta
from spark_queue import LocalQueue, QueueConfig
from spark_queue.testing import assert_done, assert_empty, assert_order, drain

def test_queues_go_by_the_clock_of_the_test(spark_queue_memory, spark_queue_clock):
    first, second = spark_queue_memory("path string"), spark_queue_memory(
        "id long", QueueConfig(dedup_key="id", lease=timedelta(seconds=10)))
    assert isinstance(first, LocalQueue)
    assert first.name != second.name
    second.enqueue([{"id": 1}, {"id": 1}])
    assert second.claim().count == 1
    spark_queue_clock.advance(timedelta(seconds=11))
    assert second.claim().count == 1

def test_a_clock_stands_at_the_beginning(spark_queue_clock):
    assert spark_queue_clock.now().isoformat() == "2026-01-01T00:00:00+00:00"

def test_a_failure_is_shown(spark_queue_memory):
    queue = spark_queue_memory("path string")
    queue.enqueue({"path": "a"})
    assert_done(queue, path="a")
"""


def _run(place: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run Python elsewhere, and not as this run of pytest was asked for."""
    path = os.pathsep.join((str(_ROOT), str(place)))
    whole = {**os.environ, "PYTHONPATH": path, "PYTEST_ADDOPTS": ""}
    return run_python(*args, cwd=place, env=whole)


def test_fixtures_are_there_by_name(tmp_path: Path) -> None:
    """Where the library is installed pytest finds them, and failures say what there is."""
    (tmp_path / "test_users.py").write_text(_TESTS, encoding="utf-8")
    # Installed as pyproject.toml says, and no more of it than that.
    project = (_ROOT / "pyproject.toml").read_text(encoding="utf-8")
    told = project.partition("[project.entry-points.pytest11]\n")[2].partition("\n\n")[0]
    entry = told.replace('"', "")
    installed = tmp_path / "users_environment-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Name: users-environment\nVersion: 1.0\n", encoding="utf-8")
    (installed / "entry_points.txt").write_text(f"[pytest11]\n{entry}\n", encoding="utf-8")

    ran = _run(tmp_path, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:hypothesispytest")

    assert "2 passed" in ran.stdout
    assert "1 failed" in ran.stdout
    assert "AssertionError: wanted at least 1 item done with path='a', found none" in ran.stdout
    assert "assertions.py" not in ran.stdout


@pytest.mark.parametrize(
    ("module", "heavy"),
    [("spark_queue.testing", (*_HEAVY, "pytest")), ("spark_queue.testing.plugin", _HEAVY)],
)
def test_to_load_it_loads_nothing_heavy(
    tmp_path: Path, module: str, heavy: tuple[str, ...]
) -> None:
    """Every run of pytest imports the plugin, and a program may import the kit without pytest."""
    code = f"import sys, {module}; print(sorted(set(sys.modules) & set({heavy})))"

    assert _run(tmp_path, "-c", code).stdout.strip() == "[]"


def test_all_of_the_kit_works_without_spark_and_without_pytest(tmp_path: Path) -> None:
    """Every name is there and a queue works where neither can be imported."""
    code = """
import sys
for name in ("pyspark", "delta", "pytest"):
    sys.modules[name] = None
from spark_queue import testing
for name in testing.__all__:
    assert name in dir(testing)
    getattr(testing, name)
queue = testing.memory_queue("path string", clock=testing.ManualClock())
queue.enqueue({"path": "a"})
print(testing.drain(queue).acked, "deltalake" in sys.modules)
"""
    ran = _run(tmp_path, "-c", code)

    assert (ran.stdout.strip(), ran.stderr) == ("1 False", "")


def test_there_is_nothing_by_another_name() -> None:
    """A name that is none is refused as any module refuses it."""
    from spark_queue import testing  # noqa: PLC0415 - to ask it for what it has not

    with pytest.raises(AttributeError, match="nope"):
        _ = testing.nope
