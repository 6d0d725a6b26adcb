"""The bundle for Databricks, beside what its service takes and what the command line has."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from spark_queue import __version__
from spark_queue.cli.app import app

_FOLDER = Path(__file__).parents[2] / "conf" / "databricks"

#: What the configuration of a bundle may have, by its reference.
_PARTS = {"bundle", "resources", "sync", "targets", "variables"}


@pytest.fixture(scope="module")
def bundle() -> dict[str, Any]:
    """Return the bundle with values of its variables."""
    text = (_FOLDER / "databricks.yml").read_text("utf-8")
    values = {
        name: str(variable.get("default", "given"))
        for name, variable in yaml.safe_load(text)["variables"].items()
    }
    whole: dict[str, Any] = yaml.safe_load(
        re.sub(r"\$\{var\.(\w+)\}", lambda found: values[found[1]], text)
    )
    return whole


def test_bundle_has_the_parts_that_there_are(bundle: dict[str, Any]) -> None:
    """No part is misspelled, and each variable says what it is."""
    assert set(bundle) == _PARTS
    assert set(bundle["resources"]) == {"jobs", "dashboards"}
    assert all(variable["description"] for variable in bundle["variables"].values())


def test_each_resource_has_a_key_of_its_own(bundle: dict[str, Any]) -> None:
    """A job and a dashboard of one key are refused by the client before anything is deployed."""
    keys = [key for kind in bundle["resources"].values() for key in kind]
    assert len(keys) == len({*keys}) > 1


def test_no_target_is_in_a_folder_that_all_may_write(bundle: dict[str, Any]) -> None:
    """What runs with the rights of the one who deploys is theirs alone to change."""
    roots = [target.get("workspace", {}).get("root_path") for target in bundle["targets"].values()]
    assert any(roots)
    assert not any(root and root.startswith("/Workspace/Shared") for root in roots)


def test_job_is_as_the_service_takes_it(bundle: dict[str, Any]) -> None:
    """Nothing in a job is unknown to the service, or of another type."""
    job = bundle["resources"]["jobs"]["queue"]
    jobs = import_module("databricks.sdk.service.jobs")
    assert jobs.JobSettings.from_dict(job).as_dict() == job


def test_job_fails_where_the_queue_is_not_well(bundle: dict[str, Any]) -> None:
    """Doctor is the last task, and runs after a failure as well."""
    *_, work, doctor = bundle["resources"]["jobs"]["queue"]["tasks"]
    assert doctor["depends_on"] == [{"task_key": work["task_key"]}]
    assert doctor["run_if"] == "ALL_DONE"
    assert doctor["spark_python_task"]["parameters"][0] == "doctor"


def test_each_task_is_a_command(bundle: dict[str, Any]) -> None:
    """The command line takes the words of each task, and the file of a task is there."""
    group = typer.main.get_command(app)
    for task in bundle["resources"]["jobs"]["queue"]["tasks"]:
        program = task["spark_python_task"]
        assert (_FOLDER / program["python_file"]).is_file()
        name, *words = program["parameters"]
        command = group.commands[name]  # type: ignore[attr-defined]
        command.make_context(name, list(words), resilient_parsing=False)


def test_bundle_installs_this_release(bundle: dict[str, Any]) -> None:
    """The wheel is that of the version that the bundle comes with."""
    (environment,) = bundle["resources"]["jobs"]["queue"]["environments"]
    assert any(f"/spark_queue-{__version__}-" in one for one in environment["spec"]["dependencies"])


def test_dashboard_is_as_the_service_takes_it(bundle: dict[str, Any]) -> None:
    """Its file is that of the documents, and nothing else is unknown to the service."""
    board = bundle["resources"]["dashboards"]["report"]
    file = board.pop("file_path")
    assert (_FOLDER / file).is_file()
    dashboards = import_module("databricks.sdk.service.dashboards")
    assert dashboards.Dashboard.from_dict(board).as_dict() == board
