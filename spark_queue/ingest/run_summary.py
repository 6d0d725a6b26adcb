"""Summary of the main job's run, in all and per tenant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from spark_queue.ingest.file_handler import media_type
from spark_queue.ingest.tree import FoundFile
from spark_queue.processing.loop import Stopped

#: Files by tenant.
FileCounts = Mapping[str, int]

_COUNTED = ("discovered", "inserted", "known", "processed", "dead", "waiting")


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantSummary:
    """What a run did for one tenant."""

    tenant: str
    """The first directory below the source; ``""`` for the files at the top."""
    discovered: int = 0
    """Files found below the source."""
    inserted: int = 0
    """Files, or versions of files, that the queue did not know."""
    known: int = 0
    """Files that it knew, and did not take again."""
    processed: int = 0
    """Files read and written to the output in this run."""
    dead: int = 0
    """Files that could not be read in this run."""
    waiting: int = 0
    """Files still to be read, when the run was stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeSummary:
    """The files of one media type that were found below the source."""

    media_type: str | None
    """By their names; ``None`` where those tell nothing."""
    files: int
    """How many."""
    bytes: int
    """What they take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestSummary:
    """What a run did."""

    discovered: int
    """Files found below the source."""
    inserted: int
    """Files, or versions of files, that the queue did not know."""
    known: int
    """Files that it knew, and did not take again."""
    processed: int
    """Files read and written to the output in this run, those of an earlier run included that had
    not got there."""
    dead: int
    """Files that could not be read in this run: they are in the dead letters."""
    waiting: int
    """Files still to be read; above 0 only where the run was stopped."""
    seconds: float
    """How long the run took."""
    stopped: Stopped
    """Why it ended."""
    tenants: tuple[TenantSummary, ...]
    """The same for each tenant, in the order of their names."""
    types: tuple[TypeSummary, ...] = ()
    """The files that were found, by media type, the most files first."""

    def _repr_html_(self) -> str:
        return (
            f"<b>{self.discovered}</b> found, <b>{self.inserted}</b> new, "
            f"<b>{self.processed}</b> processed, <b>{self.dead}</b> dead, "
            f"<b>{self.waiting}</b> waiting in {self.seconds:.1f} s ({self.stopped})"
        )


def by_type(files: Iterable[FoundFile]) -> list[TypeSummary]:
    """Count found files by media type, the most files first."""
    counts, sizes = Counter[str | None](), Counter[str | None]()
    for file in files:
        kind = media_type(file.path)
        counts[kind] += 1
        sizes[kind] += file.size
    types = [TypeSummary(media_type=kind, files=n, bytes=sizes[kind]) for kind, n in counts.items()]
    return sorted(types, key=lambda one: (-one.files, one.media_type or ""))


def summarise(
    *,
    discovered: FileCounts,
    inserted: FileCounts,
    states: Mapping[str, FileCounts],
    seconds: float,
    stopped: Stopped,
    types: Sequence[TypeSummary] = (),
) -> IngestSummary:
    """Put the counts of a run together.

    Parameters
    ----------
    discovered, inserted : mapping
        Files per tenant.
    states : mapping
        Per state (``acked``, ``dead``: of this run; ``ready``, ``claimed``: now), files per tenant.
    seconds : float
        How long the run took.
    stopped : str
        Why it ended.
    types : sequence of TypeSummary
        What was found, by media type.
    """
    waiting = Counter(states.get("ready", {})) + Counter(states.get("claimed", {}))
    names = sorted({*discovered, *waiting, *(t for counts in states.values() for t in counts)})
    tenants = tuple(
        TenantSummary(
            tenant=name,
            discovered=discovered.get(name, 0),
            inserted=inserted.get(name, 0),
            known=discovered.get(name, 0) - inserted.get(name, 0),
            processed=states.get("acked", {}).get(name, 0),
            dead=states.get("dead", {}).get(name, 0),
            waiting=waiting[name],
        )
        for name in names
    )
    return IngestSummary(
        **{name: sum(getattr(tenant, name) for tenant in tenants) for name in _COUNTED},
        seconds=round(seconds, 3),
        stopped=stopped,
        tenants=tenants,
        types=tuple(types),
    )
