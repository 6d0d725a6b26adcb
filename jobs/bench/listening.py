"""What it costs a step that somebody counts it: OpenTelemetry's instruments, with its SDK behind.

Both times are of one run: what the listener takes of the processor, over what the steps take
without it. Steps are of one row, of a queue without Spark: the smallest there are.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable
from functools import partial
from typing import Annotated

import typer
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from report import Figure, at_most, measure
from spark_queue import LocalQueue, Metrics, StepFacts

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

#: Rounds before anything is counted.
_WARM = 10


class Timed:
    """A listener, and the seconds of the processor that it has taken."""

    def __init__(self, listener: Metrics) -> None:
        self._listener = listener
        self.seconds = 0.0
        self.steps = 0

    def __call__(self, facts: StepFacts) -> None:
        """Listen, and count."""
        began = time.thread_time()
        self._listener(facts)
        self.seconds += time.thread_time() - began
        self.steps += 1


def listened(rounds: int) -> Iterable[Figure]:
    """Enqueue, claim and ack one row again and again."""
    listener = Timed(Metrics(MeterProvider([InMemoryMetricReader()])))
    with tempfile.TemporaryDirectory() as root:
        queue = LocalQueue.create(
            f"{root}/queue", "id string", durability="process", listener=listener
        )
        for _ in range(_WARM):
            _round(queue)
        listener.seconds, listener.steps = 0.0, 0
        began = time.thread_time()
        for _ in range(rounds):
            _round(queue)
        steps = time.thread_time() - began - listener.seconds
        queue.close()
    detail = f"{listener.steps} steps of one row: enqueue, claim, ack"
    yield Figure("listener.share", 100 * listener.seconds / steps, at_most(2), "%", detail)
    yield Figure("listener.work", 1e6 * listener.seconds / listener.steps, None, "us", detail)
    yield Figure("step.work", 1e3 * steps / listener.steps, None, "ms", detail)


def _round(queue: LocalQueue) -> None:
    queue.enqueue({"id": "a"})
    queue.claim(1).ack()


@app.command(help=__doc__)
def main(
    only: Annotated[list[str] | None, typer.Option(help="Sections to run; all of them.")] = None,
    rounds: Annotated[int, typer.Option(min=2, help="Rounds of three steps.")] = 200,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="No table at the end.")] = False,
    strict: Annotated[bool, typer.Option(help="Fail when a target is missed.")] = False,
) -> None:
    """Measure the sections that were asked for."""
    sections = {"steps": partial(listened, rounds)}
    raise typer.Exit(measure(sections, only, as_json=as_json, strict=strict))


if __name__ == "__main__":
    app()
