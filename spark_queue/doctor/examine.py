"""All checks of a queue, made one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from spark_queue.doctor import service, trust, upkeep
from spark_queue.doctor.subject import Subject
from spark_queue.errors import QueueNotFoundError, SparkQueueError
from spark_queue.log.step_events import logger
from spark_queue.report.alarms import ALARMS
from spark_queue.report.finding import Checkup, Finding, Thresholds, how_bad, require_thresholds
from spark_queue.state.store import Store
from spark_queue.views.answers import ViewSource
from spark_queue.wording import line_of

#: Looks at a queue, and yields what it finds.
Check = Callable[[Subject], Iterator[Finding]]


def _alarm(name: str) -> Check:
    """Return the check of all readers that an alarm of reports makes."""

    def check(subject: Subject) -> Iterator[Finding]:
        for reader in subject.readers:
            yield from ALARMS[name](subject.vitals(reader), subject.thresholds)

    return check


CHECKS: Mapping[str, Check] = {
    "damaged": trust.find_damaged,
    "format-newer": service.format_newer,
    "format-older": service.format_older,
    "files-gone": trust.files_gone,
    "position-gone": trust.position_gone,
    "foreign-rows": trust.foreign_rows,
    "property-changed": trust.property_changed,
    "column-added": trust.column_added,
    "clocks-differ": trust.clocks_differ,
    "unsafe-session": service.unsafe_session,
    "paused": _alarm("paused"),
    "front-gone": service.front_gone,
    "send-refused": service.send_refused,
    "leases-overdue": _alarm("leases-overdue"),
    "workers-gone": _alarm("workers-gone"),
    "items-too-old": _alarm("items-too-old"),
    "retry-storm": _alarm("retry-storm"),
    "dead-growing": _alarm("dead-growing"),
    "nobody-claims": _alarm("nobody-claims"),
    "tenant-starves": _alarm("tenant-starves"),
    "priority-starves": _alarm("priority-starves"),
    "limit-full": _alarm("limit-full"),
    "key-paused": _alarm("key-paused"),
    "rate-unreached": _alarm("rate-unreached"),
    "rate-below-inflow": _alarm("rate-below-inflow"),
    "rate-clocks": _alarm("rate-clocks"),
    "group-starves": _alarm("group-starves"),
    "held-long": _alarm("held-long"),
    "given-back": _alarm("given-back"),
    "output-unasked": service.output_unasked,
    "checkpoint-due": upkeep.checkpoint_due,
    "commits-unsummed": upkeep.commits_unsummed,
    "compaction-due": upkeep.compaction_due,
    "small-files": upkeep.small_files,
    "retention-due": upkeep.retention_due,
    "disk-fills": upkeep.disk_fills,
}


def examine(
    store: Store, thresholds: Thresholds | None = None, source: ViewSource | None = None
) -> Checkup:
    """Make all checks of a queue; nothing is written.

    Parameters
    ----------
    store : Store
        The queue, of all its readers. Where it does not open, the reason is a finding.
    thresholds : Thresholds, optional
        From where on something is worth a word.
    source : ViewSource, optional
        By whom the logs are read; by default as :func:`~spark_queue.report.reading.source_of`
        says.

    Raises
    ------
    QueueNotFoundError
        When there is no queue.
    """
    subject = Subject(store, require_thresholds(thresholds), source)
    findings: list[Finding] = []
    unchecked: dict[str, str] = {}
    for name, check in CHECKS.items():
        found, why = _run_check(check, subject)
        findings += found
        if why:
            unchecked[name] = why
    return Checkup(
        queue=store.name,
        at=subject.now,
        findings=tuple(sorted(findings, key=how_bad)),
        unchecked=unchecked,
        # Its check has said why it could not be measured.
        storage=None if "disk-fills" in unchecked else subject.storage,
    )


def _run_check(check: Check, subject: Subject) -> tuple[list[Finding], str]:
    """Run a check; return its findings, or why it cannot be made."""
    try:
        return list(check(subject)), ""
    except QueueNotFoundError:
        raise
    except (SparkQueueError, OSError) as exc:
        # What makes it impossible is mostly a finding of another check.
        return [], str(exc) or type(exc).__name__
    except Exception as exc:  # noqa: BLE001 - an error of one check stops no other
        logger.exception("%s: a check cannot be made", subject.store.name)
        return [], f"{type(exc).__name__}: {line_of(exc)}"
