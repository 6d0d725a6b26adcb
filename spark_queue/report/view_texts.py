"""The panels as texts of SQL, in the words that Spark and the engine in a process share.

Each is a file of ``sql/`` and one SELECT over views of the others' names. Three names they begin
with: ``sq_queue_log`` and ``sq_status_log``, the rows of the two logs as they are, and
``sq_asked``, one row that says what is asked:

- ``now``, ``since``: the instant that is shown, and the begin of the window;
- ``since_step``: the reader sees items of later steps of the item log;
- ``paused``, ``blocking``, ``group_limit``, ``max_in_flight``, ``max_losses``, ``max_age_us``: what
  is in force.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from functools import cache
from importlib import resources

from spark_queue.wording import shell_command, without_unsafe

#: The views, each after those that it is made of.
VIEWS = (
    "items",
    "moves",
    "touched",
    "standing",
    "reasons",
    "runnable",
    "failures",
    "wordings",
    "overview",
    "depth",
    "flow",
    "starving",
    "tenants",
    "errors",
    "retries",
    "groups",
    "workers",
    "steps",
    "behind",
    "outranked",
    "stuck",
    "history",
    "listed",
)

#: What several others are made of: worth keeping, where an engine would work it out for each.
SHARED = ("standing", "reasons", "failures", "wordings")

#: What of these depends on the instant that is asked about.
OF_NOW = ("reasons",)

#: The others, by what says which rows are in the place of former ones, when items have more rows in
#: the logs: what is said of an item goes by its own rows only.
BY_ITEMS = {"standing": "seq", "failures": "seq", "wordings": "said"}

#: The columns that the texts read of each log.
QUEUE_COLUMNS = (
    *("_kind", "_step", "_seq", "_priority", "_fair_key", "_group_key", "_available_at"),
    *("_expires_at", "_enqueued_at", "_duplicate_of", "_origin", "_errors"),
)
STATUS_COLUMNS = (
    *("_kind", "_step", "_seq", "_state", "_lease", "_attempts", "_losses", "_worker_id", "_at"),
    *("_lease_expires_at", "_available_at", "_expires_at", "_enqueued_at", "_error", "_body"),
)

_NAME = re.compile(r"\bsq_(?=[a-z])")

#: Comments for those who work on the library.
_MARKER = re.compile(r"^-- rule.*\n", re.MULTILINE)


@cache
def text_of(view: str) -> str:
    """Return the SELECT of a view, with its comment."""
    folder = resources.files(__package__) / "sql"
    return _MARKER.sub("", (folder / f"{view}.sql").read_text(encoding="utf-8"))


@cache
def required_views(view: str) -> tuple[str, ...]:
    """Return the views that a view is made of, directly or not, in order; the last is itself."""
    named = set(re.findall(r"\bsq_([a-z_]+)", text_of(view)))
    found = {other for one in VIEWS if one in named for other in required_views(one)} | {view}
    return tuple(one for one in VIEWS if one in found)


def with_views(query: str, kept: Collection[str]) -> str:
    """Return a query with the texts of the views that it names, but for those that are kept."""
    needed: dict[str, None] = {}
    _collect(query, kept, needed)
    # As with a view, what a reader asks for is all that is worked out.
    made = [f"sq_{name} AS NOT MATERIALIZED (\n{text_of(name)})" for name in needed]
    return f"WITH {', '.join(made)}\n{query}" if made else query


def _collect(text: str, kept: Collection[str], needed: dict[str, None]) -> None:
    """Add the views that a text names, each after those that it is made of."""
    named = set(re.findall(r"\bsq_([a-z_]+)", text))
    for name in VIEWS:
        if name in named and name not in kept and name not in needed:
            _collect(text_of(name), kept, needed)
            needed[name] = None


def replace_prefix(text: str, prefix: str) -> str:
    """Return a text over views whose names begin in another way than ``sq_``."""
    return _NAME.sub(prefix, text)


#: What is between single quotes, and in LIKE stands for itself, or for any one character.
_ANY_ONE = str.maketrans(dict.fromkeys("'\"\\`$!", "_"))
_MARKS = ("<id>", "<path>", "<n>")


def id_of(text: str | None) -> str:
    """Return the digest by which a fair key, a group or a wording is found (``listed.sql``)."""
    whole = "" if text is None else f"={text}"
    return hashlib.md5(whole.encode(), usedforsecurity=False).hexdigest()


def redrive_where(wording: str) -> str:
    """Return the predicate of the dead items of an error.

    Where the wording has a mark, anything may stand. Quotes and control characters may be any
    character, so that no shell, SQL or terminal takes them for its own. It is empty where nothing
    else is left: all would be meant.
    """
    pattern = without_unsafe(wording.translate(_ANY_ONE), "_")
    for mark in _MARKS:
        pattern = pattern.replace(mark, "%")
    if not pattern.strip("%_ \t\r"):
        return ""
    return f"_state = 'dead' AND _error LIKE '{pattern}%'"


def redrive_command(queue: str, reader: str, wording: str) -> str:
    """Return the command that enqueues an error's dead items again, to be pasted in a shell.

    It is empty where :func:`redrive_where` is.
    """
    where = redrive_where(wording)
    if not where:
        return ""
    words = ["spark-queue", "redrive", queue, "--where", where]
    return shell_command(*words, *(["--reader", reader] if reader else []))


def undo_command(queue: str, reader: str, step: int) -> str:
    """Return the command that takes a step back, to be pasted in a shell."""
    words = ["spark-queue", "undo", queue, str(step)]
    return shell_command(*words, *(["--reader", reader] if reader else []))
