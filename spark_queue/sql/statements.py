"""Statements made of the views of the catalogue.

A claim that finds no slot left has a second stage, for items whose leases ran out. Its views have
names that end in :data:`SECOND`. Some stand in the catalogue. The others are derived here, of views
that are made of those: each is the text of the first stage, over tables of the second. A report
asks the views of a claim in the same way, over the status of the items: by :data:`OF_STATUS`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import cache
from types import MappingProxyType

from spark_queue.sql.catalogue import NAME, View, views

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
