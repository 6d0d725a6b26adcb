"""Which versions of Spark the library runs on: everything that a user does, on each.

``python jobs/versions.py --place DIR [--only 4.0 ...]`` makes an environment for each version,
``DIR/venvs-4.0`` and so on, plays ``versions_smoke.py`` there, keeps what came of it in
``versions.json``, and prints the table of README. ``--check`` only compares that table with what is
kept, and its exit code is 1 where they differ. An environment takes 700 MB, a version some minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from environments import ROOT, make_environment, play
from spark_queue.extras import SUPPORTED

RESULTS = ROOT / "jobs" / "versions.json"
README = ROOT / "README.md"

#: What is installed for each version of Spark. There is no Delta for the last one yet.
PACKAGES: Mapping[str, Sequence[str]] = {
    "3.5": ("pyspark==3.5.9", "delta-spark==3.3.3"),
    "4.0": ("pyspark==4.0.1", "delta-spark==4.4.0"),
    "4.1": ("pyspark==4.1.1", "delta-spark==4.4.0"),
    "4.2": ("pyspark==4.2.0", "delta-spark==4.4.0"),
    "4.3": ("pyspark==4.3.0",),
}

#: The lines of the table, and the parts of the smoke that each stands for.
ROWS: Mapping[str, Sequence[str]] = {
    "queues, readers, upkeep": ("verbs", "large steps", "readers", "upkeep"),
    "`process`": ("process",),
    "fronts": ("fronts",),
    "streams of a queue": ("streams of a queue",),
    '`format("spark_queue")`': ("format",),
    "… as a sink": ("format as a sink",),
    "… as a stream of claims": ("format as a stream",),
    "operators on frames": ("operators on frames",),
    "operators on streams": ("operators on streams",),
    "command line": ("command line",),
    "Spark Connect": ("connect verbs", "connect work", "connect format"),
}

#: What a version may have to say of all parts: it was refused as the session was made.
_SESSION = ("session", "plain session")

Results = dict[str, dict[str, str]]


def main(argv: Sequence[str]) -> int:
    """Play the versions, or check the table; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--place", type=Path, default=Path("/tmp/spark-queue"))  # noqa: S108
    parser.add_argument("--only", nargs="+", choices=PACKAGES, default=list(PACKAGES))
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args(argv)
    results = kept()
    if asked.check:
        same = table(results) in README.read_text("utf-8")
        print("README has this table" if same else f"README needs this table:\n\n{table(results)}")  # noqa: T201
        return 0 if same else 1
    for version in asked.only:
        results[version] = _played(_environment(asked.place, version), version)
        text = json.dumps({name: results[name] for name in PACKAGES if name in results}, indent=2)
        RESULTS.write_text(f"{text}\n", "utf-8")
    print(table(results))  # noqa: T201 - it is what was asked for
    return 0


def kept() -> Results:
    """Return what came of each version when it was played last."""
    found: Results = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    return found


def table(results: Results) -> str:
    """Return what came of each version as a table of Markdown."""
    packages = [dict(one.split("==") for one in PACKAGES[version]) for version in sorted(results)]
    lines = [
        ("", *(f"Spark {one['pyspark']}" for one in packages)),
        ("---",) * (len(packages) + 1),
        ("Delta", *(one.get("delta-spark", "none yet") for one in packages)),
    ]
    for what, parts in ROWS.items():
        lines.append((what, *(_word(results[version], parts) for version in sorted(results))))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _word(outcomes: Mapping[str, str], parts: Sequence[str]) -> str:
    """Return the worst that came of some parts."""
    if _SESSION[0] in outcomes:
        parts = _SESSION
    words = {outcomes.get(part, "failed").partition(":")[0] for part in parts}
    return next((word for word in ("failed", "refused") if word in words), "yes")


def _environment(place: Path, version: str) -> Path:
    """Return the Python of an environment with a version of Spark, made where it is missing."""
    # A version that is not supported is in no extra.
    package = f"{ROOT}[spark,connect]" if version in SUPPORTED else str(ROOT)
    return make_environment(place / f"venvs-{version}", (*PACKAGES[version], "-e", package))


def _played(python: Path, version: str) -> dict[str, str]:
    """Play the smoke, and on a version that is supported also over Spark Connect."""
    script = ROOT / "jobs" / "versions_smoke.py"
    outcomes = play(python, script)
    if version in SUPPORTED:
        outcomes.update(play(python, script, "connect"))
    return outcomes


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
