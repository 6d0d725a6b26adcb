"""Random histories whose steps are decided by the rules in memory and by SQL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import histories_of

#: How many histories have each kind of step among them.
_TOGETHER = 15


@pytest.mark.histories
@pytest.mark.parametrize("first", range(0, histories_of(2), _TOGETHER))
def test_sql_decides_as_the_rules_do(
    script: Callable[[str], Any], tmp_path: Path, first: int
) -> None:
    """Duplicates, places, order, turns, losses and ends are the same in random histories."""
    job, counts = script("choices"), Counter[str]()
    for seed in range(first, first + _TOGETHER):
        counts += job.Played(tmp_path / str(seed), seed, is_thorough=False).play(steps=5)
    told = ("enqueues", "duplicates", "claims", "overdue", "over", "lost", "settles")
    # The first, which `check` plays, have a bit of everything; not so each fifteen of the others.
    assert first or min(counts[what] for what in told) > 0
