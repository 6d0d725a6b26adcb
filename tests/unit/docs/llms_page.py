"""List of all pages for language models: ``python -m tests.unit.docs.llms_page`` writes it again.

Its form is that of https://llmstxt.org.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).parents[3]
_DOCS = _ROOT / "docs"

#: The list.
PAGE = _DOCS / "llms.txt"

_OPENING = """\
# spark-queue

> A work queue for Spark on two Delta tables: distinct, fair by key, serial per group. Items are
> rows, state is rows, a claim is a DataFrame. On a disk and on object stores it needs no Spark.

`LocalQueue` (no Spark) and `DeltaQueue` (a session of Spark) are one queue with the same verbs:
`create`, `open`, `enqueue`, `claim`, `process`, `status`, `dead`, `history`, `explain`, `stats`,
`report`, `doctor`, `cancel`, `redrive`, `purge`, `undo`, `pause`, `resume`,
`configure`, `maintain`."""

#: A line of the navigation: a section, or a page, perhaps with a name of its own.
_ENTRY = re.compile(r"^ +- (?:([^:\n]+): *)?(\S+\.md)?$", re.MULTILINE)


def page() -> str:
    """Return the text of the list."""
    return "\n".join([_OPENING, *_lines(), ""])


def _lines() -> Iterator[str]:
    nav = (_ROOT / "conf" / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    for section, path in _ENTRY.findall(nav):
        if not path:
            yield f"\n## {section}\n"
        elif path != "index.md":
            title, about = _about(_DOCS / path)
            yield f"- [{title}]({path}): {about}"


def _about(path: Path) -> tuple[str, str]:
    """Return the title of a page, and its first sentence."""
    title, _, rest = path.read_text(encoding="utf-8").removeprefix("# ").partition("\n")
    paragraphs = (" ".join(part.split()) for part in re.split(r"\n\s*\n", rest))
    first = next((part for part in paragraphs if part and part[0] not in "#|`:-!<"), "")
    first = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", first)
    return title, re.split(r"(?<=[.:;]) ", first)[0].rstrip(".:;") + "."


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
