"""The command that copies extra files: jobs, alerts, dashboards."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated

from typer import Argument

from spark_queue import checks
from spark_queue.cli.command import command
from spark_queue.cli.display import Whole
from spark_queue.cli.scope import Scope
from spark_queue.errors import InvalidArgumentError

#: The files, by their place in the directory; in a checkout it is the same place.
FILES = {
    "conf/alerts.yaml": "rules for Prometheus",
    "conf/databricks/databricks.yml": "a bundle for Databricks",
    "conf/grafana-dashboard.json": "a dashboard for Grafana",
    "conf/log4j2.properties": "logs of Spark",
    "conf/queue.example.yaml": "settings of a queue, for create --config",
    "conf/spark-defaults.conf": "settings of Spark, for spark-submit",
    "docs/sql/dashboard.lvdash.json": "a dashboard for Databricks",
    "docs/sql/views.sql": "views of a queue in SQL",
    "jobs/command.py": "any command, for spark-submit",
    "jobs/ingest_files.py": "the command ingest, for spark-submit",
    "jobs/stream_dispatch.py": "the command stream-dispatch, for spark-submit",
    "jobs/stream_enqueue.py": "the command stream-enqueue, for spark-submit",
}

#: Where a wheel has them.
SHIPPED = "shipped"


@command
def files(
    scope: Scope,
    directory: Annotated[str, Argument(help="Where to write them; made if it is not there.")],
) -> None:
    """Write the files that go with this release: jobs for spark-submit, alerts, dashboards.

    They stand in jobs, conf and docs/sql of the directory. One that is there and says something
    else is left alone: nothing is written then.
    """
    place = Path(checks.require_path("directory", directory))
    texts = {place / name: _text(name) for name in FILES}
    try:
        _write(texts)
    except OSError as exc:
        why = f"{exc.filename}: {exc.strerror}"
        raise InvalidArgumentError(f"directory is {directory!r}: {why}") from exc
    width = max(map(len, FILES))
    lines = [f"{name:<{width}}  {what}" for name, what in FILES.items()]
    told = {"directory": str(place), "files": list(FILES)}
    scope.display.show(told, *lines, Whole(f"{len(FILES)} files written to {place}"))


def _write(texts: Mapping[Path, bytes]) -> None:
    for file, text in texts.items():
        if file.exists() and file.read_bytes() != text:
            raise InvalidArgumentError(
                f"{str(file)!r} is there and differs from that of this release: remove it, or "
                "name another directory"
            )
    for file, text in texts.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text)


def _text(name: str) -> bytes:
    """Return the text of a file of the release: from the wheel, or the checkout."""
    package = resources.files("spark_queue")
    shipped = package / SHIPPED / name
    if shipped.is_file():
        return shipped.read_bytes()
    return (Path(str(package)).parent / name).read_bytes()
