"""Files that go with a release, for those who have only the wheel."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spark_queue.cli import main
from spark_queue.cli.commands.extra_files import FILES, SHIPPED

_ROOT = Path(__file__).parents[3]

#: Kept for those who have a checkout: the site, and what plays each Spark, engine and orchestrator.
_OF_A_CHECKOUT = {
    *("conf/mkdocs.yml", "jobs/engines.py", "jobs/environments.py", "jobs/orchestrators.py"),
    *("jobs/engine_list.py", "jobs/engine_tables.py", "jobs/frames.py"),
    *("jobs/versions.py", "jobs/versions_smoke.py"),
}


def _files(directory: Path | str, *options: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["files", str(directory), *options])
    return int(ended.value.code or 0)


def test_they_are_written_as_the_checkout_has_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each stands at its place in the directory, which is made; done twice it is done once."""
    place = tmp_path / "ops" / "queue"

    assert [_files(place), _files(place)] == [0, 0]

    written = {str(file.relative_to(place)) for file in place.rglob("*") if file.is_file()}
    assert written == {*FILES}
    assert all((place / name).read_bytes() == (_ROOT / name).read_bytes() for name in FILES)
    said = capsys.readouterr().out
    assert "jobs/command.py" in said
    assert f"{len(FILES)} files written to " in said


def test_a_file_of_ones_own_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named, and nothing is written."""
    own = tmp_path / "conf" / "alerts.yaml"
    own.parent.mkdir()
    own.write_text("groups: []\n")

    assert _files(tmp_path) == 2

    assert "alerts.yaml' is there and differs" in capsys.readouterr().err
    assert own.read_text() == "groups: []\n"
    assert not (tmp_path / "jobs").exists()


def test_a_place_that_is_no_directory_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names it, in a line."""
    (tmp_path / "ops").write_text("a file")

    assert _files(tmp_path / "ops") == 2
    assert f"{tmp_path}/ops" in capsys.readouterr().err


def test_the_wheel_has_each_of_them() -> None:
    """What the build puts into it is what the command writes."""
    text = (_ROOT / "pyproject.toml").read_text(encoding="utf-8")
    part = text.partition("wheel.force-include]\n")[2].partition("\n\n")[0]

    shipped = dict(re.findall(r'^"(.*)" = "(.*)"$', part, re.MULTILINE))

    assert shipped == {name: f"spark_queue/{SHIPPED}/{name}" for name in FILES}


def test_no_job_and_no_configuration_is_forgotten() -> None:
    """All of ``jobs`` and ``conf`` goes with a release, but for what needs the checkout."""
    there = [*_ROOT.glob("jobs/*.py"), *(one for one in _ROOT.glob("conf/**/*") if one.is_file())]

    assert {str(one.relative_to(_ROOT)) for one in there} - {*FILES} == _OF_A_CHECKOUT
