"""Fair by key: rounds as snapshots would serve them, whatever the cut."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest
from pyspark.sql import DataFrame, functions as F

from spark_queue.config import QueueConfig
from spark_queue.errors import InvalidArgumentError
from spark_queue.operators import Resume, fair_order, fair_rank, fair_take, running
from spark_queue.rules.rule_model import NewItem
from spark_queue.rules.scheduler import Scheduler
from tests.operators.conftest import Frame

SCHEMA = "tenant string, at int"


def served(df: DataFrame) -> list[tuple[str | None, int]]:
    """Return the rows of a sorted frame."""
    return [(row["tenant"], row["at"]) for row in df.collect()]


def snapshot_rounds(waiting: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Serve as the definition says: the head of every key, in order, and again."""
    lines: dict[str, list[int]] = {}
    for key, at in sorted(waiting, key=lambda row: row[1]):
        lines.setdefault(key, []).append(at)
    order: list[tuple[str, int]] = []
    while lines:
        heads = sorted((line.pop(0), key) for key, line in lines.items())
        order += [(key, at) for at, key in heads]
        lines = {key: line for key, line in lines.items() if line}
    return order


def test_keys_take_turns(frame: Frame) -> None:
    """FQ-06: one row of each key a round, in the order in which the rows came."""
    names = "ABAABCCCC"
    df = frame([(name, at) for at, name in enumerate(names)], SCHEMA)
    assert "".join(str(key) for key, _ in served(fair_order(df, "tenant", order_by="at"))) == (
        "ABCABCACC"
    )


def test_a_take_has_no_more_of_a_key_than_its_limit(frame: Frame) -> None:
    """FQ-06: of each key so many, or of those that are named; a null key has no limit."""
    names = [*"AABAABC", None, None, None]
    df = frame([(name, at) for at, name in enumerate(names)], SCHEMA)

    def taken(limits: Any) -> str:
        rows = fair_take(df, 100, "tenant", order_by="at", limits=limits).collect()
        return "".join(row["tenant"] or "-" for row in rows)

    assert taken(1) == "ABC---"
    assert taken({"A": 2, "B": 0}) == "AC-A--"
    assert taken({}) == taken(None) == "ABC-AB-A-A"
    with pytest.raises(InvalidArgumentError, match="limits is -1"):
        taken(-1)
    with pytest.raises(InvalidArgumentError, match=r"limits\['A'\] is 1.5"):
        taken({"A": 1.5})


def test_random_frames_are_ranked_as_snapshots_would(frame: Frame) -> None:
    """The order is that of snapshot rounds, for any mix of keys."""
    draw = random.Random(7)  # noqa: S311
    cases = {
        case: [
            (draw.choice("ABCDEF"[: draw.randint(1, 6)]), at) for at in range(draw.randint(1, 30))
        ]
        for case in range(60)
    }
    rows = [(case, key, at) for case, waiting in cases.items() for key, at in waiting]
    df = frame(rows, "case int, tenant string, at int")
    ranked = fair_rank(df, ["case", "tenant"], order_by="at").collect()
    for case, waiting in cases.items():
        found = sorted((r["round"], r["at"], r["tenant"]) for r in ranked if r["case"] == case)
        assert [(key, at) for _, at, key in found] == snapshot_rounds(waiting)


def test_a_frame_goes_on_where_another_ended(frame: Frame) -> None:
    """Ranked in pieces, while rows are served in between, the order is that of one queue."""
    draw = random.Random(11)  # noqa: S311
    for _ in range(4):
        _play(
            frame,
            [[draw.choice("ABCD") for _ in range(draw.randint(1, 9))] for _ in range(3)],
            draw,
        )


