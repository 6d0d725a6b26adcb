"""Check of names, lengths and plain English: ``python .ci/language.py [--list FIGURE | --lower]``.

Each figure counts one habit that the project gives up, over the package and its documents. Its
allowance in ``language.json`` may only go down. The exit code is 1 where a figure exceeds its
allowance; ``--list`` prints what a figure counts, and ``--lower`` sets each allowance to its count.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

#: The most that each figure may count.
ALLOWANCES = Path(__file__).with_name("language.json")

_PARTICIPLE = re.compile(
    r"_{0,2}(?:[a-z]+ed|begun|bound|brought|built|chosen|cut|drawn|found|given|gone|held|kept|known"
    r"|left|lost|made|meant|put|read|said|seen|sent|set|shown|taken|told|written)"
)

#: Verbs, and nouns, that look like a participle.
_FINE = {
    *("cut", "embed", "exceed", "feed", "need", "proceed", "put"),
    *("read", "seed", "set", "shed", "speed", "succeed"),
}

_OPENING = re.compile(r"\s*(?:what|who|how|whether|which|where)\b", re.IGNORECASE)

_BANNED = re.compile(
    r"\b(?:whoever|whomever|whatever|anew|save (?:for|that|where)|that of those|those of whom"
    r"|in nobody's name)\b",
    re.IGNORECASE,
)

#: The lines that a module may have.
_LONGEST = 400

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Documented = ast.Module | ast.ClassDef | _Function


def is_participle(name: str) -> bool:
    """Return whether a function's name says what was done, not what it does."""
    return name.strip("_") not in _FINE and _PARTICIPLE.fullmatch(name) is not None


def banned_words(text: str) -> list[str]:
    """Return the words of a text that plain English does without."""
    return _BANNED.findall(text)


def findings(root: Path) -> dict[str, list[str]]:
    """Return what each figure counts in a project, a line each."""
    found: dict[str, list[str]] = {"participles": [], "openings": [], "words": [], "lengths": []}
    modules: Counter[str] = Counter()
    classes: Counter[str] = Counter()
    for path in sorted((root / "spark_queue").rglob("*.py")):
        source, where = path.read_text("utf-8"), path.relative_to(root)
        tree, length = ast.parse(source), source.count("\n")
        found["lengths"] += [f"{where}: {length} lines"] if length > _LONGEST else []
        modules[path.stem] += 1
        classes.update(node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
        found["participles"] += [f"{where}:{line}: {name}" for line, name in _participles(tree)]
        for node, text in _docstrings(tree):
            if isinstance(node, ast.Module) and _OPENING.match(text):
                found["openings"].append(f"{where}: {text.strip().splitlines()[0]}")
            line = node.body[0].lineno
            found["words"] += [f"{where}:{line}: {word}" for word in banned_words(text)]
    for page in _documents(root):
        for number, text in enumerate(_lines(page), 1):
            where = page.relative_to(root)
            found["words"] += [f"{where}:{number}: {word}" for word in banned_words(text)]
    found["modules"] = _repeated_names(modules, "__init__", "__main__")
    found["classes"] = _repeated_names(classes)
    return found


def _participles(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, _Function) and is_participle(node.name) and not _is_property(node):
            yield node.lineno, node.name


def _is_property(function: _Function) -> bool:
    kinds = ("property", "cached_property")
    return any(isinstance(d, ast.Name) and d.id in kinds for d in function.decorator_list)


def _docstrings(tree: ast.Module) -> Iterator[tuple[_Documented, str]]:
    for node in ast.walk(tree):
        if isinstance(node, _Documented):
            text = ast.get_docstring(node, clean=False)
            if text is not None:
                yield node, text


def _documents(root: Path) -> list[Path]:
    pages = [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]
    return [page for page in pages if page.exists()]


def _lines(page: Path) -> list[str]:
    return page.read_text("utf-8").splitlines()


def _repeated_names(names: Counter[str], *skipped: str) -> list[str]:
    return [
        f"{name}: {n} times" for name, n in names.most_common() if n > 1 and name not in skipped
    ]


def main(argv: list[str]) -> int:
    """Print a line for each figure and return the exit code."""
    found = findings(ROOT)
    if len(argv) == 2 and argv[0] == "--list" and argv[1] in found:  # noqa: PLR2004 - a flag and its value
        print("\n".join(found[argv[1]]))
        return 0
    if argv not in ([], ["--lower"]):
        print(f"usage: language.py [--list {{{','.join(found)}}} | --lower]", file=sys.stderr)
        return 2
    allowed = json.loads(ALLOWANCES.read_text("utf-8"))
    if argv:
        allowed = {name: min(allowed[name], len(lines)) for name, lines in found.items()}
        ALLOWANCES.write_text(json.dumps(allowed, indent=2) + "\n", "utf-8")
    exceeded = [name for name, lines in found.items() if len(lines) > allowed[name]]
    for name, lines in found.items():
        print(f"{name:<12} {len(lines):>4}, allowed {allowed[name]:>4}")
    for name in exceeded:
        print(f"too many {name}; list them: python .ci/language.py --list {name}")
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
