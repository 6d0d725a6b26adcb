"""Names, parameters and defaults of every public verb, held against each other."""

from __future__ import annotations

from inspect import getattr_static
from typing import Any

import pytest

from tests.conformance import verbs


def test_every_verb_takes_the_same_with_spark_and_without() -> None:
    """What differs is in a table, with its reason; what is there does differ."""
    assert sorted(verbs.differences()) == sorted(verbs.DIFFERENCES)


@pytest.mark.parametrize(("title", "by_spark", "alone"), verbs.PAIRS)
def test_a_verb_is_of_one_kind(title: str, by_spark: type[Any], alone: type[Any]) -> None:
    """A property, a class method or a method: the same in both classes, in the same order."""
    del title
    for verb in {*verbs.verbs_of(by_spark)} & {*verbs.verbs_of(alone)}:
        kinds = [type(getattr_static(owner, verb)) for owner in (by_spark, alone)]
        assert kinds[0] is kinds[1], verb
        taken = [
            [name for name in verbs.parameters(owner, verb) or () if name not in _OF_ONE]
            for owner in (by_spark, alone)
        ]
        assert taken[0] == taken[1], verb


#: Parameters that only one has, by the table of differences.
_OF_ONE = {parts[2] for parts in verbs.DIFFERENCES if len(parts) == 3}


def test_the_page_of_verbs_is_made_from_the_classes() -> None:
    """``python -m tests.conformance.verbs`` writes it again."""
    assert verbs.PAGE.read_text(encoding="utf-8") == verbs.page()
