"""Measure what an install takes on the disk: the core, and with each extra that is named.

Each is installed by pip into a fresh environment, from the index that pip is set to.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import venv
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

_ROOT = Path(__file__).resolve().parents[2]

#: Prints the bytes of each package that is installed, with what the interpreter compiled of it.
_SIZES = """
import json
from importlib.metadata import distributions
print(json.dumps({
    one.name: sum(f.locate().stat().st_size for f in one.files or () if f.locate().is_file())
    for one in distributions()
}))
"""

#: What an environment begins with.
_NOT_OURS = ("pip", "setuptools")

app = typer.Typer(add_completion=False)


@app.command()
def main(
    extras: Annotated[list[str] | None, typer.Argument(help="By default spark.")] = None,
    *,
    most: Annotated[int, typer.Option(help="How many packages to name.")] = 10,
) -> None:
    """Print MB (a million bytes) in all, and of the largest packages."""
    for extra in ("", *(f"[{name}]" for name in extras or ("spark",))):
        sizes = installed(f"{_ROOT}{extra}")
        largest = sorted(sizes.items(), key=lambda one: -one[1])[:most]
        whole = megabytes(sum(sizes.values()))
        table = Table("package", "MB", title=escape(f"spark-queue{extra}: {whole} MB"))
        for name, size in largest:
            table.add_row(name, megabytes(size))
        Console().print(table)


def installed(what: str) -> dict[str, int]:
    """Install a requirement into a fresh environment; return the bytes of each package there."""
    with tempfile.TemporaryDirectory(prefix="spark-queue-bench-") as place:
        venv.create(place, with_pip=True)
        python = f"{place}/bin/python"
        subprocess.run([python, "-m", "pip", "--quiet", "install", what], check=True)  # noqa: S603
        told = subprocess.run([python, "-c", _SIZES], capture_output=True, check=True)  # noqa: S603
    sizes: dict[str, int] = json.loads(told.stdout)
    return {name: size for name, size in sizes.items() if name not in _NOT_OURS}


def megabytes(size: int) -> str:
    """Return a size in millions of bytes."""
    return f"{size / 1e6:.1f}"


if __name__ == "__main__":
    app()
