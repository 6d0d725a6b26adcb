"""Views of SQL that decide steps and answer questions, and the statements that are made of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from importlib import resources
from itertools import takewhile
from types import MappingProxyType

import pyarrow as pa

from spark_queue.config import SETTINGS, QueueConfig, Setting
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


#: How the name of a view of the second stage ends.
SECOND = "_when_full"

#: How the name of a view of a claim ends that is asked over the status of the items.
OF_STATUS = "_of_status"

_ENDS = (SECOND, OF_STATUS)


def statement(
    name: str, there: Collection[str], variants: Mapping[str, str], limit: int = 0
) -> str:
    """Return the SELECT of a view, with all that it is made of.

    Parameters
    ----------
    name : str
        The view.
    there : collection of str
        The tables that the engine has by now.
    variants : mapping
        By the name of a view, the other view whose text is used.
    limit : int
        How many rows are wanted.
    """
    text = query(_require_view(name, variants).text, there, variants)
    return text.replace("$limit", str(limit))


def query(
    text: str, there: Collection[str], variants: Mapping[str, str], *, inlined: bool = False
) -> str:
    """Return a query with the views that it names.

    Parameters
    ----------
    text : str
        The query.
    there, variants
        As for :func:`statement`.
    inlined : bool
        Whether the engine works out no more of a view than is asked for.
    """
    bodies: dict[str, str] = {}
    _collect(NAME.findall(text), there, variants, bodies)
    how = "AS NOT MATERIALIZED" if inlined else "AS"
    made = ",\n".join(f"sq_{name} {how} (\n{body})" for name, body in bodies.items())
    if not made:
        return text
    # A text may begin with tables of its own.
    return f"WITH {made},\n{text[5:]}" if text.startswith("WITH ") else f"WITH {made}\n{text}"


@cache
def needed_by(name: str) -> frozenset[str]:
    """Return the tables that a view is made of, directly or not."""
    view = view_of(name)
    tables = () if view is None else view.tables
    return frozenset(tables).union(*map(needed_by, tables))


def leaves_of(
    tables: Iterable[str], there: Collection[str], variants: Mapping[str, str]
) -> list[str]:
    """Return the tables below some, that are no views, and that the engine lacks."""
    found: dict[str, None] = {}
    for name in tables:
        if name not in there:
            view = view_of(name, variants)
            found |= dict.fromkeys(
                [name] if view is None else leaves_of(view.tables, there, variants)
            )
    return list(found)


def over(text: str, tables: Collection[str]) -> tuple[str, set[str]]:
    """Return a statement with its tables in braces, and which of some it names."""
    used = {name for name in NAME.findall(text) if name in tables}
    # Braces of a pattern are no tables.
    text = text.replace("{", "{{").replace("}", "}}")
    return NAME.sub(lambda found: f"{{{found[0]}}}" if found[1] in used else found[0], text), used


def _collect(
    tables: Iterable[str],
    there: Collection[str],
    variants: Mapping[str, str],
    bodies: dict[str, str],
) -> None:
    """Add the texts of views, each after its own tables."""
    for name in tables:
        if name not in bodies and name not in there:
            view = _require_view(name, variants)
            _collect(view.tables, there, variants, bodies)
            bodies[name] = view.text


def _require_view(name: str, variants: Mapping[str, str]) -> View:
    view = view_of(name, variants)
    if view is None:
        raise LookupError(f"there is no view sq_{name}, and no table")
    return view


def view_of(name: str, variants: Mapping[str, str] = MappingProxyType({})) -> View | None:
    """Return a view, or its variant; ``None`` for a table."""
    end = next((end for end in _ENDS if name.endswith(end)), "")
    first = name if name in variants or name in views() else name.removesuffix(end)
    return _of_stage(variants.get(first, first), end)


@cache
def _of_stage(name: str, end: str) -> View | None:
    """Return a view of the catalogue, over the tables of a stage."""
    view = views().get(name)
    if view is None or not end or name.endswith(end):
        return view
    tables = {table: table + end if _has_own(table, end) else table for table in view.tables}
    text = NAME.sub(lambda found: f"sq_{tables[found[1]]}", view.text)
    return replace(view, text=text, tables=tuple(tables.values()))


def _has_own(table: str, end: str) -> bool:
    """Tell whether a table is another one in a stage."""
    names = () if table.endswith(end) else (table, *needed_by(table))
    return any(name + end in views() for name in names)


#: Their names and types.
SETTING_COLUMNS: tuple[tuple[str, pa.DataType], ...] = (
    *((row.name, pa.int64()) for row in SETTINGS if row.is_asked),
    ("blocking", pa.bool_()),
)


def setting_values(config: QueueConfig) -> dict[str, object]:
    """Return the values of these columns under a configuration."""
    counts = {row.name: _number(getattr(config, row.name)) for row in SETTINGS if row.is_asked}
    return {**counts, "blocking": config.on_failure == "block"}


def _number(value: int | timedelta | None) -> int | None:
    return value // timedelta(microseconds=1) if isinstance(value, timedelta) else value


def setting_columns_of(text: str) -> list[str]:
    """Return SQL of Spark for the same columns, over a configuration in JSON."""
    counts = [f"{_column_of(text, row)} AS {row.name}" for row in SETTINGS if row.is_asked]
    return [*counts, f"get_json_object({text}, '$.config.on_failure') = 'block' AS blocking"]


def _column_of(text: str, row: Setting) -> str:
    said = f"get_json_object({text}, '$.config.{row.name}')"
    if row.kind != "duration":
        return f"cast({said} AS bigint)"
    # An older queue has no such setting.
    return f"cast(round(coalesce(cast({said} AS double), 0) * 1000000) AS bigint)"
