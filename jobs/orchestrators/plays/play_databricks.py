"""The bundle for Databricks beside its client's types; see orchestrators.py, which runs this."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml
from databricks.bundles.jobs import Job
from playing import PROGRAMS, expect, play_parts

_BUNDLE = PROGRAMS.parents[1] / "conf" / "databricks" / "databricks.yml"


def play_job(place: Path) -> None:
    """Hold the job of the bundle against the types of the client, which refuse what they lack."""
    del place
    job = yaml.safe_load(_BUNDLE.read_text("utf-8"))["resources"]["jobs"]["queue"]
    expect(Job.from_dict(job).as_dict(), job)
    for task in job["tasks"]:
        task["max_retires"] = task.pop("max_retries", 0)
    try:
        Job.from_dict(job)
    except ValueError as exc:
        expect("max_retires" in str(exc), True)
    else:
        raise AssertionError("a word that no task has is taken")


PARTS = {"the job of the bundle is of the client's types": play_job}

if __name__ == "__main__":
    play_parts(PARTS, sys.argv[1:])
