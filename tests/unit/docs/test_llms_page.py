from __future__ import annotations

from tests.unit.docs import llms_page


def test_the_list_for_language_models_has_each_page_of_the_site() -> None:
    """It is made of the navigation of the site, and of the titles and first sentences of pages."""
    text = llms_page.PAGE.read_text(encoding="utf-8")

    assert text == llms_page.page()
    assert text.count("](") >= 35
