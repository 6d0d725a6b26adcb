"""The page of settings, and the example of a configuration, made of the rows of ``SETTINGS``.

``python -m tests.unit.docs.settings_page`` writes both.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from spark_queue import config
from spark_queue.config import SETTINGS, Setting

_ROOT = Path(__file__).parents[3]
PAGE, EXAMPLE = _ROOT / "docs" / "settings.md", _ROOT / "conf" / "queue.example.yaml"

_UNITS = {
    "expression": "SQL expression",
    "scope": "`live`, `forever` or seconds",
    "count": "whole number",
    "duration": "seconds",
    "weights": "number above 0 for each key",
    "retry": "`backoff`, `delay`, `cap`, `jitter`",
    "limits": "`by`, `default`, `overrides` of each",
    "rates": "`limit`, `per`, `by`, `burst`, `units`, `overrides` of each",
}

_ABOUT = """# Settings of a queue

A setting that is *live* may change while the queue runs: by `queue.configure(...)`, by
`spark-queue configure`, or by the form of a page. It is in force from the next step on. Every other
setting is fixed when a queue is created. On the command line a setting is an option of the same
name (`--max-attempts`; `--weight` for one weight); in a file it is a line of YAML, as in
`conf/queue.example.yaml`, which `spark-queue files` copies.

Of `limits` the command line and forms change each number by itself: `--limit tenant=4` is that of
all tenants, `--limit-of acme=20` that of one. Where there are several limits one is named, as in
`--limit-of tenant:acme=20`. `none` takes a number away, and `unlimited` leaves one key without a
limit. A limit in a file, or in `queue.configure(limits=...)`, replaces the whole limit of its `by`.
Limits by other keys stay. `rates` are changed in the same way, by a file or `configure(rates=...)`.

This page is made of the table `SETTINGS` in `spark_queue/config.py`.

| setting | value | default | | meaning |
|---|---|---|---|---|
"""

#: Defaults that are no one value.
_DEFAULTS = {
    "weights": "1",
    "retry": "1 s, doubled each time, up to 1 h",
    "rules": "none",
}

#: Values of the example: a queue of files.
_VALUES: dict[str, Any] = {
    "dedup_key": "path",
    "dedup_scope": "live",
    "fair_key": "tenant",
    "group_key": "directory",
    "priority": "urgency",
    "weights": {"acme": 3, "test": 0.5},
    "max_in_flight": 100_000,
    "limits": [{"by": "tenant", "default": 1000, "overrides": {"acme": 20_000}}],
    "rates": [{"by": "tenant", "limit": 600, "per": 60, "burst": 50}],
    "max_losses": 3,
    "retry": {"backoff": "exponential", "delay": 10, "cap": 3600, "jitter": 0.2},
}

_HEAD = """\
# A queue of files, for: spark-queue create ./queues/files --config conf/queue.example.yaml \\
#     --schema 'path string, size bigint, tenant string, directory string, urgency int'
#
# Every option may be left out. Durations are seconds; null stands for none. Keys are SQL
# expressions over the columns, evaluated once, when a row is enqueued.
"""


def page() -> str:
    """Return the page."""
    return _ABOUT + "".join(map(_line, SETTINGS))


def _line(row: Setting) -> str:
    unit = (
        " or ".join(f"`{word}`" for word in row.choices) or _UNITS.get(row.name) or _UNITS[row.kind]
    )
    unit += " or none" if row.is_optional else ""
    when = "live" if row.is_live else "fixed"
    since = f", since format {row.since}" if row.since > 1 else ""
    return f"| `{row.name}` | {unit} | {_default(row)} | {when}{since} | {row.says} |\n"


def _default(row: Setting) -> str:
    if row.kind in _DEFAULTS:
        return _DEFAULTS[row.kind]
    value = _plain(row.default)
    return "none" if value is None else f"`{value}`"


def _plain(value: object) -> object:
    return int(value.total_seconds()) if isinstance(value, timedelta) else value


def example() -> str:
    """Return the example, each setting explained by the text of its field."""
    texts = _texts()
    fixed = [_entry(row, texts) for row in SETTINGS if not row.is_live]
    live = [_entry(row, texts) for row in SETTINGS if row.is_live]
    heads = ("# Fixed when the queue is created.", "# May be changed while the queue runs.")
    return "\n".join([_HEAD, heads[0] + "\n", *fixed, heads[1] + "\n", *live]).rstrip("\n") + "\n"


def _texts() -> dict[str, str]:
    """Return the texts under the fields of a configuration."""
    (body,) = [
        node.body
        for node in ast.parse(inspect.getsource(config)).body
        if isinstance(node, ast.ClassDef) and node.name == "QueueConfig"
    ]
    return {
        field.target.id: inspect.cleandoc(str(text.value.value))
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
    }


def _entry(row: Setting, texts: dict[str, str]) -> str:
    said = re.sub(r"``(.*?)``", r"\1", " ".join(texts[row.name].split()))
    comment = textwrap.fill(said, 98, initial_indent="# ", subsequent_indent="# ")
    value = _VALUES.get(row.name, _plain(row.default))
    return f"{comment}\n{yaml.safe_dump({row.name: value}, sort_keys=False)}"


if __name__ == "__main__":
    PAGE.write_text(page())
    EXAMPLE.write_text(example())
