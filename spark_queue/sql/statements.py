"""Texts of the rules, composed to statements.

Each is a file of ``texts/`` and one SELECT over tables of the others' names, in words that DuckDB
and Spark share. A name that ends in 2 is of the second stage of a claim: the same text over the
tables of that stage.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache
from importlib import resources

from spark_queue.log.schema import ENTERED_WITH, SCHEDULE
from spark_queue.rules.fairness import ROUNDER, UNIT

#: How the texts name a table.
_NAME = re.compile(r"\bsq_(\w+)")

#: The first line of a view: its name and its columns, and which of them are instants.
_HEAD = re.compile(r"-- (\w+)\((.+)\)\n")
INSTANT = "instant"

#: What a text says of itself.
_COMMENT = re.compile(r"\A(?:--.*\n)+")

#: How they list the columns of the schedule: those of a row; of another row, what the first leaves
#: out; or of the other some that are named. A row of the name NULL has nothing.
_SCHEDULE = re.compile(r"\$schedule\((\w+)(?:, (\w+))?(?:: ([\w, ]+))?\)")

#: How they name the numbers by which others are rounded, so that sums of them are exact.
_EXACT = {"$unit": f"{UNIT!r}", "$rounder": f"{ROUNDER:.1f}e0"}

#: Tables that the second stage has of its own.
_STAGED = frozenset(
    (
        *("eligible", "pointers", "lines", "placed", "late_lines", "late_turns"),
        *("overdue", "of_late", "slots", "timed", "ranked"),
    )
)


def statement(
    name: str, there: Collection[str], variants: Mapping[str, str], limit: int = 0
) -> str:
    """Return the SELECT of a table, with all that it is made of.

    Parameters
    ----------
    name : str
        The table.
    there : collection of str
        The tables that the engine has by now.
    variants : mapping
        The file that is read for a table in the place of its own.
    limit : int
        How many rows are wanted.
    """
    text = query(_text_of(name, _file_of(name, variants)), there, variants)
    return text.replace("$limit", str(limit))


def query(
    text: str, there: Collection[str], variants: Mapping[str, str], *, inlined: bool = False
) -> str:
    """Return a query with the texts of the tables that it names.

    Parameters
    ----------
    text : str
        The query.
    there, variants
        As for :func:`statement`.
    inlined : bool
        Whether the engine, as of a view, works out no more of a table than is asked for.
    """
    bodies: dict[str, str] = {}
    _collect(text, there, variants, bodies)
    how = "AS NOT MATERIALIZED" if inlined else "AS"
    made = ",\n".join(f"sq_{name} {how} (\n{body})" for name, body in bodies.items())
    if not made:
        return text
    # A text may begin with tables of its own.
    return f"WITH {made},\n{text[5:]}" if text.startswith("WITH ") else f"WITH {made}\n{text}"


@cache
def columns_of(name: str) -> Mapping[str, bool]:
    """Return the columns of a view, by its first line, each with whether it is an instant."""
    head = _HEAD.match(_read(name) or "")
    if head is None or head[1] != name:
        raise LookupError(f"the first line of sq_{name} does not say what its columns are")
    words = [column.split() for column in head[2].split(", ")]
    return {column: kind == [INSTANT] for column, *kind in words}


def text_of(name: str) -> str:
    """Return the text of a table, without what it says of itself."""
    return _text_of(name, name)


def comment_of(name: str) -> str:
    """Return what a text says of itself, in its first lines."""
    found = _COMMENT.match(_read(name) or "")
    return "" if found is None else found[0]


@cache
def needed_by(name: str) -> frozenset[str]:
    """Return the tables that a table is made of, directly or not."""
    direct = set(_NAME.findall(_read(name) or ""))
    return frozenset(direct.union(*map(needed_by, direct)))


def leaves_of(name: str, there: Collection[str], variants: Mapping[str, str]) -> list[str]:
    """Return the tables that a text is made of, that no text makes and the engine lacks."""
    if name in there:
        return []
    text = _read(_file_of(name, variants))
    return [name] if text is None else leaves_in(text, there, variants)


def leaves_in(text: str, there: Collection[str], variants: Mapping[str, str]) -> list[str]:
    """Return the same of a query."""
    found = (leaves_of(other, there, variants) for other in dict.fromkeys(_NAME.findall(text)))
    return list(dict.fromkeys(leaf for leaves in found for leaf in leaves))


def over(text: str, tables: Collection[str]) -> tuple[str, set[str]]:
    """Return a statement with its tables in braces, and which of some it names."""
    used = {name for name in _NAME.findall(text) if name in tables}
    # Braces of a pattern are no tables.
    text = text.replace("{", "{{").replace("}", "}}")
    return _NAME.sub(lambda found: f"{{{found[0]}}}" if found[1] in used else found[0], text), used


def _collect(
    text: str, there: Collection[str], variants: Mapping[str, str], bodies: dict[str, str]
) -> None:
    """Add the tables that a text names, each after those that it is made of."""
    for name in dict.fromkeys(_NAME.findall(text)):
        if name not in bodies and name not in there:
            body = _text_of(name, _file_of(name, variants))
            _collect(body, there, variants, bodies)
            bodies[name] = body


def _file_of(name: str, variants: Mapping[str, str]) -> str:
    if name in variants or _read(name) is not None:
        return variants.get(name, name)
    base = name.removesuffix("2")
    return variants.get(base, base)


@cache
def _text_of(name: str, file: str) -> str:
    text = _read(file)
    if text is None:
        raise LookupError(f"there is no text of sq_{name}, and no table")
    text = _COMMENT.sub("", text)
    if not name.endswith("2") or file.endswith("2"):
        return text
    return _NAME.sub(lambda found: found[0] + "2" if found[1] in _STAGED else found[0], text)


@cache
def _read(file: str) -> str | None:
    path = resources.files(__package__) / "texts" / f"{file}.sql"
    if not path.is_file():
        return None
    text = path.read_text(encoding="utf-8")
    for name, number in _EXACT.items():
        text = text.replace(name, number)
    return _SCHEDULE.sub(_list_columns, text)


def _list_columns(found: re.Match[str]) -> str:
    """Return the columns of a schedule that a text asks for."""
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
