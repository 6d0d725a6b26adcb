from __future__ import annotations

import doctest
from pathlib import Path

import pytest

_DOCS = Path(__file__).parents[3] / "docs"
_PAGES = sorted(page for page in _DOCS.glob("*.md") if ">>> " in page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.stem)
def test_examples_of_a_page_give_what_it_shows(page: Path) -> None:
    """Every example in the documents runs, and prints what stands below it."""
    outcome = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert outcome.attempted > 0
    assert outcome.failed == 0


def test_pages_with_examples_are_found() -> None:
    """The queues in memory have a page each, with examples to run."""
    names = {page.stem for page in _PAGES}
    assert names >= {
        "blocking-queue",
        "distinct-queue",
        "fair-queue",
        "idempotency",
        "journal",
        "queue-broker",
        "singular-update-queue",
    }
