"""Which versions of Spark the library runs on: everything that a user does, on each.

``python jobs/versions.py --place DIR [--only 4.0 ...]`` makes an environment for each version,
``DIR/venvs-4.0`` and so on, plays ``versions_smoke.py`` there, keeps what came of it in
``versions.json``, and prints the table of README. ``--check`` only compares that table with what
is kept, and its exit code is 1 where they differ. ``--look`` only says what PyPI and Maven Central
have by now, what of it was played, and what is missing. An environment takes 700 MB, a version some
minutes.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from environments import ROOT, keep, kept, make_environment, play
from spark_queue.extras import SUPPORTED, WITHOUT_DELTA

RESULTS = ROOT / "jobs" / "versions.json"
README = ROOT / "README.md"

#: What is installed for each version of Spark, by its line, or by itself where that has several.
#: There is no Delta for the last one yet.
PACKAGES: Mapping[str, Sequence[str]] = {
    "3.5": ("pyspark==3.5.9", "delta-spark==3.3.3"),
    "4.0": ("pyspark==4.0.5", "delta-spark==4.4.0"),
    "4.1": ("pyspark==4.1.4", "delta-spark==4.4.0"),
    "4.2": ("pyspark==4.2.0", "delta-spark==4.4.0"),
    "4.2.1": ("pyspark==4.2.1", "delta-spark==4.4.0"),
    # Nothing else brings the pandas that its operators on streams take.
    "4.3": ("pyspark==4.3.0", "pandas==2.3.3"),
}

#: Of these pip refuses the pair: PySpark is put over the one that Delta's package allows.
REFUSED_BY_PIP = ("4.2.1",)

#: The lines of the table, and the parts of the smoke that each stands for.
ROWS: Mapping[str, Sequence[str]] = {
    "`LocalQueue` and a front, no session": ("local queue",),
    "`DeltaQueue`: verbs, `process`, fronts, streams, Connect": (
        *("verbs", "large steps", "readers", "upkeep", "process", "fronts", "streams of a queue"),
        *("commands of Spark", "connect verbs", "connect work"),
    ),
    '`format("spark_queue")`': ("format",),
    "… as a sink": ("format as a sink",),
    "… as a stream of claims": ("format as a stream",),
    "operators on frames": ("operators on frames",),
    "operators on streams": ("operators on streams",),
    "command line": ("command line",),
    "Spark Connect: the format, operators on frames": ("connect format", "connect frames"),
}

#: Where Maven Central says which versions a library for a line of Spark has.
_MAVEN = "https://repo1.maven.org/maven2/io/delta/delta-spark_{}_2.13/maven-metadata.xml"

#: A release, not a candidate of one.
_RELEASE = re.compile(r"\d+\.\d+\.\d+")

#: What a version may have to say of all parts: it was refused as the session was made.
_SESSION = ("session", "plain session")

Results = dict[str, dict[str, str]]


def main(argv: Sequence[str]) -> int:
    """Play the versions, or check the table; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--place", type=Path, default=Path("/tmp/spark-queue"))  # noqa: S108
    parser.add_argument("--only", nargs="+", choices=PACKAGES, default=list(PACKAGES))
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--look", action="store_true")
    asked = parser.parse_args(argv)
    if asked.look:
        pyspark, delta = released("pyspark"), released("delta-spark")
        jars = {line: jars_of(line) for line in lines_of(pyspark)}
        print("\n".join(compare(pyspark, delta, jars)))  # noqa: T201 - it is what was asked for
        return 0
    if asked.check:
        needed = table(kept(RESULTS))
        same = needed in README.read_text("utf-8")
        print("README has this table" if same else f"README needs this table:\n\n{needed}")  # noqa: T201
        return 0 if same else 1
    for version in asked.only:
        outcome = _played(_environment(asked.place, version), version)
        keep(RESULTS, version, outcome, PACKAGES)
    print(table(kept(RESULTS)))  # noqa: T201 - it is what was asked for
    return 0


