"""The command line: the main job, and the operations of a user's own queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from spark_queue.cli import app

if TYPE_CHECKING:
    from spark_queue.cli.scope import Sessions

__all__ = ["main"]


def main(argv: Sequence[str] | None = None, *, sessions: Sessions | None = None) -> None:
    """Run a command and end the process with its exit code.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments after the program's name; those of the process by default.
    sessions : callable, optional
        Makes the Spark session, given whether to be verbose. By default a local one, which is
        stopped at the end; a job brings its own.

    Raises
    ------
    SystemExit
        Always: 0 done, 1 failed, 2 wrong usage, data or set-up, 3 another process keeps the
        queue, 4 and 5 what the doctor found, 130 and 143 after SIGINT and SIGTERM.
    """
    app.command()(args=None if argv is None else list(argv), prog_name="spark-queue", obj=sessions)
