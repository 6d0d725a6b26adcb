from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from spark_queue.cli.commands.admin_commands import read_config
from spark_queue.config import QueueConfig
from spark_queue.errors import InvalidConfigError
from spark_queue.session import STREAMING_CONF, delta_coordinate, with_delta

_CONF = Path(__file__).parents[3] / "conf"


def _file(directory: Path, text: str) -> Path:
    path = directory / "queue.yaml"
    path.write_text(text)
    return path


def test_file_and_options_are_one_configuration(tmp_path: Path) -> None:
    """Options on the command line win over the file, and the rest of the file stays."""
    file = _file(tmp_path, "dedup_key: path\nlease: 60\nretry: {backoff: fixed, delay: 5}\n")

    config = read_config(file, {"lease": 90.0, "fair_key": "tenant"})

    assert (config.dedup_key, config.fair_key, config.group_key) == ("path", "tenant", None)
    assert config.lease == timedelta(seconds=90)
    assert (config.retry.backoff, config.retry.delay) == ("fixed", timedelta(seconds=5))


def test_nothing_given_is_the_default() -> None:
    """A queue needs no configuration; neither does an empty file."""
    assert read_config(None, {}) == QueueConfig()


def test_empty_file_is_the_default(tmp_path: Path) -> None:
    """A file of comments only is a configuration that sets nothing."""
    assert read_config(_file(tmp_path, "# later\n"), {}) == QueueConfig()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("dedup_kee: path", "did you mean 'dedup_key'"),
        ("retry: {delai: 1}", "did you mean 'delay'"),
        ("- path", "must be a mapping"),
        ("1: path", "must be a mapping"),
        ("a: [", "is no YAML"),
        ("group_limit: -1\ngroup_key: a", "group_limit"),
        ("lease: !!python/object:os.system {}", "is no YAML"),
    ],
)
def test_file_that_is_no_configuration_is_refused(tmp_path: Path, text: str, why: str) -> None:
    """What is wrong in a file is said in one line, with the name that was meant."""
    with pytest.raises(InvalidConfigError, match=why) as refused:
        read_config(_file(tmp_path, text), {})

    assert "\n" not in str(refused.value)


def test_missing_file_is_named(tmp_path: Path) -> None:
    """A file that is not there is refused by its name."""
    with pytest.raises(InvalidConfigError, match=r"none.yaml.*No such file"):
        read_config(tmp_path / "none.yaml", {})


def test_example_is_a_configuration_with_every_option() -> None:
    """The example that ships is valid, and leaves no option unexplained."""
    import yaml  # noqa: PLC0415 - for this test only

    example = _CONF / "queue.example.yaml"

    config = read_config(example, {})

    assert yaml.safe_load(example.read_text()).keys() == config.to_dict().keys()


def test_settings_for_spark_submit_are_those_of_a_local_session() -> None:
    """The jar and the hooks that spark-submit is given are those that fit what is installed."""
    lines = (_CONF / "spark-defaults.conf").read_text().splitlines()
    given = dict(line.split(None, 1) for line in lines if line and not line.startswith("#"))
    ours = with_delta({})

    assert given["spark.jars.packages"] == delta_coordinate()
    for name in (
        "spark.sql.extensions",
        "spark.sql.catalog.spark_catalog",
        "spark.sql.session.timeZone",
        "spark.sql.sources.fileCompressionFactor",
        *STREAMING_CONF,
    ):
        assert given[name].strip() == ours[name]
