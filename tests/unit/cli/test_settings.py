"""Commands that look at a configuration, change it, and remove a queue."""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from spark_queue import LocalQueue
from spark_queue.cli.commands.setting_commands import config_text
from spark_queue.config import QueueConfig
from spark_queue.config_changes import (
    FlowTexts,
    changes,
    flow_text,
    new_config,
    read_options,
    read_weights,
)
from spark_queue.delta_queue import DeltaQueue
from spark_queue.errors import (
    InvalidArgumentError,
    InvalidConfigError,
    SettingsChangedError,
    SparkNeededError,
)
from spark_queue.flow import Limit, Rate
from spark_queue.flow_forms import RATES
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
        "spark-queue: warning: no item has the fair key 'acem'; did you mean 'acme'? It is set "
        "all the same.\n"
        "spark-queue: warning: no item has the fair key 'zzz'. It is set all the same.\n"
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

    question = "no item has the fair key 'acem'; did you mean 'acme'? Set it all the same?"
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


@pytest.fixture
def limited(tmp_path: Path) -> str:
    """Make a queue with a limit by tenant, and one by another key; return its path."""
    path = str(tmp_path / "q")
    limits = (Limit(by="t", default=4, overrides={"acme": 9}), Limit(by="id", default=50))
    LocalQueue.create(path, "id string, t string", QueueConfig(fair_key="t", limits=limits))
    return path


def _limits(path: str) -> dict[str, tuple[int | None, Any]]:
    return {one.by: (one.default, one.overrides) for one in LocalQueue.open(path).config.limits}


def _configure(run: Run, path: str, *words: str) -> Any:
    return run("configure", "--engine", "local", path, "--yes", *words)


@pytest.mark.parametrize(
    ("words", "limits"),
    [
        ("--limit t=5", {"t": (5, {"acme": 9}), "id": (50, {})}),
        ("--limit t=none", {"t": (None, {"acme": 9}), "id": (50, {})}),
        ("--limit t=5 --limit id=6", {"t": (5, {"acme": 9}), "id": (6, {})}),
        ("--limit t=5 --limit-of b=0", {"t": (5, {"acme": 9, "b": 0}), "id": (50, {})}),
        ("--limit id=5 --limit-of b=0", {"t": (4, {"acme": 9}), "id": (5, {"b": 0})}),
        ("--limit-of b=unlimited", {"t": (4, {"acme": 9, "b": None}), "id": (50, {})}),
        ("--limit-of acme=none --limit-of x=y=1", {"t": (4, {"x=y": 1}), "id": (50, {})}),
        ("--limit-of id:a:b=7", {"t": (4, {"acme": 9}), "id": (50, {"a:b": 7})}),
        ("--limit-of x:y=7", {"t": (4, {"acme": 9, "x:y": 7}), "id": (50, {})}),
        ("--limit id=5 --limit-of t:b=7", {"t": (4, {"acme": 9, "b": 7}), "id": (5, {})}),
    ],
)
def test_each_number_of_a_limit_is_changed_by_itself(
    run: Run, limited: str, words: str, limits: dict[str, Any]
) -> None:
    """A key belongs to the limit that is named, or the only one, or the one by the fair key."""
    assert _configure(run, limited, *words.split()).code == 0
    assert _limits(limited) == limits


_TENANT = Rate(by="t", limit=100, per=timedelta(minutes=1), overrides={"acme": 9})
_WHOLE = Rate(limit=1000, per=timedelta(seconds=1))


@pytest.fixture
def paced(tmp_path: Path) -> str:
    """Make a queue with a rate by tenant, and one of its own; return its path."""
    path = str(tmp_path / "q")
    LocalQueue.create(
        path, "id string, t string", QueueConfig(fair_key="t", rates=(_TENANT, _WHOLE))
    )
    return path


