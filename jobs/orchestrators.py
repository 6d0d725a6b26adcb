"""Which orchestrators run the programs of ``docs/orchestrators.md``, killed midway.

``python jobs/orchestrators.py --place DIR [--only airflow ...]`` makes an environment for each,
with this checkout, plays ``orchestrators/plays/play_NAME.py`` there, keeps the outcomes in
``orchestrators.json``, and prints the table of the page. A part that fails says why in that file.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from environments import ROOT, keep, kept, make_environment, play

RESULTS = Path(__file__).with_suffix(".json")

PAGE = ROOT / "docs" / "orchestrators.md"

#: The programs; in ``plays``, what plays them.
PROGRAMS = Path(__file__).with_suffix("")

#: What is installed beside the library, itself first.
PACKAGES: Mapping[str, Sequence[str]] = {
    "airflow": ("apache-airflow==3.3.2",),
    "dagster": ("dagster==1.13.29",),
    "prefect": ("prefect==3.9.1",),
    "dbt": (
        *("dbt-core==1.11.16", "dbt-duckdb==1.11.1"),
        *("duckdb==1.5.5", "duckdb-extension-delta==1.5.5"),
    ),
    "dbt_spark": (
        *("dbt-spark==1.11.0", "dbt-core==1.11.16"),
        *("pyspark==4.2.0", "delta-spark==4.4.0"),
    ),
    "databricks": ("databricks-bundles==1.22.1",),
}

Results = dict[str, dict[str, str]]


def versions() -> list[str]:
    """Return the packages that are played, with their versions: outcomes are kept by these."""
    return [packages[0].replace("==", " ") for packages in PACKAGES.values()]


def table(results: Results) -> str:
    """Return the outcomes as a table of Markdown."""
    lines = [("with", "played", "held"), ("---",) * 3]
    for version, outcomes in results.items():
        lines += [(version, part, word.partition(":")[0]) for part, word in outcomes.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(argv: Sequence[str]) -> None:
    """Play the programs, keep the outcomes, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--place", type=Path, default=Path("/tmp/spark-queue-orchestrators"))  # noqa: S108
    parser.add_argument("--only", nargs="+", choices=PACKAGES, default=list(PACKAGES))
    given = parser.parse_args(argv)
    for name, version in zip(PACKAGES, versions(), strict=True):
        if name not in given.only:
            continue
        packages = (*PACKAGES[name], "-e", f"{ROOT}")
        python = make_environment(given.place / name, packages)
        outcome = play(python, PROGRAMS / "plays" / f"play_{name}.py", minutes=60)
        keep(RESULTS, version, outcome, versions())
    print(table(kept(RESULTS)))  # noqa: T201 - it is what was asked for


if __name__ == "__main__":
    main(sys.argv[1:])
