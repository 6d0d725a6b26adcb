"""Commands that look at a configuration, change it, and remove a queue."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from spark_queue import LocalQueue
from spark_queue.cli.commands.setting_commands import config_text
from spark_queue.config import QueueConfig
from spark_queue.config_changes import changes, read_options, read_weights
from spark_queue.delta_queue import DeltaQueue
from spark_queue.errors import InvalidArgumentError, InvalidConfigError, SparkNeededError
from spark_queue.results import Reconfigured
from spark_queue.retry_policy import RetryPolicy

Run = Callable[..., Any]

_BEFORE = QueueConfig(fair_key="tenant", weights={"a": 2.0}, max_in_flight=5)


@pytest.fixture
def queue(fake: Callable[..., Any]) -> Any:
    """Return a queue that has a configuration, and takes note of what it is told."""
    step = Reconfigured(7, before={"max_in_flight": 5}, after={"max_in_flight": 9})
    made = fake(configure=step)
    made.config, made.paused = _BEFORE, False
    return made


def test_settings_are_changed_by_the_options_of_create(run: Run, queue: Any) -> None:
    """Options become settings with their types; what is not named is not touched."""
    ended = run(
        "configure", "./q", "--lease", "60", "--max-in-flight", "none", "--on-failure", "skip",
        "--weight", "a=3", "--json",
    )  # fmt: skip

    assert json.loads(ended.out) == {"step": 7, "settings": {"max_in_flight": 9}}
    ((_, _, told),) = queue.calls
    assert told == {
        "max_in_flight": None,
        "lease": timedelta(minutes=1),
        "on_failure": "skip",
        "weights": {"a": 3.0},
    }


def test_people_see_what_was_and_what_is(run: Run, queue: Any) -> None:
    """Each setting is shown with its old and its new value, and from when it counts."""
    assert queue.config.max_in_flight == 5
    assert run("configure", "./q", "--max-in-flight", "9").out.splitlines() == [
        "max_in_flight: 5 -> 9",
        "in force from step 7 on",
    ]


def test_settings_come_from_a_file_too(run: Run, queue: Any, tmp_path: Path) -> None:
    """A retry policy comes from a file, where an option may stand as well and loses."""
    file = tmp_path / "live.yaml"
    file.write_text("retry: {backoff: fixed, delay: 5}\nlease: 30\n")

    assert run("configure", "./q", "--config", str(file), "--lease", "60").code == 0

    ((_, _, told),) = queue.calls
    assert told == {
        "retry": RetryPolicy(backoff="fixed", delay=timedelta(seconds=5)),
        "lease": timedelta(minutes=1),
    }


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ((), "no setting is given"),
        (("--max-losses", "few"), "max_losses is 'few': it must be a whole number or none"),
        (("--max-losses", "0"), "max_losses is 0"),
        (("--weight", "b"), "weight is 'b': give it as KEY=WEIGHT"),
        (("--weight", "b=0"), "weights['b'] is 0.0"),
        (("--on-failure", "stop"), "on_failure is 'stop'"),
    ],
)
def test_a_wrong_setting_changes_nothing(
    run: Run, queue: Any, options: tuple[str, ...], why: str
) -> None:
    """What is wrong is named, and ends the command with the code of wrong usage."""
    ended = run("configure", "./q", *options)

    assert (ended.code, queue.calls) == (2, [])
    assert why in ended.err


@pytest.mark.parametrize(
    ("asked", "why"),
    [({"leese": 3}, "did you mean 'lease'"), ({"retry": {"delai": 1}}, "did you mean 'delay'")],
)
def test_an_unknown_setting_of_a_file_is_named(asked: dict[str, Any], why: str) -> None:
    """A name that is none is refused, with the one that was meant."""
    with pytest.raises(InvalidConfigError, match=why):
        changes(_BEFORE, asked)


def test_what_is_fixed_may_be_named_as_it_is() -> None:
    """A whole configuration can be given back: what is fixed counts where it would change."""
    whole = _BEFORE.to_dict()

    assert "fair_key" not in changes(_BEFORE, whole)
    assert changes(_BEFORE, {"fair_key": "path"}) == {"fair_key": "path"}


def test_configuration_is_a_file_for_create() -> None:
    """What is shown is YAML that makes the same configuration again."""
    text = config_text("/q", "path string", _BEFORE.to_dict())

    assert QueueConfig.from_dict(yaml.safe_load(text)) == _BEFORE
    assert text.index("fair_key") < text.index("May be changed") < text.index("max_in_flight")


def test_config_shows_columns_and_settings(run: Run, tmp_path: Path) -> None:
    """The configuration comes with the columns of an item, and whether the queue is paused."""
    place = str(tmp_path / "q")
    LocalQueue.create(place, "path string, tenant string", _BEFORE).pause()

    told = json.loads(run("config", place, "--engine", "local", "--json").out)

    assert (told["schema"], told["paused"]) == ("path string, tenant string", True)
    assert told["config"]["max_in_flight"] == 5
    shown = run("config", place, "--engine", "local").out
    assert "# Columns: path string, tenant string" in shown


def test_a_key_may_hold_the_sign_of_equality() -> None:
    """The last ``=`` parts a key from its weight."""
    assert read_weights(["a=b=2"]) == {"a=b": 2.0}
    assert read_weights([]) is None


@pytest.mark.parametrize("text", ["=2", "b=", "b"])
def test_a_weight_without_key_or_number_is_refused(text: str) -> None:
    """Both parts must be there."""
    with pytest.raises(InvalidArgumentError, match="KEY=WEIGHT"):
        read_weights([text])


def test_options_that_were_not_given_say_nothing() -> None:
    """Only what was given counts, and ``none`` is a value."""
    options = {"max_attempts": "none", "max_losses": "3", "lease": None}

    assert read_options(options) == {"max_attempts": None, "max_losses": 3}


def test_a_queue_is_removed_where_that_is_meant(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """``drop`` needs a yes; without one, and nobody to ask, the queue stays."""
    dropped: list[str] = []
    monkeypatch.setattr(DeltaQueue, "drop", lambda _spark, place, **_options: dropped.append(place))

    refused = run("drop", "/q")
    assert (refused.code, dropped) == (2, [])
    assert "say --yes" in refused.err

    assert json.loads(run("drop", "/q", "--yes", "--json").out) == {"dropped": "/q"}
    assert dropped == ["/q"]


@pytest.fixture
def tenants(tmp_path: Path) -> str:
    """Make a queue with items of two tenants; return its path."""
    path = str(tmp_path / "q")
    queue = LocalQueue.create(path, "id string, t string", QueueConfig(fair_key="t"))
    queue.enqueue([{"id": "1", "t": "acme"}, {"id": "2", "t": "beta"}, {"id": "3", "t": None}])
    return path


def test_a_weight_of_an_unknown_tenant_is_warned_of(run: Run, tenants: str) -> None:
    """It is set, as the tenant may come later; a key that items have, or a yes, is not told of."""
    ended = run(
        "configure", "--engine", "local", tenants, "--weight", "acem=2", "--weight", "zzz=3"
    )

    assert ended.code == 0
    assert ended.err == (
        "spark-queue: warning: no item has the fair key 'acem'; did you mean 'acme'? Its weight is "
        "set all the same.\n"
        "spark-queue: warning: no item has the fair key 'zzz'. Its weight is set all the same.\n"
    )
    assert LocalQueue.open(tenants).config.weights == {"acem": 2.0, "zzz": 3.0}
    for words in (["acem=5"], ["beta=2"], ["new=2", "--yes"]):
        ended = run("configure", "--engine", "local", tenants, "--weight", *words)
        assert (ended.code, ended.err) == (0, "")


@pytest.mark.parametrize("answer", ["n", "y"])
def test_a_weight_of_an_unknown_tenant_is_asked_about(
    run: Run, tenants: str, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    """On a terminal nothing is changed without a yes."""
    said = io.StringIO(f"{answer}\n")
    monkeypatch.setattr(said, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", said)

    ended = run("configure", "--engine", "local", tenants, "--weight", "acem=2")

    question = "no item has the fair key 'acem'; did you mean 'acme'? Set the weight all the same?"
    assert question in ended.err
    assert (ended.code, LocalQueue.open(tenants).config.weights) == {
        "y": (0, {"acem": 2.0}),
        "n": (2, {}),
    }[answer]
    assert ("say --yes" in ended.err) == (answer == "n")


def test_an_empty_queue_has_no_tenants_to_compare(run: Run, tmp_path: Path) -> None:
    """A weight that is set before the first item is not told of."""
    path = str(tmp_path / "q")
    LocalQueue.create(path, "id string, t string", QueueConfig(fair_key="t"))
    assert run("configure", "--engine", "local", path, "--weight", "acme=2").err == ""


def test_tenants_that_only_spark_tells_are_not_asked_for(
    run: Run, tenants: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weight is set without a comparison: no session is started for that."""

    def refuse(*_: object) -> None:
        raise SparkNeededError("to count", "the tables are large")

    monkeypatch.setattr(LocalQueue, "stats", refuse)
    ended = run("configure", "--engine", "local", tenants, "--weight", "acem=2")
    assert (ended.code, ended.err) == (0, "")
    assert LocalQueue.open(tenants).config.weights == {"acem": 2.0}
