"""Page of Delta's properties: ``python -m tests.unit.delta.properties_page`` writes it again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from spark_queue.log.delta.table_properties import FEATURES, PROPERTIES, Property

#: The page.
PAGE = Path(__file__).parents[3] / "docs" / "table-properties.md"

_OPENING = """\
# Properties and features of the tables

Others may set properties of a queue's tables, and turn features on: by hand, or by defaults of a
session or a platform. This page says what a queue does about each that Delta 4.4 documents.

| word | what it means |
|---|---|
| set | `create` sets it on both tables, against a session's defaults; `doctor` tells a change |
| kept | every writer of the queue keeps it |
| Spark | steps are left to Spark, which keeps it; without Spark it is refused by name |
| hint | Spark goes by it for files that it writes; no row depends on it |
| not | a queue cannot have it, and is refused by name |

`doctor` calls a change `property-changed`, and shows the statement that takes it back. An error
without Spark names the property or the feature, and how to take it back.

A column that is added to the item log (`ALTER TABLE ... ADD COLUMNS`) stops nobody: it is null in
what is enqueued, and claims do not have it. `doctor` tells it (`column-added`), with the command
that makes it a column of the queue.
"""

_WORDS = {"set": "set", "kept": "kept", "spark": "Spark", "hint": "hint", "not": "not"}


def page() -> str:
    """Return the text of the page."""
    properties = _table("Properties", "is set to", PROPERTIES)
    features = _table("Features", "comes with", FEATURES)
    return "\n".join([_OPENING, *properties, "", *features, ""])


def _table(title: str, value: str, rows: tuple[Property, ...]) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    yield f"| name | | {value} | what it is, or does |"
    yield "|---|---|---|---|"
    for one in rows:
        shown = f"`{one.value}`" if one.value.startswith("delta.") or title != "Features" else ""
        given = (shown or one.value) if one.value else ""
        yield f"| `{one.name}` | {_WORDS[one.treatment]} | {given} | {one.meaning} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
