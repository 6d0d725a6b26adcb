"""All checks, by what they find, in the order in which they are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from spark_queue.doctor.checks import service, starvation, stuck_items, trust, upkeep
from spark_queue.doctor.finding import Finding
from spark_queue.doctor.subject import Subject

#: Looks at a queue, and yields what it finds.
Check = Callable[[Subject], Iterator[Finding]]

CHECKS: Mapping[str, Check] = {
    "damaged": trust.find_damaged,
    "format-newer": service.format_newer,
    "format-older": service.format_older,
    "files-gone": trust.files_gone,
    "position-gone": trust.position_gone,
    "foreign-rows": trust.foreign_rows,
    "clocks-differ": trust.clocks_differ,
    "unsafe-session": service.unsafe_session,
    "paused": service.find_paused,
    "front-gone": service.front_gone,
    "leases-overdue": stuck_items.leases_overdue,
    "workers-gone": stuck_items.workers_gone,
    "items-too-old": stuck_items.items_too_old,
    "retry-storm": stuck_items.retry_storm,
    "dead-growing": stuck_items.dead_growing,
    "nobody-claims": starvation.nobody_claims,
    "tenant-starves": starvation.tenant_starves,
    "priority-starves": starvation.priority_starves,
    "group-starves": starvation.group_starves,
    "checkpoint-due": upkeep.checkpoint_due,
    "commits-unsummed": upkeep.commits_unsummed,
    "compaction-due": upkeep.compaction_due,
    "small-files": upkeep.small_files,
    "retention-due": upkeep.retention_due,
    "disk-fills": upkeep.disk_fills,
}
