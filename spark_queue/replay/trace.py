"""Traces of work in the standard workload format (SWF; Chapin and others 1999)."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from spark_queue.checks import require_path
from spark_queue.errors import InvalidArgumentError
from spark_queue.wording import shorten

#: Fields of a line; further ones follow.
_NUMBER, _SUBMITTED, _RUNS_FOR, _USER = 0, 1, 3, 11


@dataclass(frozen=True, slots=True)
class Job:
    """A piece of work: who wanted it, when, and how long it ran."""

    number: int
    user: str
    submitted: float
    """Seconds since the trace began."""
    runs_for: float
    """Seconds."""


def read_swf(path: Path | str) -> list[Job]:
    """Read the jobs of a trace, in the order of their submission; ``.gz`` is unpacked.

    Jobs whose run time is not known are left out.

    Raises
    ------
    InvalidArgumentError
        When the file is missing, or a line is no job; it names the line.
    """
    path = Path(require_path("path", path))
    if not path.is_file():
        raise InvalidArgumentError(f"trace {shorten(str(path))} is no file")
    jobs = [job for job in _jobs(path) if job.runs_for >= 0]
    if not jobs:
        raise InvalidArgumentError(f"trace {shorten(str(path))} has no job")
    return sorted(jobs, key=lambda job: (job.submitted, job.number))


def _jobs(path: Path) -> Iterator[Job]:
    for number, line in enumerate(_lines(path), start=1):
        fields = line.split()
        if not fields or fields[0].startswith(";"):
            continue
        try:
            yield Job(
                number=int(fields[_NUMBER]),
                user=fields[_USER],
                submitted=float(fields[_SUBMITTED]),
                runs_for=float(fields[_RUNS_FOR]),
            )
        except (IndexError, ValueError) as exc:
            raise InvalidArgumentError(
                f"line {number} of trace {shorten(str(path))} is no job of the standard workload "
                "format"
            ) from exc


def _lines(path: Path) -> list[str]:
    try:
        data = path.read_bytes()
        text = gzip.decompress(data) if path.suffix == ".gz" else data
        return text.decode().splitlines()
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as exc:
        raise InvalidArgumentError(f"trace {shorten(str(path))} cannot be read: {exc}") from exc
