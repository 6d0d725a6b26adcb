from __future__ import annotations

import doctest
import os
import re
import shlex
from pathlib import Path

import pytest

from spark_queue import LocalQueue, QueueConfig
from spark_queue.cli import main
from tests.programs import run_python

_DOCS = Path(__file__).parents[3] / "docs"
_PAGES = sorted(page for page in _DOCS.glob("*.md") if ">>> " in page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.stem)
def test_examples_of_a_page_give_what_it_shows(page: Path) -> None:
    """Every example in the documents runs, and prints what stands below it."""
    outcome = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert outcome.attempted > 0
    assert outcome.failed == 0


@pytest.mark.parametrize("name", ["stop-a-tenant", "pace-by-rate"])
def test_commands_of_an_operator_run_as_printed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after the other, on a queue whose items have a tenant."""
    monkeypatch.chdir(tmp_path)
    queue = LocalQueue.create("./files", "tenant string", QueueConfig(fair_key="tenant"))
    queue.enqueue([{"tenant": name} for name in ("big", "big", "acme")])
    page = (_DOCS / f"{name}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    assert len(lines) >= 4
    for line in lines:
        with pytest.raises(SystemExit) as ended:
            main(shlex.split(line, comments=True)[1:])
        assert not ended.value.code, line


def test_pages_with_examples_are_found() -> None:
    """The queues in memory have a page each, with examples to run."""
    names = {page.stem for page in _PAGES}
    assert names >= {
        "blocking-queue",
        "distinct-queue",
        "fair-queue",
        "idempotency",
        "journal",
        "queue-broker",
        "singular-update-queue",
        "testing",
    }


def test_tests_on_the_page_about_tests_pass(tmp_path: Path) -> None:
    """They are a file of pytest as they are printed, one after the other, with the fixtures."""
    page = (_DOCS / "testing.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(?!>>> )(.*?)```", page, re.DOTALL)
    (tmp_path / "test_page.py").write_text("\n\n".join(blocks), encoding="utf-8")
    plugin = ("-p", "spark_queue.testing.plugin", "-p", "no:cacheprovider")
    env = {"PYTHONPATH": str(_DOCS.parent), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    env["PYTEST_ADDOPTS"] = ""

    ran = run_python(
        "-m",
        "pytest",
        *plugin,
        "-W",
        "error",
        "test_page.py",
        cwd=tmp_path,
        env={**os.environ, **env},
    )

    count = sum(block.count("\ndef test_") + block.startswith("def test_") for block in blocks)
    assert count >= 7, page
    assert f"{count} passed" in ran.stdout, ran.stdout
    assert ran.returncode == 0
