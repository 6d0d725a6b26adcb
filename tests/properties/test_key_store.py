"""The store of idempotency keys against a dictionary with times, in random use."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from hypothesis import given, strategies as st

from spark_queue.clock import ManualClock
from spark_queue.memory.idempotency import InMemoryIdempotencyKeyStore

LOCKED, ACCEPTED = timedelta(seconds=10), timedelta(seconds=25)

Verb = Literal["lock", "accept", "release", "wait"]

steps = st.tuples(
    st.sampled_from(["lock", "lock", "accept", "release", "wait"]),
    st.sampled_from("ab"),
    st.integers(0, 5),
)


@dataclass
class Held:
    """A key that is not free."""

    token: str
    accepted: bool
    ends: float


@given(st.lists(steps, max_size=50))
def test_a_key_has_one_owner_until_its_time(  # noqa: PLR0915 - the model beside it
    taken: list[tuple[Verb, str, int]],
) -> None:
    """IS-01: a key has one token at a time; only that accepts or releases it, and only in time."""
    clock = ManualClock()
    store = InMemoryIdempotencyKeyStore(LOCKED, ACCEPTED, clock=clock)
    held: dict[str, Held] = {}
    tokens: list[str] = ["nobody"]
    now = 0.0
    for verb, key, number in taken:
        held = {name: one for name, one in held.items() if one.ends > now}
        mine = held.get(key)
        token = tokens[number % len(tokens)]
        owns = mine is not None and not mine.accepted and mine.token == token
        if verb == "wait":
            clock.advance(timedelta(seconds=number * 3))
            now += number * 3
        elif verb == "lock":
            got = store.try_lock(key)
            assert (got is None) == (mine is not None)
            if got is not None:
                tokens.append(got)
                held[key] = Held(got, accepted=False, ends=now + LOCKED.total_seconds())
        elif verb == "accept":
            assert store.accept(key, token) == owns
            if owns:
                held[key] = Held(token, accepted=True, ends=now + ACCEPTED.total_seconds())
        else:
            assert store.release(key, token) == owns
            if owns:
                del held[key]
        assert len(store) == sum(one.ends > now for one in held.values())
