"""Verbs of a queue by the ways into it, and the differences between them.

``python -m tests.conformance.verbs`` writes ``docs/verbs.md`` again.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spark_queue import Claim, DeltaQueue, DurableQueue, JournaledQueue, LocalClaim, LocalQueue
from spark_queue.local_queue import LocalReader
from spark_queue.memory.journal.journal_reader import JournalReader
from spark_queue.reader import Reader
from tests.conformance.engines import Capability
from tests.conformance.memory import MemoryEngine

#: What a user has with a session of Spark, and without one.
PAIRS: tuple[tuple[str, type[Any], type[Any]], ...] = (
    ("A queue", DeltaQueue, LocalQueue),
    ("A reader", Reader, LocalReader),
    ("A claim", Claim, LocalClaim),
)

_STREAMS = "streams are queries of Spark"
_OF_SESSION = "a setting of the session: `spark.sparkQueue.durability`"
_ROWS = "the items of a claim without Spark are rows of the process"

#: What only one of both has, by class and verb, or by class, verb and parameter; and why.
DIFFERENCES: dict[tuple[str, ...], str] = {
    ("DeltaQueue", "enqueue_stream"): _STREAMS,
    ("DeltaQueue", "process_stream"): _STREAMS,
    ("DeltaQueue", "read_stream"): _STREAMS,
    ("Reader", "process_stream"): _STREAMS,
    ("Reader", "advance"): _STREAMS,
    ("Reader", "stream"): _STREAMS,
    **{
        ("DeltaQueue", verb, "spark"): "a handle belongs to a session"
        for verb in ("create", "drop", "exists", "open")
    },
    ("LocalQueue", "create", "durability"): _OF_SESSION,
    ("LocalQueue", "open", "durability"): _OF_SESSION,
    ("LocalClaim", "rows"): _ROWS,
    ("LocalClaim", "table"): _ROWS,
}

#: What a verb needs of an engine of this suite; ``memory_queue`` makes a queue without a path.
NEEDS: dict[str, Capability] = dict.fromkeys(("clone", "create", "drop", "exists", "open"), "disk")

#: Verbs that are there without Spark, and refuse.
REFUSED = {("Claim", "items"), ("Claim", "settle")}

#: Fronts, whose verbs of the same name are shown.
FRONTS: dict[str, tuple[type[Any], ...]] = {
    "A queue": (DurableQueue, JournaledQueue),
    "A reader": (JournalReader,),
    "A claim": (DurableQueue, JournalReader),
}

#: Verbs of fronts that mean another thing.
HOMONYMS: set[tuple[str, type[Any], str]] = {
    ("A queue", DurableQueue, "dead"),
    ("A reader", JournalReader, "config"),
    ("A claim", JournalReader, "items"),
}

PAGE = Path(__file__).parents[2] / "docs" / "verbs.md"

_INTRO = """# Verbs

Which verb runs where. This page is made from the classes, and from what the engines of the
conformance suite can do: `python -m tests.conformance.verbs` writes it again. A verb has the same
parameters, defaults, results and errors wherever it runs.

Over Spark Connect everything runs that runs with Spark; only `process_stream` refuses `on_claim`.
A queue in memory is [made by a test](testing.md), and has no path.
"""


def verbs_of(owner: type[Any]) -> list[str]:
    """Return the public names of a class."""
    return sorted(name for name in dir(owner) if not name.startswith("_"))


def parameters(owner: type[Any], verb: str) -> dict[str, tuple[Any, ...]] | None:
    """Return what a verb takes, under one name in both classes; ``None`` for a property."""
    if isinstance(inspect.getattr_static(owner, verb), property):
        return None
    taken = inspect.signature(getattr(owner, verb)).parameters.values()
    return {one.name: (one.kind, one.default) for one in taken}


def differences() -> Iterator[tuple[str, ...]]:
    """Return what only one of two classes has: verbs, and parameters of a verb."""
    for _, ours, theirs in PAIRS:
        for owner, other in ((ours, theirs), (theirs, ours)):
            for verb in verbs_of(owner):
                if not hasattr(other, verb):
                    yield owner.__name__, verb
                    continue
                takes, other_takes = parameters(owner, verb) or {}, parameters(other, verb) or {}
                only = [name for name in takes if takes[name] != other_takes.get(name)]
                yield from ((owner.__name__, verb, name) for name in only)


def page() -> str:
    """Return the text of the page."""
    return "\n".join([_INTRO, *(_table(*pair) for pair in PAIRS), _told_differences()])


def _table(title: str, ours: type[Any], theirs: type[Any]) -> str:
    fronts = FRONTS[title]
    columns = [
        "Spark",
        "Connect",
        "without Spark",
        "in memory",
        *(f"`{f.__name__}`" for f in fronts),
    ]
    lines = [f"## {title}\n", f"| verb | {' | '.join(columns)} | what it does |"]
    lines.append("|---" * (len(columns) + 2) + "|")
    for verb in sorted({*verbs_of(ours), *verbs_of(theirs)}):
        by_spark, alone = hasattr(ours, verb), hasattr(theirs, verb)
        alone = alone and (ours.__name__, verb) not in REFUSED
        in_memory = alone and NEEDS.get(verb, "views") in MemoryEngine.capabilities
        runs = [
            by_spark,
            by_spark,
            alone,
            in_memory,
            *(_has(title, front, verb) for front in fronts),
        ]
        marks = " | ".join("yes" if one else "" for one in runs)
        lines.append(f"| `{verb}` | {marks} | {_summary(ours if by_spark else theirs, verb)} |")
    return "\n".join(lines) + "\n"


def _has(title: str, front: type[Any], verb: str) -> bool:
    return hasattr(front, verb) and (title, front, verb) not in HOMONYMS


def _summary(owner: type[Any], verb: str) -> str:
    said = inspect.getdoc(inspect.getattr_static(owner, verb)) or ""
    found = inspect.getattr_static(owner, verb)
    if isinstance(found, classmethod):
        said = inspect.getdoc(found.__func__) or ""
    first = " ".join(said.split("\n\n")[0].split())
    first = re.sub(r":\w+:`~?(?:\w+\.)*(\w+)`", r"`\1`", first).replace("``", "`")
    return first.replace("|", "\\|")


def _told_differences() -> str:
    lines = ["## Differences\n", "| only in | what | why |", "|---|---|---|"]
    for (owner, *parts), why in DIFFERENCES.items():
        what = parts[0] if len(parts) == 1 else f"{parts[0]}({parts[1]}=)"
        lines.append(f"| `{owner}` | `{what}` | {why} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