@pytest.mark.parametrize(
    ("words", "rates"),
    [
        ("--rate t=50", (replace(_TENANT, limit=50), _WHOLE)),
        ("--rate t=50/60s,burst=5", (replace(_TENANT, limit=50, burst=5), _WHOLE)),
        ("--rate t=0.5/1m", (replace(_TENANT, limit=0.5), _WHOLE)),
        ("--rate t=none --rate none", (replace(_TENANT, limit=None), replace(_WHOLE, limit=None))),
        ("--rate 10/s", (_TENANT, replace(_WHOLE, limit=10))),
        ("--rate-of acme=none --rate-of x=y=1", (replace(_TENANT, overrides={"x=y": 1}), _WHOLE)),
        ("--rate-of b=5/60s", (replace(_TENANT, overrides={"acme": 9, "b": 5}), _WHOLE)),
        ("--rate-of t:b=unlimited", (replace(_TENANT, overrides={"acme": 9, "b": None}), _WHOLE)),
    ],
)
def test_each_number_of_a_rate_is_changed_by_itself(
    run: Run, paced: str, words: str, rates: tuple[Rate, ...]
) -> None:
    """The time, the burst and the keys that are not named stay; a dry run writes nothing."""
    assert _configure(run, paced, *words.split(), "--dry-run").code == 0
    assert LocalQueue.open(paced).config.rates == (_TENANT, _WHOLE)
    assert _configure(run, paced, *words.split()).code == 0
    assert LocalQueue.open(paced).config.rates == rates


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("1000/1s", _WHOLE),
        ("0.00002/1s", Rate(limit=2e-5, per=timedelta(seconds=1))),
        (
            "t=1/s,burst=2000000000000000",
            Rate(by="t", limit=1, per=timedelta(seconds=1), burst=2e15),
        ),
        ("if(t = 'a', 1, 2)=3/2h", Rate(by="if(t = 'a', 1, 2)", limit=3, per=timedelta(hours=2))),
        ("t=9/60,burst=2", Rate(by="t", limit=9, per=timedelta(minutes=1), burst=2)),
        (
            "t=9/d,burst=20,units=length(id) + 1",
            Rate(by="t", limit=9, per=timedelta(days=1), burst=20, units="length(id) + 1"),
        ),
    ],
)
def test_a_rate_is_told_as_it_is_read(text: str, rate: Rate) -> None:
    """A time has a unit, or is seconds; what an item counts comes last."""
    made = new_config({"rates": FlowTexts(RATES, [text])})
    assert made.rates == (rate,)
    told = shlex.split(flow_text(RATES, made.to_dict()["rates"]))
    assert FlowTexts(RATES, told).apply_to(QueueConfig()) == (rate,)


def test_a_burst_of_keys_with_numbers_of_their_own_is_told(run: Run, tmp_path: Path) -> None:
    """The rate has no number for the others, and what is written is what a dry run says."""
    path = str(tmp_path / "q")
    rate = Rate(by="t", limit=None, per=timedelta(minutes=1), overrides={"acme": 9})
    LocalQueue.create(path, "id string, t string", QueueConfig(fair_key="t", rates=(rate,)))
    words, told = ("--rate", "t=none,burst=6"), "rate by t: none -> none/60s,burst=6"
    assert _configure(run, path, *words, "--dry-run").out.splitlines()[0] == told
    assert _configure(run, path, *words).out.splitlines() == [told, "in force from step 2 on"]
    assert LocalQueue.open(path).config.rates == (replace(rate, burst=6),)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--rate-of", "acme=10/60s"), "rate of acme by t: default -> 10/60s"),
        (("--rate-of", "acme=unlimited/2h"), "rate of acme by t: default -> unlimited"),
        (("--rate", "t=none/60s,burst=6"), "rate by t: none -> none/60s,burst=6"),
    ],
)
def test_the_first_words_of_a_rate_are_told_with_its_time(
    run: Run, tenants: str, words: tuple[str, ...], told: str
) -> None:
    """A number alone says nothing, and a burst counts for the keys that get one later."""
    assert _configure(run, tenants, *words, "--dry-run").out.splitlines()[0] == told
    assert _configure(run, tenants, *words).out.splitlines()[0] == told
    undone = run("undo", "--engine", "local", tenants, "2").out.splitlines()
    assert undone[0] == f"{told.partition(':')[0]} is {told.partition(': ')[2].split()[0]} again"


def test_a_queue_is_made_with_limits_and_rates(run: Run, tmp_path: Path) -> None:
    """The options of create are those of configure."""
    path = str(tmp_path / "q")
    words = ("create", "--engine", "local", path, "--schema", "id string, t string")
    more = ("--rate", "t=100/60s", "--rate-of", "acme=9", "--rate", "1000/s", "--limit", "t=4")
    assert run(*words, *more).code == 0
    assert LocalQueue.open(path).config.rates == (_TENANT, _WHOLE)
    assert _limits(path) == {"t": (4, {})}


def test_people_see_each_number_of_a_rate(run: Run, paced: str) -> None:
    """A dry run says the same words, and that nothing was written."""
    words = (
        "--rate",
        "t=100,burst=7",
        "--rate-of",
        "acme=none",
        "--rate",
        "none",
        "--lease",
        "300",
    )
    told = [
        "rate by t: 100/60s -> 100/60s,burst=7",
        "rate of acme by t: 9/60s -> default",
        "rate of the queue: 1000/1s -> none",
    ]
    shown = _configure(run, paced, *words, "--dry-run").out.splitlines()
    assert shown == [*told, "nothing was written"]
    assert _configure(run, paced, *words).out.splitlines() == [*told, "in force from step 2 on"]
    shown = _configure(run, paced, "--lease", "300", "--dry-run").out.splitlines()
    assert shown == ["nothing would change", "nothing was written"]


