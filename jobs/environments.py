"""Environments in which jobs play programs beside this library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def make_environment(folder: Path, packages: Sequence[str], alone: Sequence[str] = ()) -> Path:
    """Return the Python of an environment, made where it lacks a package.

    Parameters
    ----------
    folder : Path
        Where the environment lies.
    packages : sequence of str
        What pip installs, with what it needs.
    alone : sequence of str
        What pip then puts over these, whatever others allow.

    Raises
    ------
    subprocess.CalledProcessError
        When the packages do not install; it has what was said. The next call begins from nothing.
    """
    python, stamp = folder / "bin" / "python", folder / "installed"
    if stamp.exists() and {*packages, *alone} <= {*stamp.read_text("utf-8").splitlines()}:
        return python
    env = {"DIST_EXTRA_CONFIG": str(ROOT / ".ci" / "build.cfg"), **os.environ}
    install = [str(python), "-m", "pip", "install", "--quiet", "--no-compile"]
    commands = [[sys.executable, "-m", "venv", "--clear", str(folder)], [*install, *packages]]
    if alone:
        commands.append([*install, "--no-deps", *alone])
    for command in commands:
        done = subprocess.run(  # noqa: S603 - our own words
            command, env=env, stderr=subprocess.PIPE, text=True, check=False
        )
        sys.stderr.write(done.stderr)
        done.check_returncode()
    stamp.write_text("\n".join((*packages, *alone)), "utf-8")
    return python


def kept(results: Path) -> dict[str, Any]:
    """Return the outcomes that a job keeps in a file, by what it played."""
    found: dict[str, Any] = json.loads(results.read_text("utf-8")) if results.exists() else {}
    return found


def keep(results: Path, name: str, outcome: Any, names: Iterable[str]) -> None:
    """Keep one more outcome, in the order of the names; other runs may keep theirs meanwhile.

    What has another name stays behind these: a run of newer code may have kept it.
    """
    found = {**kept(results), name: outcome}
    ordered = {one: found[one] for one in (*names, *found) if one in found}
    results.write_text(f"{json.dumps(ordered, indent=2)}\n", "utf-8")


def play(python: Path, script: Path, *words: str, minutes: int = 30) -> dict[str, str]:
    """Return the outcome of each part that a script prints as a line of JSON.

    A script that fails, or is not done in time, has one more part: the end.
    """
    command = [str(python), str(script), *words]
    try:
        done = subprocess.run(  # noqa: S603 - our own script
            command, capture_output=True, text=True, check=False, timeout=minutes * 60
        )
        said, ending = done.stdout, f"failed: {done.stderr[-300:]}" if done.returncode else None
    except subprocess.TimeoutExpired as exc:
        said = (exc.stdout or b"").decode()
        ending = f"failed: not done after {minutes} minutes"
    rows = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    outcomes = {row["part"]: row["outcome"] for row in rows}
    return outcomes if ending is None else {**outcomes, "the end": ending}
