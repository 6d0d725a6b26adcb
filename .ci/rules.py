"""Registry of rules: ``python .ci/rules.py [--write]``.

A comment marks each place of a rule that ``rules.json`` names: ``# rule: room of a claim`` above
the definition that says it, or above a test that is a law of it; in SQL ``-- rule: ...``. A
definition that says it once more has ``# rule again: ...``. ``--write`` makes ``docs/rules.md``.
The exit code is 1 where a marker leads nowhere, a rule lacks something, or the page is stale.
"""

from __future__ import annotations

import ast
import difflib
import io
import json
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

#: The rules by the part of a queue that they are about.
REGISTRY = Path(__file__).with_name("rules.json")

_PAGE = "docs/rules.md"
_PACKAGE = "spark_queue/"
_MARKER = re.compile(r"(?:#|--) rule( again)?: *(.*?) *", re.MULTILINE)
#: The first line of a view of SQL.
_HEAD = re.compile(r"^-- (\w+)\(", re.MULTILINE)
_MADE = "<!-- made by `python .ci/rules.py --write` -->"

_INTRODUCTION = """\
A rule is named by a comment wherever it stands: `# rule: room of a claim` above a definition, or
above a test that is a law of it, and `-- rule: room of a claim` in SQL. So one search finds all of
it. A rule is to be said twice at most: for an item at a time in Python, and for sets of items in
SQL. Code that says it once more has `# rule again:`, and is to go ([ADR 38](adr/0038-rules.md)).
Paths are below `spark_queue/`, those of laws below `tests/`.
"""

