"""Pages of queues whose files are damaged, or whose times are beyond those of UTC."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_queue.local_queue import LocalQueue
from spark_queue.log import instants
from spark_queue.queue_views import store_of
from spark_queue.report.following import follow
from spark_queue.serve.guard import LOOPBACK
from spark_queue.serve.site import Site
from spark_queue.serve.watching import Board, OpenedQueue
from spark_queue.state import catch_up
from tests.unit.serve.conftest import ORIGIN, Browser, Pages

LATE = datetime.max.replace(tzinfo=timezone(timedelta(hours=-14)))
EARLY = datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))

#: A time that is written as one beyond the years of Python, and that one.
WRITTEN = datetime(2033, 3, 3, tzinfo=timezone.utc)
BEYOND = {WRITTEN: 253_402_300_800_000_000}


def _flip(file: Path) -> None:
    """Flip a bit at the end, which every reader asks for; one elsewhere may change no answer."""
    whole = bytearray(file.read_bytes())
    whole[-2] ^= 0x10
    file.write_bytes(whole)


def _make_directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


#: What happens to a file.
DAMAGE: dict[str, Callable[[Path], object]] = {
    "gone": Path.unlink,
    "empty": lambda file: file.write_bytes(b""),
    "cut": lambda file: file.write_bytes(file.read_bytes()[:50]),
    "garbage": lambda file: file.write_bytes(b"\xf5" * 300),
    "flipped": _flip,
    "directory": _make_directory,
}


def _forget(queue: LocalQueue) -> None:
    """Leave nothing in this process of a queue that it has seen."""
    queue.close()
    caches: dict[str, object] = vars(catch_up)["_caches"]
    caches.clear()


def _opened(name: str, _reader: str | None) -> OpenedQueue:
    queue = LocalQueue.open(name)
    return OpenedQueue(look=follow(store_of(queue)), operate=queue)


@pytest.mark.parametrize("log", ["queue", "status"])
@pytest.mark.parametrize("which", ["_delta_log/*1.json", "_gen=*/*.parquet"])
@pytest.mark.parametrize("how", DAMAGE)
def test_page_names_the_damaged_file(
    make: Callable[..., LocalQueue], log: str, which: str, how: str
) -> None:
    """Each page of the queue answers with the file, and the page of all queues with the others."""
    damaged, well = make("id string, tenant string", fair_key="tenant"), make()
    damaged.enqueue([{"id": "a", "tenant": "t"}])
    damaged.claim(1).nack("boom")
    _forget(damaged)
    file = next(Path(damaged.name, log).glob(which))
    DAMAGE[how](file)
    board = Board([well.name, damaged.name], _opened)
    browser = Browser(Site(board=board).app(LOOPBACK), base_url=ORIGIN)

    shown = [browser.get(f"/queues/1{path}") for path in ("", "/items/1", f"/errors/{'0' * 32}")]

    assert [answer.status_code for answer in shown] == [503] * 3
    assert all(file.name in answer.text for answer in shown)
    every = browser.get("/").text
    assert file.name in every
    assert every.count('class="fold wrong"') == 1


def test_pages_of_times_that_utc_cannot_name(
    make: Callable[..., LocalQueue], pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are shown as the first or the last instant, whichever column has them."""
    queue = make("at timestamp, tenant string", fair_key="tenant", max_attempts=1)
    with monkeypatch.context() as old:
        old.setattr(instants, "require_named", lambda _rows: None)
        queue.enqueue([{"at": at, "tenant": "t"} for at in (LATE, EARLY)])
        old.setattr(pq, "write_table", _writes_beyond(pq.write_table))
        for column in ("available_at", "expires_at"):
            queue.enqueue({"at": WRITTEN, "tenant": "t", column: WRITTEN})
    queue.claim(1).nack("boom")
    _forget(queue)
    browser = pages(LocalQueue.open(queue.name), acts=True)
    browser.sign_in()

    seat = browser.get("/queues/0")
    links = sorted(set(re.findall(r'href="(/queues/0/(?!act)[^"]+)"', seat.text)))
    dry_run = browser.act("cancel", where="_state = 'ready'")

    assert {link.split("/")[3] for link in links} == {"items", "tenants", "errors"}
    items = [f"/queues/0/items/{seq}" for seq in (1, 2, 3, 4)]
    assert {browser.get(link).status_code for link in (*links, *items, "/")} == {200}
    assert (seat.status_code, dry_run.status_code) == (200, 200)
    assert "0001-01-01" in dry_run.text


def _writes_beyond(write: Callable[..., object]) -> Callable[..., object]:
    def written(rows: pa.Table, *args: object, **options: object) -> object:
        for column in ("_available_at", "_expires_at"):
            at = rows.column_names.index(column) if column in rows.column_names else None
            if at is not None:
                moved = [BEYOND.get(one, one) for one in rows[column].to_pylist()]
                micros = pa.array([_micros(one) for one in moved], pa.int64())
                kind = rows.schema.field(column)
                rows = rows.set_column(at, kind, micros.cast(kind.type))
        return write(rows, *args, **options)

    return written


def _micros(at: datetime | int | None) -> int | None:
    return round(at.timestamp()) * 1_000_000 if isinstance(at, datetime) else at
