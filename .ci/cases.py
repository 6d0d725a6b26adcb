"""Print which of the owed cases no test cites: ``python .ci/cases.py``.

A case is one behaviour that the queues owe, known by its id, such as ``BQ-07``. A test
cites it in its name, in its docstring, or in the id of a parameter; ``QG-01..07`` cites seven. The
exit code is 1 when a case is missing, or a test cites one that is not known.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

#: How many cases each family has, numbered from 1 on, and what it is about.
OWED = {
    "FQ": (34, "fair queue"),
    "DQ": (22, "distinct queue"),
    "SU": (26, "singular update queue"),
    "BQ": (24, "blocking queue"),
    "WQ": (11, "line of waiters"),
    "QB": (51, "queue broker"),
    "QS": (22, "task scheduler of the broker"),
    "QG": (25, "guards"),
    "QL": (8, "locks by name"),
    "AB": (8, "aborts"),
    "IS": (15, "idempotency keys"),
    "JR": (12, "readers of a journal"),
    "JQ": (42, "journaled queue"),
    "JB": (6, "journaled queue, auto-commit and transactions"),
    "PS": (7, "durability of puts"),
    "JN": (23, "journal"),
    "KP": (49, "persistent queue"),
    "KC": (26, "fan-out and expiry between queues"),
    "KH": (21, "open reads of a client"),
    "KT": (6, "many at once"),
    "K3": (6, "limits of readers, and where items go"),
    "LB": (22, "edges of the journaled queue"),
    "FC": (58, "flow control by key"),
}

#: What nothing is owed for: numbers that were never given to a case, and cases that have no meaning
#: here; ``docs/journal.md`` says why.
_NOT_OWED = {
    "QB": range(31, 40),
    "JR": range(10, 13),
    "JN": (1, 2, 3, 4, 6, 8, 9, 10, 20, 21),
    "KP": (*range(10, 16), 19, 20, 48, 49),
    "KC": (4, 7, 8, *range(16, 27)),
    "KH": (7, 12, 19),
    "KT": (3,),
    "LB": (20,),
}

#: What each case is that has words of its own; its family has no others.
TOLD: dict[str, str] = json.loads(Path(__file__).with_name("cases.json").read_text("utf-8"))

UNUSED = {f"{name}-{number:02}" for name, numbers in _NOT_OWED.items() for number in numbers}
UNUSED |= {case for n in range(1, OWED["FC"][0]) if (case := f"FC-{n:02}") not in TOLD}

_CITATION = re.compile(
    r"(?<![A-Z\d])([A-Z][A-Z\d])[-_](\d{2})(?!\d)(?:\.\.(?:[A-Z][A-Z\d]-)?(\d{2}))?"
)

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def owed() -> list[str]:
    """Return every case that needs a test, in order."""
    ids = [f"{name}-{i:02}" for name, (count, _) in OWED.items() for i in range(1, count + 1)]
    return [case for case in ids if case not in UNUSED]


def cited(text: str) -> Iterator[str]:
    """Yield the cases of known families that a text names, ranges spelt out."""
    for name, first, last in _CITATION.findall(text):
        if name in OWED:
            for number in range(int(first), int(last or first) + 1):
                yield f"{name}-{number:02}"


def citations(source: str) -> Iterator[str]:
    """Yield what the tests of one file cite."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _Function) and node.name.startswith("test_"):
            yield from cited(" ".join(_words(node)))


def _words(test: _Function) -> Iterator[str]:
    yield test.name.upper()
    yield ast.get_docstring(test) or ""
    for decorator in test.decorator_list:
        for node in ast.walk(decorator):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def _name(case: str) -> str:
    return f"{case} ({TOLD[case]})" if case in TOLD else case


def count(files: Iterable[Path]) -> Counter[str]:
    """Count how many tests cite each case."""
    return Counter(case for file in files for case in set(citations(file.read_text("utf-8"))))


def main() -> int:
    """Print a line for each family and return the exit code."""
    found = count(sorted((ROOT / "tests").rglob("*.py")))
    cases = owed()
    for name, (_, what) in OWED.items():
        family = [case for case in cases if case.startswith(name)]
        missing = [case for case in family if case not in found]
        print(f"{name}  {len(family) - len(missing):>3} of {len(family):<3} {what}")
        if missing:
            print(f"      no test: {', '.join(map(_name, missing))}")
    unknown = sorted(set(found) - set(cases))
    if unknown:
        print(f"cited, and not known: {', '.join(unknown)}")
    return 1 if unknown or any(case not in found for case in cases) else 0


if __name__ == "__main__":
    sys.exit(main())