def test_the_first_limit_by_the_fair_key_needs_no_name(run: Run, tenants: str) -> None:
    """A queue that had no limit gets one, for one tenant alone."""
    assert _configure(run, tenants, "--limit-of", "acme=20").code == 0
    assert _limits(tenants) == {"t": (None, {"acme": 20})}


def test_people_see_each_number_of_a_limit(run: Run, limited: str) -> None:
    """Of limits only what is other than it was is shown, also where an undo takes it back."""
    words = ("--limit", "t=5", "--limit-of", "acme=none", "--limit-of", "big corp=unlimited")
    assert _configure(run, limited, *words).out.splitlines() == [
        "limit by t: 4 -> 5",
        "limit of acme by t: 9 -> default",
        "limit of 'big corp' by t: default -> unlimited",
        "in force from step 2 on",
    ]
    undone = run("undo", "--engine", "local", limited, "2")
    assert undone.out.splitlines() == [
        "limit by t is 4 again",
        "limit of 'big corp' by t is default again",
        "limit of acme by t is 9 again",
        "in force from step 3 on",
    ]


def test_limits_of_a_file_are_whole_and_options_are_on_top(
    run: Run, limited: str, tmp_path: Path
) -> None:
    """A file says all numbers of the limits that it names; options change single ones of them."""
    file = tmp_path / "live.yaml"
    file.write_text("limits: [{by: t, default: 3, overrides: {b: 8}}]\n")
    words = ("--config", str(file), "--limit-of", "t:c=1")
    assert _configure(run, limited, *words).code == 0
    assert _limits(limited) == {"t": (3, {"b": 8, "c": 1}), "id": (50, {})}

    shown = yaml.safe_load(run("config", "--engine", "local", limited).out)
    assert shown["limits"][0] == {"by": "t", "default": 3, "overrides": {"b": 8, "c": 1}}
    again = tmp_path / "again.yaml"
    again.write_text(yaml.safe_dump({"limits": shown["limits"]}))
    place = str(tmp_path / "again")
    made = run(
        "create", "--engine", "local", place, "--schema", "id string, t string", "--fair-key", "t",
        "--config", str(again), "--limit", "id=7",
    )  # fmt: skip
    assert made.code == 0
    assert _limits(place) == {"t": (3, {"b": 8, "c": 1}), "id": (7, {})}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("--limit t", "limit is 't': give it as BY=NUMBER, or BY=none"),
        ("--limit t=few", "limit is 't=few': it must end with a whole number or none"),
        ("--limit t=-1", "limit by t is -1"),
        ("--limit-of acme", "limit-of is 'acme': give it as KEY=NUMBER, or KEY=none"),
        ("--limit-of acme=1.5", "limit-of is 'acme=1.5': it must end with a whole number or none"),
        ("--limit-of acme=-1", "limit of 'acme' by t is -1"),
        ("--limit length(t)=4", "limits by 'length(t)'"),
        ("--rate t=few", "rate is 't=few': give it as BY=NUMBER/TIME, as in tenant=100/60s"),
        ("--rate t=5", "rate is 't=5': say in what time, as in t=5/60s"),
        ("--rate 5", "rate is '5': say in what time, as in 5/60s"),
        ("--rate t=5/2w", "give it as BY=NUMBER/TIME"),
        ("--rate t=5/1.2.3s", "per is '1.2.3s': it must be like 90s, 10m, 2h or 1d"),
        ("--rate t=0/60s", "it must be a number above 0 or None; to stop a key, pause it"),
        ("--rate t=5/60s,burst=1.2.3", "'1.2.3' must be a number above 0 or none"),
        (
            "--rate t=5/60s,units=length(t)",
            "which units there are is fixed when a",
        ),
        ("--rate-of acme=5", "say in what time, as in acme=5/60s"),
        ("--rate t=5/60s --rate-of acme=5/2h", "the rate by t is per 60s since it was made"),
        ("--rate t=5/60s --rate-of acme", "rate-of is 'acme': give it as KEY=NUMBER"),
        ("--rate t=5/60s --rate-of acme=few", "'few' must be a number above 0 or none"),
    ],
)
def test_a_wrong_rule_changes_nothing(run: Run, limited: str, words: str, why: str) -> None:
    """What is wrong is named with its text, and the way out."""
    ended = _configure(run, limited, *words.split())
    assert (ended.code, _limits(limited)["t"]) == (2, (4, {"acme": 9}))
    assert why in ended.err


