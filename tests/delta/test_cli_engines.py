"""Commands say the same, byte for byte, whoever answers them: this process, or Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import astuple
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_queue.clock import ManualClock, SystemClock
from spark_queue.config import QueueConfig
from spark_queue.delta_queue import DeltaQueue
from spark_queue.local_queue import LocalQueue
from spark_queue.retry_policy import RetryPolicy
from tests.conftest import CommandLine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

#: Runs a command by an engine, and returns its exit code and what it printed.
Told = Callable[..., tuple[object, str, str]]

_SCHEMA = (
    "n int, tenant string, at timestamp, day date, x double, f float, ok boolean, raw binary, "
    "big bigint, small smallint"
)


@pytest.fixture
def told(spark: SparkSession, command_line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Told:
    """Run commands at one instant."""
    now = datetime(2026, 1, 1, 0, 5, tzinfo=timezone.utc)
    monkeypatch.setattr(SystemClock, "now", lambda _self: now)

    def told(engine: str, *argv: str) -> tuple[object, str, str]:
        return astuple(command_line(*argv, "--engine", engine, sessions=lambda _verbose: spark))

    return told


@pytest.fixture
def filled(queue_path: str) -> str:
    """Make a queue with items in each state, of all types that are kept without Spark."""
    clock = ManualClock()
    config = QueueConfig(
        dedup_key="n",
        fair_key="tenant",
        lease=timedelta(minutes=1),
        retry=RetryPolicy(delay=timedelta(0)),
        max_attempts=3,
    )
    queue = LocalQueue.create(queue_path, _SCHEMA, config, durability="process", clock=clock)
    blank = dict.fromkeys(column.split()[0] for column in _SCHEMA.split(", "))
    first = {
        **blank,
        "n": 1,
        "tenant": "ä",
        "at": datetime(2025, 7, 1, 12, 30, 0, 250, tzinfo=timezone.utc),
        "day": datetime(2025, 7, 1, tzinfo=timezone.utc).date(),
        "x": float("nan"),
        "f": 0.1,
        "ok": True,
        "raw": b"\x00\xff",
        "big": 2**60,
        "small": -1,
    }
    queue.enqueue([first, *({**blank, "n": n, "tenant": "abc"[n % 3]} for n in range(2, 9)), first])
    queue.enqueue({**blank, "n": 9, "expires_at": clock.now() + timedelta(seconds=5)})
    queue.enqueue({**blank, "n": 10, "available_at": clock.now() + timedelta(hours=1)})
    clock.advance(timedelta(seconds=10, microseconds=123_457))
    held = queue.claim(4, worker_id="me")
    seqs = [row["_seq"] for row in held.rows]
    held.settle_each({seqs[0]: ("dead", "bad\nvery"), seqs[1]: ("nack", "once"), seqs[2]: "ack"})
    clock.advance(timedelta(seconds=10, microseconds=123_457))
    again = queue.claim(9, worker_id="you")
    again.settle_each({row["_seq"]: "ack" for row in again.rows if row["_attempts"]})
    return queue_path


#: Each of them true of some items, and of others not.
_CONDITIONS = (
    "n IN (1, NULL)",
    "n NOT IN (1, 2)",
    "big <=> NULL OR ok <> false",
    "NOT (tenant = 'a' OR n < 4)",
    "at < timestamp '2025-07-01T14:30:00.001+02:00'",
    "day NOT BETWEEN date '2025-07-02' AND date '2025-08-01'",
    "tenant LIKE '_' AND tenant NOT LIKE 'ä%'",
    "concat(tenant, n) >= 'b2' AND n % 3 <> 1",
    "_available_at IS NOT NULL",
    "_enqueued_at <= _claimed_at",
    "_attempts = 1 AND _state != 'dead'",
    "ok < true OR small = -1",
)

_LOOKS = (
    ("status",),
    ("status", "--json"),
    ("status", "--limit", "2", "--as-of", "3", "--json"),
    ("status", "--as-of", "2026-01-01T00:00:10+00:00", "--json"),
    ("status", "--as-of", "99"),
    ("dead", "--json"),
    ("dead", "--limit", "0", "--as-of", "1"),
    ("config",),
    ("readers", "--json"),
    ("stats", "--json"),
    ("stats", "--limit", "2"),
    ("stats", "--as-of", "3", "--json"),
    ("stats", "--as-of", "99"),
    ("status", "--where", "n > 2", "--as-of", "3", "--json"),
    ("dead", "--where", "tenant = 'ä'", "--as-of", "2026-01-01T00:00:10.2Z"),
    *(("explain", str(seq)) for seq in (1, 2, 9)),
    *(("history", str(seq), "--json") for seq in (2, 9, 99)),
    ("status", "--reader", "none"),
    ("status", "--where", "n > 2 AND tenant IN ('a', 'b') OR ok", "--json"),
    ("dead", "--where", "_error LIKE 'bad%'"),
    *(("status", "--where", condition, "--limit", "0") for condition in _CONDITIONS),
)


@pytest.mark.usefixtures("new_york")
def test_what_is_seen_is_the_same(told: Told, filled: str) -> None:
    """Text, JSON, errors and exit codes, of items in every state, now and as they were."""
    for command, *options in _LOOKS:
        argv = (command, filled, *options)
        assert told("local", *argv) == told("spark", *argv), argv


def test_what_is_done_is_the_same(told: Told, place: str) -> None:
    """Each side makes, fills, changes and removes a queue; the answers differ in the name only."""
    files = {
        "a.csv": 'tenant,n\na,1\n"b, c",2\n,3\na,1\n',
        "c.json": '{"n": 1, "colour": "red", "tenant": "a"}\n',
        "d.csv": "n\n1\n",
        "live.yaml": "max_items: 10\n",
        "sends.yaml": f"punt_to: {place}/nowhere\n",
    }
    for name, text in files.items():
        Path(place, name).write_text(text)
    commands = (
        ("create", "--schema", "n int, tenant string", "--dedup-key", "n", "--fair-key", "tenant"),
        ("create", "--schema", "n int"),
        *(
            ("enqueue", "--files", f"{place}/{name}")
            for name in files
            if not name.endswith(".yaml")
        ),
        ("enqueue", "--files", f"{place}/a.csv", "--on-duplicate", "raise"),
        ("pause",),
        ("resume",),
        ("configure", "--lease", "60", "--max-attempts", "none"),
        ("configure", "--lease", "0"),
        ("cancel", "--where", "n = 1 AND tenant = 'a'", "--dry-run", "--json"),
        ("cancel", "--where", "n = 1 AND tenant = 'a'"),
        ("undo", "5"),
        ("undo", "5", "--json"),
        ("undo", "4"),
        ("undo", "1"),
        ("cancel", "--where", "tenant = 'b, c'"),
        ("redrive", "--where", "_state = 'cancelled'", "--dry-run"),
        ("redrive", "--where", "_state = 'cancelled'", "--json"),
        ("purge", "--where", "_state = 'cancelled'", "--dry-run", "--json"),
        ("purge", "--where", "_seq <= 3"),
        ("maintain", "--dry-run", "--retention", "60"),
        ("drop", "--dry-run", "--json"),
        ("status", "--json"),
        ("add-reader", "mail"),
        ("add-reader", "audit", "--start", "beginning", "--config", f"{place}/live.yaml"),
        ("add-reader", "late", "--start", "2026-01-01T00:05:00Z"),
        ("add-reader", "sends", "--config", f"{place}/sends.yaml"),
        ("readers",),
        ("status", "--reader", "audit"),
        ("drop-reader", "audit"),
        ("drop-reader", "audit"),
        ("drop",),
        ("drop", "--yes"),
        ("drop", "--yes"),
    )
    for command, *options in commands:
        said = {
            engine: told(engine, command, f"{place}/{engine}", *options)
            for engine in ("local", "spark")
        }
        other = tuple(
            part.replace(f"{place}/spark", f"{place}/local") if isinstance(part, str) else part
            for part in said["spark"]
        )
        assert said["local"] == other, (command, options)


def test_values_of_files_are_the_same(told: Told, place: str, spark: SparkSession) -> None:
    """What is plain in JSON and CSV has the same values, whoever reads it."""
    texts = {
        "a.json": "\n".join(
            json.dumps({"s": s, "x": x, "ok": ok, "day": "2026-02-28", "at": at})
            for s, x, ok, at in (
                ("", 1, True, "2026-01-31T12:00:00Z"),
                ("é\u2028x", -0.1, False, "2026-01-31T12:00:00.123+02:00"),
                (None, 1e-7, None, "2026-01-31T12:00:00.123456-05:30"),
            )
        ),
        "b.csv": 's,x,ok,day,at\n"",1,true,1969-12-31,2026-01-31T12:00:00Z\n'
        '"a, b",-0.1,false,,1969-12-31T23:59:59.999999+00:00\n\n a ,0.3,,,\n',
        "c.csv": "\ufeffs,x,ok,day,at\nc,,,,\n",
        "d.json": '\ufeff[\n{"s": "d", "x": 2, "ok": true, "day": null},\n'
        '{"s": "e", "at": null}]\n',
        "e.json": '[{"s": "f", "x": 2, "ok": true, "day": null, "at": null}]',
    }
    for name, text in texts.items():
        Path(place, name).write_text(text, encoding="utf-8")
    rows = []
    for engine in ("local", "spark"):
        queue = f"{place}/{engine}"
        schema = "s string, x double, ok boolean, day date, at timestamp"
        assert told("local", "create", queue, "--schema", schema)[0] == 0
        for name in texts:
            assert told(engine, "enqueue", queue, "--files", f"{place}/{name}")[0] == 0
        names = ("s", "x", "ok", "day", "at")
        rows.append(DeltaQueue.open(spark, queue).status().orderBy("_seq").select(*names).collect())

    assert rows[0] == rows[1]
    assert [row["s"] for row in rows[0][6:]] == ["c", "d", "e", "f"]
