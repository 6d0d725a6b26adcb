"""A setting of a queue is one row, and each face shows it."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from spark_queue import LocalQueue, QueueConfig
from spark_queue.cli.commands.setting_commands import LiveOptions
from spark_queue.config import LIVE_SETTINGS, SETTINGS, Setting
from spark_queue.serve.verbs import VERBS
from spark_queue.sql.catalogue import SETTING_COLUMNS, setting_values
from tests.unit.docs import settings_page

_LIVE = [row for row in SETTINGS if row.is_live]


def test_each_field_of_a_configuration_is_a_row() -> None:
    """Rows are in the order of the fields, and say what is live."""
    assert [row.name for row in SETTINGS] == [one.name for one in fields(QueueConfig)]
    assert {row.name for row in SETTINGS if row.is_live} == LIVE_SETTINGS


def test_each_row_takes_its_default() -> None:
    """The default is a value of its setting."""
    for row in SETTINGS:
        row.check(row.default)


@pytest.mark.parametrize("row", _LIVE, ids=lambda row: row.name)
def test_a_live_setting_is_an_option(row: Setting) -> None:
    """But for a policy, which takes a file, and one weight, limit or rate at a time."""
    names = {one.name for one in fields(LiveOptions)}  # type: ignore[arg-type]
    one_by_one = {"weights": "weight", "limits": "limit", "rates": "rate"}
    assert one_by_one.get(row.name, row.name) in names or not row.is_line


@pytest.mark.parametrize("row", _LIVE, ids=lambda row: row.name)
def test_a_live_setting_is_a_field_of_a_form(row: Setting) -> None:
    """But for a policy; its label says what the option says."""
    shown = {one.name: one.label for one in VERBS["configure"].fields(QueueConfig())}
    assert (
        row.kind in {"weights", "rules"} or not row.is_line or shown[row.name].startswith(row.says)
    )


def test_sql_is_asked_with_the_rows_that_say_so() -> None:
    """Each has a column and a value."""
    values = setting_values(QueueConfig(group_key="k", group_limit=2, max_losses=None))
    assert list(values) == [name for name, _ in SETTING_COLUMNS]
    assert (values["group_limit"], values["max_losses"], values["blocking"]) == (2, None, True)


def test_the_page_and_the_example_say_what_the_rows_say() -> None:
    """``python -m tests.unit.docs.settings_page`` writes both."""
    assert settings_page.PAGE.read_text() == settings_page.page()
    assert settings_page.EXAMPLE.read_text() == settings_page.example()


def test_the_example_creates_a_queue(tmp_path: Path) -> None:
    """Under the columns that its first lines name."""
    plain = yaml.safe_load(settings_page.EXAMPLE.read_text())
    columns = "path string, size bigint, tenant string, directory string, urgency int"
    queue = LocalQueue.create(str(tmp_path / "q"), columns, QueueConfig.from_dict(plain))
    assert (queue.config.max_losses, queue.config.weights["acme"]) == (3, 3.0)


def test_a_newer_setting_is_not_written_to_an_older_queue(tmp_path: Path) -> None:
    """Releases that read the older format do not know its name."""
    queue = LocalQueue.create(str(tmp_path / "q"), "id string")
    row = next(row for row in SETTINGS if row.since > 1)
    settings = queue._store.settings(queue._store.status_head())
    assert row.name in settings.to_json()
    older = type(settings)(config=settings.config, format=row.since - 1)
    assert row.name not in older.to_json()
