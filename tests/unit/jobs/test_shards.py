"""The page on shards shows the last run of the job that plays them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

_PAGE = Path(__file__).parents[3] / "docs" / "beyond-one-log.md"


def test_the_page_shows_what_the_job_prints(script: Callable[[str], Any]) -> None:
    """Its table is the one of a run, to the last digit."""
    assert script("shards").markdown() in _PAGE.read_text(encoding="utf-8")


def test_each_claim_goes_to_one_shard(script: Callable[[str], Any]) -> None:
    """With one shard every tenant has its turns, no more and no fewer, whoever chooses."""
    shards = script("shards")
    for choose in (shards.attached, shards.drawn, shards.behind):
        assert shards.turns(1, 50, choose) == (1.0, 1.0)


def test_workers_of_shards_without_tenants_are_idle(script: Callable[[str], Any]) -> None:
    """Ten tenants in many shards leave most workers that have a shard each without work."""
    shards = script("shards")
    assert shards.turns(20, 10, shards.attached)[1] <= 0.5
    assert shards.turns(20, 10, shards.behind) == (1.0, 1.0)
