"""Notebooks and their outputs: ``python -m tests.notebooks.stored [NAME ...]`` stores them."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from unittest.mock import patch

import nbformat
from nbclient import NotebookClient

_ROOT = Path(__file__).parents[2]

#: By its name, each notebook.
NOTEBOOKS = {file.stem: file for file in sorted(_ROOT.glob("notebooks/*.ipynb"))}

#: What differs from run to run, and what is stored in its place.
_VARYING = (
    (re.compile(r"(?:/[\w.-]+)+/tmp\w{8}(?=/)"), "/tmp/place"),  # noqa: S108 - it is only shown
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ"), "2026-01-31 12:00:00Z"),
    (re.compile(r"\b[0-9a-f]{17}\.{3}"), "0123456789abcdef0..."),
    (re.compile(r"\b\d+\.\d s\b"), "9.9 s"),
)


def read(name: str) -> nbformat.NotebookNode:
    """Return a notebook as it is stored."""
    text = NOTEBOOKS[name].read_text(encoding="utf-8")
    return nbformat.reads(text, as_version=4)  # type: ignore[no-any-return,no-untyped-call]


def code_of(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """Return the cells that have code."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def run(name: str, place: Path) -> nbformat.NotebookNode:
    """Run a notebook as a user would, and return it with what is stored of its outputs.

    An error of a cell is raised.
    """
    notebook, folder = read(name), place / "notebooks"
    folder.mkdir()
    # The trace that one of them plays is in the checkout.
    (place / "tests").symlink_to(_ROOT / "tests")
    own = {
        "IPYTHONDIR": str(place / "ipython"),
        "JUPYTER_PLATFORM_DIRS": "1",
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYSPARK_PYTHON": sys.executable,
    }
    with patch.dict(os.environ, own):
        client = NotebookClient(notebook, timeout=300, kernel_name="python3", coalesce_streams=True)
        done = client.execute(cwd=str(folder))
    for cell in code_of(done):
        cell.metadata.pop("execution", None)
        cell.outputs = [scrub(output) for output in cell.outputs if output.get("name") != "stderr"]
    done.metadata = read(name).metadata
    return done


def scrub(output: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Return an output without what differs from run to run, and without a second form of it."""
    scrubbed = deepcopy(output)
    if output.output_type == "stream":
        scrubbed.text = _scrub_text(output.text)
        return scrubbed
    if len(output.data) > 1:
        # Who only reads a notebook is shown no style: what has one is stored in words.
        has_style = "<style>" in output.data.get("text/html", "")
        scrubbed.data.pop("text/html" if has_style else "text/plain", None)
    for kind, text in scrubbed.data.items():
        if kind.startswith("text/"):
            scrubbed.data[kind] = _scrub_text(text)
    return scrubbed


def _scrub_text(text: str) -> str:
    for pattern, instead in _VARYING:
        text = pattern.sub(instead, text)
    return text


def texts(notebook: nbformat.NotebookNode) -> Iterator[tuple[str, str]]:
    """Return what cells show, each with the kind of it: pictures without what is on them."""
    for cell in code_of(notebook):
        for output in cell.outputs:
            if output.output_type == "stream":
                yield "text", output.text
            else:
                for kind, text in output.data.items():
                    yield kind, "" if kind.startswith("image/") else text


def main(names: list[str]) -> None:
    """Store the outputs of some notebooks, or of all, as they are now."""
    for name in names or NOTEBOOKS:
        with tempfile.TemporaryDirectory() as place:
            text = nbformat.writes(run(name, Path(place)))  # type: ignore[no-untyped-call]
        NOTEBOOKS[name].write_text(f"{text.rstrip()}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
