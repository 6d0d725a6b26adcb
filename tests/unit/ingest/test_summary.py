from __future__ import annotations

from spark_queue.ingest.summary import TenantSummary, summarised


def test_counts_are_put_together_per_tenant_and_in_all() -> None:
    """Each tenant has its row, also one whose files are all from an earlier run."""
    done = summarised(
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
    done = summarised(discovered={}, inserted={}, states={}, seconds=0.0, stopped="empty")

    assert (done.discovered, done.tenants) == (0, ())
