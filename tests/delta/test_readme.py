from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_queue.queue import DeltaQueue

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROOT = Path(__file__).parents[2]
_README = (_ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.spark
def test_examples_of_the_readme_run(
    spark: SparkSession, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The programs in the README, one after the other, do what their comments say."""
    program = "\n".join(re.findall(r"```python\n(.*?)```", _README, re.DOTALL))

    exec(program.replace('"./', f'"{place}/'), {})  # noqa: S102 - our own program

    said = capsys.readouterr().out.splitlines()
    assert said[0] == "1"
    assert len([line for line in said if "| a/1|" in line or "| b/1|" in line]) == 2
    assert said[-1] == "c/1"
    billing = DeltaQueue.open(spark, f"{place}/files").reader("billing")
    (state,) = billing.status().select("_state").distinct().collect()
    assert state[0] == "acked"
    assert spark.read.format("delta").load(f"{place}/sizes").count() == 1


def test_test_command_of_the_readme_is_what_ci_runs() -> None:
    """CI runs the line that the README tells a reader to run."""
    lines = re.findall(r"^python3 \.ci/bootstrap\.py .*$", _README, re.MULTILINE)
    script = (_ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()

    assert len(lines) == 2
    assert script[-1] == f"exec {lines[1]}"


def test_readme_is_short_and_its_links_lead_somewhere() -> None:
    """The README has at most 150 lines, and every file that it links is there."""
    links = re.findall(r"\]\(((?!http)[^)]+)\)", _README)

    assert len(_README.splitlines()) <= 150
    assert [link for link in links if not (_ROOT / link).exists()] == []
