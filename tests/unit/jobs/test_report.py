from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import typer

Import = Callable[[str], Any]


@pytest.mark.parametrize(
    ("side", "value", "met"),
    [
        ("at_least", 1.0, True),
        ("at_least", 0.99, False),
        ("at_most", 1.0, True),
        ("at_most", 1.01, False),
    ],
)
def test_a_figure_says_whether_its_target_is_met(
    script: Import,
    side: str,
    value: float,
    met: bool,  # noqa: FBT001
) -> None:
    """The bound itself is good enough, on both sides; without a target there is no verdict."""
    report = script("report")
    assert report.Figure("a", value, getattr(report, side)(1)).met is met
    assert report.Figure("a", value).met is None


def test_a_figure_is_one_json_line(script: Import, capsys: pytest.CaptureFixture[str]) -> None:
    """Emitting prints one object with everything that is known of the figure."""
    report = script("report")
    figure = report.Figure("a.b", 1.23456, report.at_most(2), "us", "how", (1.0, 1.5))
    assert report.emit(figure) is figure
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == {
        "name": "a.b",
        "value": 1.235,
        "target": "<= 2",
        "met": True,
        "unit": "us",
        "spread": [1.0, 1.5],
        "details": "how",
    }


def test_the_table_has_a_row_for_each_figure(
    script: Import, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table shows names in full, and a missed target in capitals."""
    report = script("report")
    name = "a.figure.with.a.name.that.is.longer.than.most"
    report.table([report.Figure(name, 3.0, report.at_most(2)), report.Figure("b", 1.0)])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines if line.startswith(name)] == [
        [name, "3.0", "x", "<=", "2", "NO"]
    ]


def test_only_a_strict_run_fails_for_a_target(
    script: Import, capsys: pytest.CaptureFixture[str]
) -> None:
    """A missed target is a result; sections can be chosen, and an unknown one is refused."""
    report = script("report")
    sections: dict[str, Any] = {
        "good": lambda: [report.Figure("good", 1.0, report.at_least(1))],
        "bad": lambda: [report.Figure("bad", 0.5, report.at_least(1))],
    }
    assert report.measure(sections, None, as_json=True, strict=False) == 0
    assert report.measure(sections, None, as_json=True, strict=True) == 1
    assert report.measure(sections, ["good"], as_json=True, strict=True) == 0
    names = [json.loads(line)["name"] for line in capsys.readouterr().out.splitlines()]
    assert names == ["good", "bad", "good", "bad", "good"]
    with pytest.raises(typer.BadParameter, match="worse"):
        report.measure(sections, ["worse"], as_json=True, strict=True)


def test_contenders_take_turns(script: Import) -> None:
    """Each runs once a round, another one first each time, and ratios are those of one round."""
    report = script("report")
    order: list[str] = []

    def contender(name: str, *values: float) -> Callable[[], float]:
        left = iter(values)

        def run() -> float:
            order.append(name)
            return next(left)

        return run

    timed = report.rounds({"a": contender("a", 1, 20, 3), "b": contender("b", 1, 10, 1)}, 3)
    assert order == ["a", "b", "b", "a", "a", "b"]
    figure = report.ratio_figure("a_over_b", timed["a"], timed["b"], None, "")
    assert (figure.value, figure.spread) == (2.0, (1.5, 2.5))
