"""Measure commands in cold processes: seconds of waiting and of the processor, without a JVM.

Run it on an idle machine. ``--spark`` adds what the status takes by Spark.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from compiled import environment
from spark_queue import LocalQueue, QueueConfig

#: Seconds of processors within which commands are to end.
TARGETS = {"status": 0.4, "report": 0.6}

app = typer.Typer(add_completion=False)


@app.command()
def main(
    *,
    items: Annotated[int, typer.Option(help="Items in the queue.")] = 1_000,
    times: Annotated[int, typer.Option(help="How often each command is run.")] = 5,
    spark: Annotated[bool, typer.Option("--spark", help="Also by Spark.")] = False,
) -> None:
    """Print the medians; end with 1 where a command takes more than its target."""
    with tempfile.TemporaryDirectory(prefix="spark-queue-bench-") as place:
        path = f"{place}/queue"
        _fill(path, items)
        commands = [
            ["--help"],
            ["status", path],
            ["report", path],
            ["explain", path, "1"],
            ["pause", path],
        ]
        if spark:
            commands.append(["status", path, "--engine", "spark"])
        table, is_missed = Table("command", "median, s", "median, CPU s", "target"), False
        for command in commands:
            # The first run compiles modules.
            pairs = [_run(command) for _ in range(times + 1)][1:]
            wait, work = (median(figures) for figures in zip(*pairs, strict=True))
            name = " ".join("QUEUE" if word == path else word for word in command)
            target = TARGETS.get(command[0]) if "spark" not in command else None
            is_missed |= target is not None and work > target
            table.add_row(name, f"{wait:.2f}", f"{work:.2f}", f"<= {target}" if target else "")
    Console().print(table)
    raise typer.Exit(int(is_missed))


def _fill(path: str, items: int) -> None:
    queue = LocalQueue.create(path, "n int, tenant string", QueueConfig(fair_key="tenant"))
    queue.enqueue([{"n": n, "tenant": str(n % 7)} for n in range(items)])
    queue.claim(max(1, items // 10)).ack()


def _run(arguments: Sequence[str]) -> tuple[float, float]:
    """Run a command, and return how long it took and what its processes worked."""
    before, began = os.times(), time.monotonic()
    command = [sys.executable, "-m", "spark_queue.cli", *arguments]
    root = Path(__file__).parents[2]
    subprocess.run(command, check=True, capture_output=True, cwd=root, env=environment())  # noqa: S603 - our own
    after = os.times()
    work = after.children_user - before.children_user
    return time.monotonic() - began, work + after.children_system - before.children_system


if __name__ == "__main__":
    app()
