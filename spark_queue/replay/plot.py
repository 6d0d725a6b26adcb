"""The picture of a replay: each user's wait in each order."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from spark_queue.errors import InvalidArgumentError
from spark_queue.replay.summary import Replay

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: A wait of less than a second is drawn as one: the axis is logarithmic.
_LEAST = 1.0


def figure(replay: Replay) -> Figure:
    """Draw how long 95 % of each user's jobs waited, users sorted by it, a line for each order.

    A line that lies lower on its right end is an order in which the worst off waited less.

    Raises
    ------
    InvalidArgumentError
        When matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra, for plots only
    except ModuleNotFoundError as exc:
        raise InvalidArgumentError(
            "a plot needs matplotlib; pip install 'spark-queue[plots]'"
        ) from exc
    drawn = Figure(figsize=(9, 4.5), layout="constrained")
    axes = drawn.subplots()
    for order in replay.orders:
        waits = sorted(max(user.wait_p95, _LEAST) for user in order.users)
        axes.plot(range(1, len(waits) + 1), waits, label=order.order, drawstyle="steps-mid")
    axes.set_yscale("log")
    axes.set_xlabel("users, by their wait")
    axes.set_ylabel("wait of 95 % of the user's jobs (s)")
    axes.set_title(f"{replay.jobs:,} jobs on {replay.servers} servers")
    axes.legend()
    axes.grid(visible=True, alpha=0.3)
    return drawn


def png(replay: Replay) -> bytes:
    """Return the picture as a PNG, as ``IPython.display.Image`` shows it."""
    buffer = BytesIO()
    figure(replay).savefig(buffer, format="png", dpi=100)
    return buffer.getvalue()


def save(replay: Replay, path: Path) -> None:
    """Write the picture to a file, whose name says the format (``.png``)."""
    figure(replay).savefig(path, dpi=150)