def _play(frame: Frame, pieces: list[list[str]], draw: random.Random) -> None:
    """Enqueue pieces, serve a few rows after each: with a scheduler, and with ranked frames."""
    scheduler = Scheduler(QueueConfig(fair_key="tenant"))
    at, current = 0, 0.0
    waiting: list[tuple[float, int, str]] = []
    last: dict[str, float] = {}
    for keys in pieces:
        rows = [(key, at + place) for place, key in enumerate(keys)]
        at += len(keys)
        scheduler.admit([NewItem(payload=row, fair_key=row[0]) for row in rows], 0.0)
        known = frame(list(last.items()), "tenant string, round double") if last else None
        df = frame(rows, SCHEMA)
        ranked = fair_rank(df, "tenant", order_by="at", resume=Resume(current, known))
        waiting += [(r["round"], r["at"], r["tenant"]) for r in ranked.collect()]
        last |= {r["tenant"]: r["round"] for r in Resume.last_of(ranked, "tenant").collect()}
        waiting.sort()
        count = draw.randint(0, len(waiting))
        grant = scheduler.claim(0.0, count)
        taken, waiting = waiting[:count], waiting[count:]
        assert [item.payload for item in grant.items] == [(key, place) for _, place, key in taken]
        current = max([current, *(number for number, _, _ in taken)])


def test_a_late_key_starts_in_the_next_round(frame: Frame) -> None:
    """FQ-27: a key that is new goes on from the round that is being served, not from the first."""
    df = frame([("late", 1), ("big", 2)], SCHEMA)
    known = frame([("big", 40.0)], "tenant string, round double")
    ranked = fair_rank(df, "tenant", order_by="at", resume=Resume(7.0, known)).collect()
    assert {r["tenant"]: r["round"] for r in ranked} == {"late": 8.0, "big": 41.0}


def test_the_ends_of_several_frames_are_put_together(frame: Frame) -> None:
    """What several frames were given may be united: of each key the last round counts, once."""
    known = frame([("a", 2.0), ("a", 5.0), ("b", 1.0)], "tenant string, round double")
    ranked = fair_rank(
        frame([("a", 1), ("b", 2)], SCHEMA), "tenant", order_by="at", resume=Resume(0.0, known)
    ).collect()
    assert sorted((r["tenant"], r["round"]) for r in ranked) == [("a", 6.0), ("b", 2.0)]


def test_a_null_key_takes_turns_like_any_other(frame: Frame) -> None:
    """Rows without a key are one line, also when a frame goes on from another."""
    df = frame([(None, 1), (None, 2), ("a", 3)], SCHEMA)
    assert served(fair_order(df, "tenant", order_by="at")) == [(None, 1), ("a", 3), (None, 2)]
    known = frame([(None, 5.0)], "tenant string, round double")
    ranked = fair_rank(df, "tenant", order_by="at", resume=Resume(1.0, known)).collect()
    assert sorted((r["at"], r["round"]) for r in ranked) == [(1, 6.0), (2, 7.0), (3, 2.0)]