def test_a_key_of_several_limits_is_named_with_its_limit(run: Run, tmp_path: Path) -> None:
    """Where nothing tells of which limit a key is, the error shows how to say it."""
    path = str(tmp_path / "q")
    limits = (Limit(by="t", default=4), Limit(by="id", default=50))
    LocalQueue.create(path, "id string, t string", QueueConfig(limits=limits))
    ended = _configure(run, path, "--limit-of", "acme=1")
    assert (ended.code, _limits(path)["t"]) == (2, (4, {}))
    assert "there are limits by 't', 'id'; name the one" in ended.err
    assert "as in --limit-of t:acme=1" in ended.err
    bare = str(tmp_path / "bare")
    LocalQueue.create(bare, "id string")
    ended = _configure(run, bare, "--limit-of", "acme=1")
    assert "no limit by a key; give one as --limit BY=NUMBER" in ended.err


def test_a_limit_of_an_unknown_tenant_is_warned_of(run: Run, tenants: str) -> None:
    """It is set, as a weight is, and the tenant that was meant is named."""
    words = ("--limit-of", "acem=2", "--limit-of", "beta=2")
    ended = run("configure", "--engine", "local", tenants, *words)
    assert ended.err == (
        "spark-queue: warning: no item has the fair key 'acem'; did you mean 'acme'? It is set all "
        "the same.\n"
    )
    assert _limits(tenants) == {"t": (None, {"acem": 2, "beta": 2})}


def test_numbers_that_others_set_meanwhile_are_not_lost(run: Run, queue: Any) -> None:
    """A changed limit is told as it was found, so that a change between the two is noticed."""
    queue.config = QueueConfig(fair_key="tenant", limits=(Limit(by="tenant", default=1),))
    assert run("configure", "./q", "--limit-of", "acme=3", "--yes").code == 0
    ((_, _, told),) = queue.calls
    assert told == {
        "expected": {"limits": (Limit(by="tenant", default=1),)},
        "limits": (Limit(by="tenant", default=1, overrides={"acme": 3}),),
    }


def test_numbers_that_others_have_set_are_shown(limited: str) -> None:
    """A change that was decided by other numbers is refused, and says both."""
    queue = LocalQueue.open(limited)
    queue.configure(limits=(Limit(by="t", default=8),))
    expected = {"limits": (Limit(by="t", default=4, overrides={"acme": 9}),)}
    with pytest.raises(SettingsChangedError, match=r"was t=4 t:acme=9 when .*, and is t=8 now"):
        queue.configure(expected=expected, limits=(Limit(by="t", default=5),))
    assert _limits(limited)["t"] == (8, {})


def test_a_tenant_is_paused_and_resumed_by_the_command_line(run: Run, tenants: str) -> None:
    """It is said until when; an undo takes it back, and the log of operators names the key."""
    paused = run("pause", "--engine", "local", tenants, "--key", "acme")
    assert paused.out == "acme: paused until it is resumed, from step 2 on\n"
    (pause,) = LocalQueue.open(tenants).paused_keys
    assert (pause.by, pause.key, pause.until) == ("t", "acme", None)
    resumed = run("resume", "--engine", "local", tenants, "--key", "acme", "--by", "t")
    assert resumed.out == "acme: resumed, from step 3 on\n"
    assert run("undo", "--engine", "local", tenants, "3").code == 0
    assert [one.key for one in LocalQueue.open(tenants).paused_keys] == ["acme"]
    timed = run("pause", "--engine", "local", tenants, "--key", "b", "--for", "10m")
    assert "b: paused until " in timed.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("pause", "would be paused; nothing was written"),
        ("resume", "nothing to do: it is not paused"),
        ("pause --key a", "a: would be paused until it is resumed"),
        ("pause --key a --for 2h", "a: would be paused until 2"),
        ("pause --key acme --for 2h", "acme: nothing to do: it is paused until it is resumed"),
        ("pause --key acme --for 0", "acme: would be resumed"),
        ("resume --key acme", "acme: would be resumed"),
        ("resume --key a", "a: nothing to do: it is not paused"),
    ],
)
def test_a_dry_run_of_a_pause_says_what_would_be(
    run: Run, tenants: str, words: str, said: str
) -> None:
    """Nothing is written."""
    queue = LocalQueue.open(tenants)
    step = queue.pause(key="acme")
    verb, *rest = words.split()
    ended = run(verb, "--engine", "local", tenants, *rest, "--dry-run")
    assert (ended.code, ended.out.startswith(said)) == (0, True)
    assert (queue.pause(key="acme"), queue.paused) == (step, False)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("--for 10m", "for_ is"),
        ("--key a --for soon", "for is 'soon': it must be like 90s, 10m, 2h or 1d"),
        ("--key a --by x", "by is 'x': no such key is stored with items"),
    ],
)
def test_a_wrong_pause_says_why(run: Run, tenants: str, words: str, why: str) -> None:
    """Nothing is written."""
    ended = run("pause", "--engine", "local", tenants, *words.split())
    assert (ended.code, why in ended.err) == (2, True)
