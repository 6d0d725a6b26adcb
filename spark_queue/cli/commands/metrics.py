"""The ``metrics`` command: a queue in numbers."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from typer import Option

from spark_queue.cli.command import Name, looking
from spark_queue.cli.scope import Scope

if TYPE_CHECKING:
    from spark_queue.metrics.metric_samples import AnyQueue


@looking
def metrics(
    scope: Scope,
    name: Name,
    textfile: Annotated[
        Path | None, Option(help="Where to write them, whole; standard output if nowhere.")
    ] = None,
    keys: Annotated[int, Option(help="How many fair keys are told one by one.")] = 20,
    window: Annotated[
        float, Option(help="How many seconds before now count, in waits and failures.")
    ] = 3600.0,
) -> None:
    """Tell what is where in a queue, in the text format of Prometheus."""
    # Help works without Arrow.
    from spark_queue.metrics import metric_samples  # noqa: PLC0415
    from spark_queue.metrics import textfile as written  # noqa: PLC0415

    queue = cast("AnyQueue", scope.open_queue(name)[1])
    found = metric_samples.samples(queue, keys=keys, window=timedelta(seconds=window))
    if textfile is None:
        plain = [
            {"name": one.metric.prometheus, "labels": dict(one.labels), "value": one.value}
            for one in found
        ]
        scope.display.show({"samples": plain}, *written.text(found).rstrip().split("\n"))
        return
    count = written.write(found, textfile)
    said = f"{count} samples written to {textfile}"
    scope.display.show({"textfile": str(textfile), "samples": count}, said)
