"""Catalogue of views: the files of ``texts/``, one for each command or question.

A file says what it is about, which files of views it uses, and which tables of the engine. Then
come its views, each made of those and of views above it: a line with the name and all columns, a
comment, and a SELECT in words that DuckDB and Spark share. A view names another as ``sq_<name>``,
and a phrase of ``phrases.sql``, which views of several files have in common, as ``$<name>(...)``.
Another text of the same view, for a special case, follows it under a name that says which.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import takewhile

from spark_queue.log.schema import ENTERED_WITH, SCHEDULE
from spark_queue.rules.fairness import ROUNDER, UNIT

#: How a view names a table.
NAME = re.compile(r"\bsq_(\w+)")

#: Where a view begins: its name and its columns, some of them instants. It follows an empty line.
_HEAD = re.compile(r"\n\n-- (\w+)\(([^()]+)\)\n")
_INSTANT = " instant"

#: The columns of the schedule: those of a row; of another row, what the first leaves out; or of the
#: other some that are named. A row of the name NULL has nothing.
_SCHEDULE = re.compile(r"\$schedule\((\w+)(?:, (\w+))?(?:: ([\w, ]+))?\)")

#: A phrase with its words, of which one may call a function; and what stands between them.
_PHRASE = re.compile(r"\$(\w+)\(([^()]*(?:\([^()]*\)[^()]*)*)\)")
_BETWEEN = re.compile(r",\s+(?![^(]*\))")
_WORD = re.compile(r"\$(\w+)")

#: The numbers by which others are rounded, so that sums of them are exact.
_EXACT = {"$unit": f"{UNIT!r}", "$rounder": f"{ROUNDER:.1f}e0"}


@dataclass(frozen=True, slots=True)
class View:
    """A named SELECT."""

    file: str
    columns: Mapping[str, bool]
    """Whether each is an instant, in microseconds since 1970."""
    comment: str
    text: str
    tables: tuple[str, ...]
    """The tables that it names, without ``sq_``."""


@cache
def views() -> Mapping[str, View]:
    """Return all views by name, those of a file in their order."""
    files = sorted((resources.files(__package__) / "texts").iterdir(), key=lambda file: file.name)
    return {
        name: view
        for file in files
        if file.name.endswith(".sql")
        for name, view in read(file.name, file.read_text(encoding="utf-8")).items()
    }


def read(file: str, text: str) -> dict[str, View]:
    """Return the views of a file by name."""
    _, *parts = _HEAD.split(text)
    return {
        name: _view(file, columns, body)
        for name, columns, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    }


def _view(file: str, columns: str, body: str) -> View:
    comment = "".join(takewhile(lambda line: line.startswith("--"), body.splitlines(keepends=True)))
    text = body.removeprefix(comment).strip() + "\n"
    text = _SCHEDULE.sub(_list_columns, text)
    while _PHRASE.search(text):
        text = _PHRASE.sub(_say, text)
    for name, number in _EXACT.items():
        text = text.replace(name, number)
    kinds = {c.removesuffix(_INSTANT): c.endswith(_INSTANT) for c in columns.split(", ")}
    return View(file, kinds, comment, text, tuple(dict.fromkeys(NAME.findall(text))))


@cache
def _phrases() -> Mapping[str, tuple[list[str], str]]:
    """Return the words and the text of each phrase."""
    text = (resources.files(__package__) / "phrases.sql").read_text(encoding="utf-8")
    _, *parts = _HEAD.split(text)
    return {
        name: (words.split(", "), re.sub(r"^--.*\n", "", body, flags=re.MULTILINE).strip())
        for name, words, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    }


def _say(found: re.Match[str]) -> str:
    """Return the text of a phrase that a view names."""
    words, text = _phrases()[found[1]]
    said = dict(zip(words, _BETWEEN.split(found[2].strip()), strict=True))
    return _WORD.sub(lambda word: said.get(word[1], word[0]), text)


def _list_columns(found: re.Match[str]) -> str:
    """Return the columns of a schedule that a view asks for."""
    row, other, named = found.groups()
    some = [] if named is None else named.split(", ")
    return ", ".join(_column(column.removeprefix("_"), row, other, some) for column in SCHEDULE)


def _column(name: str, row: str, other: str | None, some: Collection[str]) -> str:
    if name in some:
        return f"{other}.{name}"
    if row == "NULL":
        return row
    if other is None or some or f"_{name}" not in ENTERED_WITH:
        return f"{row}.{name}"
    return f"coalesce({row}.{name}, {other}.{name}) AS {name}"