_Named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the registry."""

    part: str
    """The part of a queue that it is about."""
    name: str
    says: str
    """The rule, in a sentence."""
    adr: int
    """The decision that tells why."""
    sets: bool
    """Whether SQL has it for sets of items."""


@dataclass(frozen=True, slots=True)
class Marker:
    """A comment that names a rule."""

    rule: str
    path: str
    line: int
    name: str
    """The definition that it stands above, or in, or the view of SQL whose comment has it."""
    is_repeated: bool
    """Whether the rule stands elsewhere already."""

    @property
    def is_law(self) -> bool:
        """Whether it marks a test."""
        return not self.path.startswith(_PACKAGE)

    @property
    def kind(self) -> str:
        """What it is to the rule."""
        if self.is_law:
            return "Laws"
        if self.is_repeated:
            return "Again"
        return "SQL" if self.path.endswith(".sql") else "Python"


def read_rules() -> list[Rule]:
    """Return the rules of the registry."""
    parts = json.loads(REGISTRY.read_text("utf-8"))
    return [
        Rule(part, name, facts["says"], facts["adr"], facts["sets"])
        for part, rules in parts.items()
        for name, facts in rules.items()
    ]


def read_markers(root: Path) -> list[Marker]:
    """Return the markers of a project, in the order of their places."""
    files = [*(root / _PACKAGE).rglob("*.py"), *(root / _PACKAGE).rglob("*.sql")]
    files += (root / "tests").rglob("*.py")
    return [marker for file in sorted(files) for marker in _markers_of(root, file)]


def _markers_of(root: Path, file: Path) -> Iterator[Marker]:
    text = file.read_text("utf-8")
    if _MARKER.search(text) is None:
        return
    path, is_sql = file.relative_to(root).as_posix(), file.suffix == ".sql"
    for line, comment in enumerate(text.splitlines(), 1) if is_sql else _comments(text):
        found = _MARKER.fullmatch(comment)
        if found is not None:
            name = _view(text, line) if is_sql else _definition(text, line)
            for rule in found[2].split(", "):
                yield Marker(rule, path, line, name, is_repeated=found[1] is not None)


def _comments(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _view(text: str, line: int) -> str:
    """Return the view of SQL whose comment a line is in."""
    heads = _HEAD.findall("\n".join(text.splitlines()[:line]))
    return heads[-1] if heads else ""


def _definition(text: str, line: int) -> str:
    """Return the function, class or constant below a comment, or else the one around it."""
    lines = text.splitlines()
    below = line + 1
    while below <= len(lines) and lines[below - 1].lstrip()[:1] in ("", "#"):
        below += 1
    found = ""
    for name, first, begin, end in _definitions(ast.parse(text), ""):
        if first == below or begin <= line <= end:
            found = name
    return found


def _definitions(node: ast.AST, prefix: str) -> Iterator[tuple[str, int, int, int]]:
    """Yield name, first line with decorators, and extent of definitions, outer ones first."""
    for child in ast.iter_child_nodes(node):
        inner = prefix
        if isinstance(child, _Named):
            first = min([child.lineno, *(one.lineno for one in child.decorator_list)])
            yield prefix + child.name, first, child.lineno, child.end_lineno or child.lineno
            inner = f"{prefix}{child.name}."
        elif isinstance(child, ast.Assign) and isinstance(child.targets[0], ast.Name):
            yield prefix + child.targets[0].id, child.lineno, child.lineno, child.lineno
        yield from _definitions(child, inner)


def find_faults(root: Path, rules: Sequence[Rule], markers: Sequence[Marker]) -> list[str]:
    """Return what is wrong with markers and rules, a line each."""
    names = [rule.name for rule in rules]
    faults = []
    for one in markers:
        at = f"{one.path}:{one.line}: rule {one.rule!r}"
        if one.rule not in names:
            near = "".join(
                f"; did you mean {n!r}?" for n in difflib.get_close_matches(one.rule, names, 1)
            )
            faults.append(f"{at} is not in .ci/rules.json{near}")
        elif not one.name:
            faults.append(f"{at} marks nothing: put it above a definition")
    for rule in rules:
        faults += [f"rule {rule.name!r} {lack}" for lack in _lacks(root, rule, markers)]
    return faults


def _lacks(root: Path, rule: Rule, markers: Sequence[Marker]) -> Iterator[str]:
    kinds = {one.kind for one in markers if one.rule == rule.name}
    if "Python" not in kinds:
        yield "has no place in Python: mark its definition"
    if rule.sets and "SQL" not in kinds:
        yield "has no place in SQL: mark its text, or say in .ci/rules.json that it has none"
    if "Laws" not in kinds:
        yield "has no law: mark a test"
    if _adr_of(root, rule) is None:
        yield f"names ADR {rule.adr}, which is not in docs/adr"


def _adr_of(root: Path, rule: Rule) -> Path | None:
    return next(iter((root / "docs" / "adr").glob(f"{rule.adr:04}-*.md")), None)


def _count(rule: Rule, markers: Sequence[Marker]) -> int:
    return sum(one.rule == rule.name and not one.is_law for one in markers)


def _mean(rules: Sequence[Rule], markers: Sequence[Marker]) -> str:
    places = sum(_count(rule, markers) for rule in rules)
    repeated = sum(one.is_repeated and not one.is_law for one in markers)
    return (
        f"{len(rules)} rules stand in {places} places, {places / max(1, len(rules)):.1f} each;"
        f" {repeated} of the places say a rule again"
    )


def render(root: Path, rules: Sequence[Rule], markers: Sequence[Marker]) -> str:
    """Return the page of the rules."""
    lines = ["# Rules", "", _MADE, "", _INTRODUCTION, f"{_mean(rules, markers)}."]
    part = ""
    for rule in rules:
        if rule.part != part:
            part = rule.part
            lines += ["", f"## {part}"]
        mine = [one for one in markers if one.rule == rule.name]
        lines += ["", f"### {rule.name[:1].upper()}{rule.name[1:]}", ""]
        lines += [f"{rule.says} ([ADR {rule.adr}]({_link(root, rule)}))", ""]
        for kind in ("Python", "SQL", "Again", "Laws"):
            if places := [one for one in mine if one.kind == kind]:
                lines.append(f"- {kind}: {_list_places(places)}")
    return "\n".join(lines) + "\n"


def _link(root: Path, rule: Rule) -> str:
    adr = _adr_of(root, rule)
    return "" if adr is None else adr.relative_to(root / "docs").as_posix()


def _list_places(places: Sequence[Marker]) -> str:
    """Return places as text, the definitions of a file behind its path."""
    by_file: dict[str, list[str]] = {}
    for one in places:
        by_file.setdefault(one.path.partition("/")[2], []).append(one.name)
    return "; ".join(
        f"`{path}`" + "".join(f" `{name}`" for name in names if name)
        for path, names in by_file.items()
    )


def main(argv: list[str]) -> int:
    """Print how many places each rule has, and what is wrong; return the exit code."""
    if argv not in ([], ["--write"]):
        print("usage: rules.py [--write]", file=sys.stderr)
        return 2
    rules, markers = read_rules(), read_markers(ROOT)
    page, made = ROOT / _PAGE, render(ROOT, rules, markers)
    if argv:
        page.write_text(made, "utf-8")
    faults = find_faults(ROOT, rules, markers)
    if not page.exists() or page.read_text("utf-8") != made:
        faults.append(f"{_PAGE} is stale; make it: python .ci/rules.py --write")
    for rule in rules:
        print(f"{rule.name:<28} {_count(rule, markers):>3} places")
    print(_mean(rules, markers))
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
