"""Processes that share a queue, in every order in which they can meet; and the search for these."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from spark_queue.log.disk import liveness
from spark_queue.state import catch_up, commit_step
from spark_queue.state.catch_up import Cache
from spark_queue.state.store import Store

Import = Callable[[str], Any]

#: What a process does in the tests of the search: kinds and targets of effects.
Program = list[tuple[str, str]]

#: The pairs of effects of different processes that meet, each in its order.
Meetings = frozenset[tuple[tuple[int, int], tuple[int, int]]]


def meetings(programs: list[Program], order: Iterable[tuple[int, int]]) -> Meetings:
    """Return what tells an order from those that differ from it in something that matters."""
    steps = list(order)
    return frozenset(
        (one, other)
        for at, one in enumerate(steps)
        for other in steps[at + 1 :]
        if one[0] != other[0]
        and programs[one[0]][one[1]][1] == programs[other[0]][other[1]][1]
        and {programs[one[0]][one[1]][0], programs[other[0]][other[1]][0]} != {"read"}
        and "give" not in (programs[one[0]][one[1]][0], programs[other[0]][other[1]][0])
    )


class Toy:
    """Programs of effects that are run step by step."""

    def __init__(self, programs: list[Program]) -> None:
        self.programs, self.at = programs, [0] * len(programs)
        self.done: list[tuple[int, int]] = []

    def next(self) -> dict[int, tuple[str, str]]:
        """Return what each that has not ended does next."""
        left = ((n, at) for n, at in enumerate(self.at) if at < len(self.programs[n]))
        return {n: self.programs[n][at] for n, at in left}

    def able(self) -> frozenset[int]:
        """Return who can go on."""
        steps = [self.programs[n][at] for n, at in self.done]
        held = {of for _, of in steps if steps.count(("take", of)) > steps.count(("give", of))}
        return frozenset(
            n for n, (kind, of) in self.next().items() if kind != "take" or of not in held
        )

    def go_on(self, number: int) -> list[tuple[str, str]]:
        """Do a step of one, and give back what it holds at once if that comes next."""
        effects: list[tuple[str, str]] = []
        while not effects or self.next().get(number, ("", ""))[0] == "give":
            effects.append(self.programs[number][self.at[number]])
            self.done.append((number, self.at[number]))
            self.at[number] += 1
        return effects


def every(programs: list[Program], way: tuple[int, ...] = ()) -> Iterator[Meetings]:
    """Return what all orders come to, by trying them all."""
    toy = Toy(programs)
    for number in way:
        toy.go_on(number)
    if not toy.next():
        yield meetings(programs, toy.done)
    for number in toy.able():
        yield from every(programs, (*way, number))


def found(script: Import, programs: list[Program]) -> list[Meetings]:
    """Return what all orders come to that the search plays."""
    module = script("orders_search")
    search, played, goes_on = module.Search(), [], True
    while goes_on:
        toy, is_whole = Toy(programs), True
        while is_whole and toy.next():
            next_ = {n: module.Effect(*step) for n, step in toy.next().items()}
            chosen = search.chosen(next_, toy.able())
            is_whole = chosen is not None
            if chosen is not None:
                search.went([module.Effect(*step) for step in toy.go_on(chosen)])
        if is_whole:
            played.append(meetings(programs, toy.done))
        goes_on = search.again(is_whole=is_whole)
    return played


def drawn(rng: random.Random) -> Program:
    """Draw what a process does."""
    program: Program = []
    for _ in range(rng.randrange(1, 3)):
        step = (rng.choice(["read", "write"]), rng.choice("xy"))
        lock = rng.choice("LM")
        is_locked = rng.random() < 0.4
        program += [("take", lock), step, ("give", lock)] if is_locked else [step]
    return program


def test_the_search_plays_every_order_once(script: Import) -> None:
    """Whatever programs do: each order that matters is found, none twice, and no other one."""
    rng = random.Random(4)  # noqa: S311 - to be repeatable
    for _ in range(60):
        programs = [drawn(rng) for _ in range(rng.choice([2, 2, 3]))]
        played = found(script, programs)
        assert set(played) == set(every(programs)), programs
        assert len(played) == len(set(played)), programs


@pytest.fixture
def stage(script: Import, place: str) -> Any:
    """Return where histories are played."""
    return script("orders_played").Stage(Path(place))


def histories(script: Import, kind: str) -> list[Any]:
    """Return histories of a kind: few enough to be played in a second or two."""
    orders = script("orders")
    by = orders.played_by
    kinds: Mapping[str, Callable[[], list[Any]]] = {
        "two steps": lambda: [
            by(*verbs)
            for verbs in (
                ("put n", "put n"),
                ("put a", "claim"),
                ("claim", "claim"),
                ("claim", "nack"),
                ("claim", "pause"),
            )
        ],
        "leases over, ids shared, keys free again": lambda: list(orders.special()),
        "killed": lambda: [it for it in orders.killed() if it.verbs == ("claim", "claim")],
        "three": lambda: [by("claim", "claim", "claim")],
        "without waiting": lambda: [
            orders.replace(by(*verbs), is_honoured=False)
            for verbs in (("claim", "claim"), ("put n", "put n"), ("claim", "ack"))
        ],
    }
    return kinds[kind]()


@pytest.mark.parametrize(
    ("kind", "orders"),
    [
        ("two steps", 27),
        ("leases over, ids shared, keys free again", 25),
        ("killed", 30),
        ("three", 12),
        ("without waiting", 18),
    ],
)
def test_the_laws_hold_in_every_order(script: Import, stage: Any, kind: str, orders: int) -> None:
    """Nothing is lost, taken twice or out of order, and all who follow the queue know the same."""
    played = [stage.play(history, most=12) for history in histories(script, kind)]

    assert {str(it.history): it.faults for it in played if it.faults} == {}
    assert sum(it.orders for it in played) >= orders


def _rows_forgotten(patch: pytest.MonkeyPatch) -> None:
    real = catch_up.apply_status
    patch.setattr(catch_up, "apply_status", lambda at, head, _: real(at, head, []))


def _items_after_moves(patch: pytest.MonkeyPatch) -> None:
    """Have what a step moves enter after it, though it was enqueued before."""
    items, status, inside = catch_up.items, catch_up.status, [False]

    def stale(store: Store, cache: Cache) -> Any:
        return cache.queue.head if inside[0] else items(store, cache)

    def follow(store: Store, cache: Cache, at: Any) -> Any:
        inside[0] = cache.queue.head is not None
        try:
            return status(store, cache, at)
        finally:
            inside[0] = False

    patch.setattr(catch_up, "items", stale)
    patch.setattr(catch_up, "status", follow)


def _never_caught_up(patch: pytest.MonkeyPatch) -> None:
    def stale(log: Any, *_: object) -> Any:
        log._seen.head = log._seen.head or log._find_head(None)
        return log._seen.head

    patch.setattr(getattr(catch_up, "_Follow"), "up_to_date", stale)  # noqa: B009


def _fence_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(os, "link", os.rename)


def _loss_unnoticed(patch: pytest.MonkeyPatch) -> None:
    real = commit_step.commit_status
    patch.setattr("spark_queue.state.steps.commit_status", lambda *a, **k: real(*a, **k) or 0.0)


def _all_are_dead(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(liveness, "has_ended", lambda *_: True)


FAULTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], tuple[str, ...], bool, set[str]]] = {
    "rows forgotten": (_rows_forgotten, ("claim", "claim"), True, {"items differ"}),
    "never caught up": (_never_caught_up, ("claim", "claim"), True, {"raised"}),
    "items after moves": (
        _items_after_moves,
        ("put n", "claim 9", "pause"),
        True,
        {"items differ"},
    ),
    "fence forgotten": (_fence_forgotten, ("put n", "put m"), False, {"put and missing"}),
    "loss unnoticed": (_loss_unnoticed, ("claim", "claim"), False, {"held twice at a time"}),
    "all are dead": (_all_are_dead, ("claim", "claim"), True, {"held twice at a time"}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_wrong_is_found(
    script: Import, stage: Any, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """Each of the faults that the search is there for is found in some order."""
    install, verbs, is_honoured, kinds = FAULTS[fault]
    history = script("orders").replace(script("orders").played_by(*verbs), is_honoured=is_honoured)

    with monkeypatch.context() as patch:
        install(patch)
        played = stage.play(history, most=20)

    assert played.faults.keys() >= kinds
