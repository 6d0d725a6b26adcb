"""Page of all errors: ``python -m tests.unit.docs.errors_page`` writes it again."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from spark_queue import errors

#: The page.
PAGE = Path(__file__).parents[3] / "docs" / "troubleshooting.md"

_OPENING = """\
# Troubleshooting, by error

Each error names the thing, its value and the way out, and ends a command with a line and an exit
code. A bad call has changed nothing. This page is made of `spark_queue/errors.py`, where
[what each error carries](api/errors.md) is said. What is wrong with a queue that raises nothing is
found by `spark-queue doctor` and [explained by question](operations.md).

| error | raised | what to do |
|---|---|---|"""

#: A line of the tree in the docstring of the module: a name, and what to do.
_BRANCH = re.compile(r"[│ ]*[├└]── (\w+) +(.+?)(?: {2,}\(\S+\)| \((?:OSError)\))?$", re.MULTILINE)


def page() -> str:
    """Return the text of the page."""
    return "\n".join([_OPENING, *_lines(), ""])


def advice() -> dict[str, str]:
    """Return what to do about each error that the tree in the module names."""
    return dict(_BRANCH.findall(inspect.getdoc(errors) or ""))


def _lines() -> Iterator[str]:
    for name, way_out in advice().items():
        said = inspect.getdoc(getattr(errors, name)) or ""
        first = " ".join(said.split("\n\n")[0].split()).removeprefix("Raised ").rstrip(".")
        yield f"| `{name}` | {first} | {way_out} |".replace("``", "`")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