def released(package: str) -> list[str]:
    """Return the releases of a package on PyPI, the newest first."""
    command = [sys.executable, "-m", "pip", "index", "versions", package]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    found = re.search(r"Available versions: (.*)", done.stdout)
    return [one for one in (found[1].split(", ") if found else []) if _RELEASE.fullmatch(one)]


def jars_of(line: str) -> list[str]:
    """Return the releases of Delta's library for a line of Spark on Maven Central, in order."""
    try:
        with urlopen(_MAVEN.format(line), timeout=60) as answer:  # noqa: S310 - it is https
            text = answer.read().decode()
    except HTTPError as exc:
        if exc.code == 404:  # noqa: PLR2004 - there is none
            return []
        raise
    found: list[str] = re.findall(r"<version>(.*?)</version>", text)
    return [one for one in found if _RELEASE.fullmatch(one)]


def lines_of(pyspark: Sequence[str]) -> list[str]:
    """Return the lines of Spark from the oldest supported one on, as in ``4.2``, in order."""
    lines = {one.rpartition(".")[0] for one in pyspark}
    oldest = min(map(_key, SUPPORTED))
    return sorted((line for line in lines if _key(line) >= oldest), key=_key)


def compare(
    pyspark: Sequence[str], delta: Sequence[str], jars: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """Yield what there is for each line of Spark, and what is missing of it."""
    for line, there in jars.items():
        newest = max((one for one in pyspark if one.rpartition(".")[0] == line), key=_key)
        packages = _newest_of(line)
        played, jar = packages.get("pyspark"), max(there, key=_key, default=None)
        words = [f"pyspark {newest}"]
        if played != newest:
            words.append(f"played: {played or 'none'}")
        words.append("no jar of Delta" if jar is None else f"jar of Delta {jar}")
        if jar is not None and packages.get("delta-spark") != jar:
            words.append(f"played: {packages.get('delta-spark', 'none')}")
        yield f"Spark {line}: {', '.join(words)}"
    lacking = [one for one in delta if not any(one in there for there in jars.values())]
    newer = [one for one in lacking if _key(one) > _key(_newest_played())]
    yield f"delta-spark {delta[0]} on PyPI" + (f"; no jar of {', '.join(newer)}" if newer else "")


def _newest_of(line: str) -> dict[str, str]:
    """Return the packages of the newest release that was played of a line of Spark, if any."""
    found = [packages for version, packages in PACKAGES.items() if _line(version) == line]
    return dict(one.split("==") for one in found[-1]) if found else {}


def _line(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _newest_played() -> str:
    named = [one.split("==") for packages in PACKAGES.values() for one in packages]
    return max((version for name, version in named if name == "delta-spark"), key=_key)


def _key(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


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
    if _SESSION[0] in outcomes and outcomes.keys().isdisjoint(parts):
        parts = _SESSION
    words = {outcomes.get(part, "failed").partition(":")[0] for part in parts}
    return next((word for word in ("failed", "refused") if word in words), "yes")


def _environment(place: Path, version: str) -> Path:
    """Return the Python of an environment with a version of Spark, made where it is missing."""
    packages, line = PACKAGES[version], _line(version)
    # What brings Delta is for the Spark that has it, and other extras are for one that runs.
    extras = "[spark,connect]" if line in SUPPORTED else "[connect]" * (line in WITHOUT_DELTA)
    ours = ("-e", f"{ROOT}{extras}")
    folder = place / f"venvs-{version}"
    if version in REFUSED_BY_PIP:
        return make_environment(folder, (*packages[1:], *ours), alone=packages[:1])
    return make_environment(folder, (*packages, *ours))


def _played(python: Path, version: str) -> dict[str, str]:
    """Play the smoke, and on a version that the library runs on also over Spark Connect."""
    script = ROOT / "jobs" / "versions_smoke.py"
    outcomes = play(python, script)
    if _line(version) in (*SUPPORTED, *WITHOUT_DELTA):
        outcomes.update(play(python, script, "connect"))
    return outcomes


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
