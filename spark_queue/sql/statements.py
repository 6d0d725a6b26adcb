"""Statements made of the views of the catalogue.

A claim that finds no slot left has a second stage, for items whose leases ran out. Its views have
names that end in :data:`SECOND`. Some have a text of their own; the others are derived here: the
text of the first stage, over the tables of the second.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache

from spark_queue.sql.catalogue import NAME, views

#: How the name of a view of the second stage ends.
SECOND = "_when_full"

#: Tables that the second stage has of its own.
STAGED = frozenset(
    (
        *("startable_items", "line_turns", "eligible_items", "overdue_lines", "overdue_turns"),
        *("overdue_line_items", "line_slots", "with_slot", "ranked_items"),
    )
)


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
        The view whose text is read in the place of another's own.
    limit : int
        How many rows are wanted.
    """
    text = query(text_of(name, variants), there, variants)
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
    _collect(text, there, variants, bodies)
    how = "AS NOT MATERIALIZED" if inlined else "AS"
    made = ",\n".join(f"sq_{name} {how} (\n{body})" for name, body in bodies.items())
    if not made:
        return text
    # A text may begin with tables of its own.
    return f"WITH {made},\n{text[5:]}" if text.startswith("WITH ") else f"WITH {made}\n{text}"


@cache
def needed_by(name: str) -> frozenset[str]:
    """Return the tables that a view is made of, directly or not."""
    view = views().get(name)
    tables = () if view is None else view.tables
    return frozenset(tables).union(*map(needed_by, tables))


def leaves_of(name: str, there: Collection[str], variants: Mapping[str, str]) -> list[str]:
    """Return the tables that a view is made of, that are no views and the engine lacks."""
    if name in there:
        return []
    view = views().get(_text_name(name, variants))
    return [name] if view is None else leaves_in(view.text, there, variants)


def leaves_in(text: str, there: Collection[str], variants: Mapping[str, str]) -> list[str]:
    """Return the same of a query."""
    found = (leaves_of(other, there, variants) for other in dict.fromkeys(NAME.findall(text)))
    return list(dict.fromkeys(leaf for leaves in found for leaf in leaves))


def over(text: str, tables: Collection[str]) -> tuple[str, set[str]]:
    """Return a statement with its tables in braces, and which of some it names."""
    used = {name for name in NAME.findall(text) if name in tables}
    # Braces of a pattern are no tables.
    text = text.replace("{", "{{").replace("}", "}}")
    return NAME.sub(lambda found: f"{{{found[0]}}}" if found[1] in used else found[0], text), used


def _collect(
    text: str, there: Collection[str], variants: Mapping[str, str], bodies: dict[str, str]
) -> None:
    """Add the views that a text names, each after those that it is made of."""
    for name in dict.fromkeys(NAME.findall(text)):
        if name not in bodies and name not in there:
            body = text_of(name, variants)
            _collect(body, there, variants, bodies)
            bodies[name] = body


def text_of(name: str, variants: Mapping[str, str]) -> str:
    """Return the text of a view, or of the one that is read in its place."""
    return _text(_text_name(name, variants), is_second=name.endswith(SECOND))


def _text_name(name: str, variants: Mapping[str, str]) -> str:
    """Return the name under which the text of a view stands in the catalogue."""
    first = name if name in variants or name in views() else name.removesuffix(SECOND)
    return variants.get(first, first)


@cache
def _text(name: str, *, is_second: bool) -> str:
    view = views().get(name)
    if view is None:
        raise LookupError(f"there is no view sq_{name}, and no table")
    if not is_second or name.endswith(SECOND):
        return view.text
    return NAME.sub(lambda f: f[0] + SECOND if f[1] in STAGED else f[0], view.text)
