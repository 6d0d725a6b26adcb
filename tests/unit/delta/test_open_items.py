"""The rows of open items by what a step asks for, held against a look at all of them."""

from __future__ import annotations

import copy

from hypothesis import given, strategies as st

from spark_queue.state.open_items import OpenItems

_SEQS = st.integers(0, 6)
_STATES = st.sampled_from(["ready", "claimed", "over"])
_CHANGES = st.lists(st.tuples(_SEQS, _STATES, st.sampled_from(["a", "b", None])))


@given(_CHANGES)
def test_who_is_in_flight_or_in_a_group_is_known_without_a_look_at_all(
    changes: list[tuple[int, str, str | None]],
) -> None:
    """Whatever became of items, those in flight and the members of groups are found, in order."""
    items = OpenItems()
    for seq, state, group in changes:
        if state != "over":
            items[seq] = {"_seq": seq, "_state": state, "_group_key": group, "_chain": None}
        elif seq in items:
            del items[seq]
    rows = [items[seq] for seq in sorted(items)]

    for known in (items, copy.deepcopy(items)):
        assert known.in_flight() == [row for row in rows if row["_state"] == "claimed"]
        for groups in ({"a"}, {"a", "b"}, {"c"}, set[str]()):
            assert known.members(groups) == [row for row in rows if row["_group_key"] in groups]