def test_weights_and_costs_are_shares_of_a_round(frame: Frame) -> None:
    """A key of weight 2 gets two rows a round; a row of cost 3 takes three turns."""
    df = frame([(key, at) for at, key in enumerate("AAAABB")], SCHEMA)
    weighted = fair_rank(df, "tenant", order_by="at", weights={"A": 2.0}).collect()
    assert sorted((r["at"], r["round"]) for r in weighted) == [
        (0, 0.5), (1, 1.0), (2, 1.5), (3, 2.0), (4, 1.0), (5, 2.0),
    ]  # fmt: skip
    priced = df.withColumn("price", F.when(F.col("at") == 0, 3).otherwise(1))
    found = fair_rank(priced, "tenant", order_by="at", cost="price").collect()
    assert sorted((r["at"], r["round"]) for r in found if r["tenant"] == "A") == [
        (0, 3.0), (1, 4.0), (2, 5.0), (3, 6.0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("least", "cost", "cut"),
    [(1, None, {"hot", "warm"}), (500, "price", {"hot"}), (5_000, None, set[str]())],
)
def test_a_skewed_key_is_cut_and_comes_out_the_same(
    frame: Frame, monkeypatch: pytest.MonkeyPatch, least: int, cost: str | None, cut: set[str]
) -> None:
    """A key of many rows is ranked in parts, others are whole; the rounds are the same."""
    monkeypatch.setattr(running, "_SAMPLED", 5)
    monkeypatch.setattr(running, "_LEAST", least)
    names = ["hot"] * 900 + ["warm"] * 60 + [None] * 30 + [f"k{n}" for n in range(30)]
    mixed = random.Random(3).sample(names, len(names))  # noqa: S311
    rows = [(key, at, 1 + at % 3) for at, key in enumerate(mixed)]
    df = frame(rows, f"{SCHEMA}, price int").localCheckpoint()
    plain = fair_rank(df, "tenant", order_by="at", cost=cost)
    parts = fair_rank(df, "tenant", order_by="at", cost=cost, skewed=True)
    assert parts.schema == plain.schema
    assert sorted(parts.collect(), key=lambda r: r["at"]) == sorted(
        plain.collect(), key=lambda r: r["at"]
    )
    cuts = running._cuts(df.withColumn(running._AT, F.col("at")), ["tenant"])
    assert {row[0] for row in cuts.collect()} & {"hot", "warm"} == cut


def test_a_frame_too_small_to_cut_is_ranked_all_the_same(frame: Frame) -> None:
    """A frame of which nothing is sampled has no cuts, and right rounds."""
    df = frame([("a", 1), ("a", 2)], SCHEMA)
    found = fair_rank(df, "tenant", order_by="at", skewed=True).collect()
    assert sorted((r["at"], r["round"]) for r in found) == [(1, 1.0), (2, 2.0)]


def test_what_comes_next_is_taken(frame: Frame) -> None:
    """``fair_take`` returns the first rows in order, with their rounds, to go on from."""
    df = frame([(key, at) for at, key in enumerate("AAAABBC")], SCHEMA)
    taken = fair_take(df, 4, "tenant", order_by="at").collect()
    assert [(r["tenant"], r["at"], r["round"]) for r in taken] == [
        ("A", 0, 1.0), ("B", 4, 1.0), ("C", 6, 1.0), ("A", 1, 2.0),
    ]  # fmt: skip
    assert fair_take(df, 100, "tenant", order_by="at").count() == 7


def test_columns_and_types_stay(frame: Frame) -> None:
    """All columns keep their names and types; the round comes last."""
    df = frame([("a", 1, b"x", [1.5])], f"{SCHEMA}, body binary, `odd name` array<double>")
    df = df.withColumn("dotted.name", F.lit(1))
    skewed = fair_rank(df, "tenant", order_by="at", skewed=True)
    assert skewed.schema.names == [*df.columns, "round"]
    ranked = fair_rank(df, F.upper("tenant"), order_by=["at", "odd name"])
    assert ranked.schema.names == [*df.columns, "round"]
    assert ranked.schema.fields[:-1] == df.schema.fields


def test_a_cost_that_is_no_cost_fails_the_query(frame: Frame) -> None:
    """A cost of zero, below it, or null stops the query that meets it and shows the value."""
    for price in (0, -1, None):
        df = frame([("a", 1, price)], f"{SCHEMA}, price int")
        with pytest.raises(Exception, match=f"cost is {'null' if price is None else price}"):
            fair_rank(df, "tenant", order_by="at", cost="price").collect()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": "tenat"}, "did you mean 'tenant'"),
        ({"order_by": None}, "order_by is None"),
        ({"cost": "price"}, "cost: there is no column 'price'"),
        ({"weights": {"a": 0.0}}, r"weights\['a'\] is 0.0"),
        ({"key": ["tenant", "at"], "weights": {"a": 2.0}}, "the key has several"),
    ],
)
def test_bad_input_fails_the_call(frame: Frame, options: dict[str, Any], message: str) -> None:
    """What cannot be ranked is refused before any plan, by name and value."""
    given: dict[str, Any] = {"key": "tenant", "order_by": "at", **options}
    with pytest.raises(InvalidArgumentError, match=message):
        fair_rank(frame([("a", 1)], SCHEMA), **given)


def test_a_frame_with_a_round_is_refused(frame: Frame) -> None:
    """A frame that has the column already is not overwritten."""
    with pytest.raises(InvalidArgumentError, match="'round': rename it"):
        fair_rank(frame([("a", 1)], "tenant string, round int"), "tenant", order_by="round")
    with pytest.raises(InvalidArgumentError, match="'round': rename it"):
        fair_rank(frame([("a", 1)], "tenant string, Round int"), "tenant", order_by="Round")
    with pytest.raises(InvalidArgumentError, match="n is 0"):
        fair_take(frame([("a", 1)], SCHEMA), 0, "tenant", order_by="at")
