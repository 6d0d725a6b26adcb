from __future__ import annotations

from pathlib import Path

from spark_queue.ingest.run import TenantSummary, TypeSummary, by_type, summarise
from spark_queue.ingest.tree import walk


def test_counts_are_put_together_per_tenant_and_in_all() -> None:
    """Each tenant has its row, also one whose files are all from an earlier run."""
    done = summarise(
        discovered={"a": 5, "": 1},
        inserted={"a": 2},
        states={
            "acked": {"a": 2, "old": 1},
            "dead": {"": 1},
            "ready": {"b": 3},
            "claimed": {"b": 1},
        },
        seconds=1.23456,
        stopped="stop",
    )

    assert [tenant.tenant for tenant in done.tenants] == ["", "a", "b", "old"]
    assert done.tenants[1] == TenantSummary(
        tenant="a", discovered=5, inserted=2, known=3, processed=2
    )
    assert (done.discovered, done.inserted, done.known) == (6, 2, 4)
    assert (done.processed, done.dead, done.waiting) == (3, 1, 4)
    assert (done.seconds, done.stopped) == (1.235, "stop")


def test_empty_run_has_no_tenants() -> None:
    """Nothing found is a summary too."""
    done = summarise(discovered={}, inserted={}, states={}, seconds=0.0, stopped="empty")

    assert (done.discovered, done.tenants) == (0, ())


def test_found_files_are_counted_by_media_type(tmp_path: Path) -> None:
    """The type comes from the name; the one with the most files is first, the unknown is a type."""
    for name in ("a.txt", "b.txt", "c.py", "d"):
        (tmp_path / name).write_text(name)

    assert by_type(walk(tmp_path)) == [
        TypeSummary(media_type="text/plain", files=2, bytes=10),
        TypeSummary(media_type=None, files=1, bytes=1),
        TypeSummary(media_type="text/x-python", files=1, bytes=4),
    ]
