"""How the tags of weighted keys map to turns, and how the settings are written and read."""

from __future__ import annotations

import json

import pytest

from spark_queue.config import QueueConfig
from spark_queue.errors import FormatVersionError
from spark_queue.log.schema import FORMAT_VERSION
from spark_queue.log.settings import Settings, Stretch

FAIR = QueueConfig(fair_key="tenant")


def weighing(settings: Settings, pointer: float, **weights: float) -> Settings:
    """Change the weights while the order of service stands at a turn."""
    config = settings.config.changed(weights=weights)
    return settings.reconfigured(config, {0: (pointer, 1)})


def test_a_weight_stretches_what_waits_around_the_pointer() -> None:
    """At the pointer tag and turn are the same; from there a turn has as many tags as weight."""
    settings = weighing(Settings.initial(FAIR), 10.0, a=2.0)
    stretch = settings.stretches["a"]

    assert [stretch.turn(0, tag) for tag in (10.0, 12.0, 20.0)] == [10.0, 11.0, 15.0]
    assert [stretch.tag(0, turn) for turn in (10.0, 11.0, 15.0)] == [10.0, 12.0, 20.0]
    assert stretch.turn(7, 4.0) == 2.0


def test_a_second_weight_goes_on_where_the_first_one_stands() -> None:
    """The next change keeps the tag that the pointer stands at, and stretches what is behind it."""
    once = weighing(Settings.initial(FAIR), 10.0, a=2.0)
    twice = weighing(once, 15.0, a=4.0).stretches["a"]

    assert twice.turn(0, 20.0) == once.stretches["a"].turn(0, 20.0) == 15.0
    assert [twice.turn(0, tag) for tag in (24.0, 28.0)] == [16.0, 17.0]


def test_a_change_keeps_the_pins_of_other_priorities() -> None:
    """A priority whose pointer is not named stays as it was stretched before."""
    stretch = Stretch(2.0, {0: (20.0, 15.0), 3: (8.0, 4.0)})
    changed = stretch.reweighted(1.0, {0: (16.0, 1)})

    assert changed.pins == {0: (22.0, 16.0), 3: (8.0, 4.0)}


def test_a_weight_that_is_taken_away_is_one_again() -> None:
    """The key goes on at one turn an item from the pointer, and is still remembered."""
    settings = weighing(weighing(Settings.initial(FAIR), 10.0, a=2.0), 15.0)

    assert settings.stretches["a"].weight == 1.0
    assert [settings.stretches["a"].turn(0, tag) for tag in (20.0, 21.0)] == [15.0, 16.0]


def test_a_weight_that_stays_is_not_pinned_anew() -> None:
    """A change of something else moves no turn, and tells nothing new."""
    before = weighing(Settings.initial(FAIR), 10.0, a=2.0)
    after = weighing(before, 99.0, a=2.0)

    assert after.stretches == before.stretches


def test_a_paused_queue_stays_paused_when_it_is_configured() -> None:
    """Only a resume lets claims go on."""
    assert weighing(Settings(config=FAIR, paused=True), 1.0, a=2.0).paused


def test_settings_are_read_as_they_were_written() -> None:
    """With weights that were changed, and their pins at each priority."""
    settings = Settings(
        config=FAIR.changed(weights={"a": 2.0}),
        paused=True,
        stretches={"a": Stretch(2.0, {0: (20.0, 15.0), -1: (0.5, 0.25)})},
    )

    assert Settings.from_json("q", settings.to_json()) == settings


def test_settings_of_a_newer_format_are_refused() -> None:
    """A release that does not know a format leaves the queue alone."""
    plain = json.loads(Settings.initial(FAIR).to_json())
    text = json.dumps({**plain, "format": FORMAT_VERSION + 1})

    with pytest.raises(FormatVersionError, match="q"):
        Settings.from_json("q", text)


@pytest.mark.parametrize("weight", [0.3, 0.7, 1.0, 3.0])
def test_bounds_of_tags_hold_to_the_last_digit(weight: float) -> None:
    """What a turn bounds, its tag bounds, though to a turn and back is not the same number."""
    settings = Settings.initial(QueueConfig(fair_key="t", weights={"a": weight}))
    for tag in range(1, 400):
        turn = tag / weight
        assert settings.least_tag(0, turn) <= tag <= settings.highest_tag(0, turn)
