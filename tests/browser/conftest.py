"""Pages in a real browser: the system's chromium without a screen, over a real connection.

Neither it nor the library that drives it is installed by the gate: ``CONTRIBUTING.md`` says how
these tests are run.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_queue.clock import ManualClock
from spark_queue.config import QueueConfig
from spark_queue.local_queue import LocalQueue
from spark_queue.queue_views import store_of
from spark_queue.report.following import follow
from spark_queue.serve.guard import LOOPBACK, Sessions
from spark_queue.serve.server import listening, server_of
from spark_queue.serve.site import Site
from spark_queue.serve.watching import Board, OpenedQueue

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Page

TOKEN = "the token of the tests"  # noqa: S105 - of no use elsewhere

#: Where the pictures of the documents are kept, when they are made anew.
PICTURES = os.environ.get("SPARK_QUEUE_PICTURES")

#: Where chromium is; ``None`` where nobody says so.
_CHROMIUM = shutil.which(os.environ.get("SPARK_QUEUE_BROWSER", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Pages that are served: of which queue, and where."""

    queue: LocalQueue
    url: str
    port: int


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Start the browser; without it, say why nothing is tested."""
    if _CHROMIUM is None:
        pytest.skip("no browser: SPARK_QUEUE_BROWSER says where chromium is")
    driver = pytest.importorskip("playwright.sync_api", reason="pip install 'spark-queue[browser]'")
    # A sandbox is not for root, who runs it in containers.
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    with driver.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=_CHROMIUM, args=flags)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """Open a page as wide as eighty columns; a script that speaks, or fails, fails the test."""
    heard: list[str] = []

    def heard_of(dialog: Dialog) -> None:
        heard.append(dialog.message)
        dialog.dismiss()

    context = chromium.new_context(viewport={"width": 640, "height": 900})
    context.set_default_timeout(15_000)
    page = context.new_page()
    page.on("dialog", heard_of)
    page.on("pageerror", lambda error: heard.append(str(error)))
    yield page
    context.close()
    assert heard == []


def sign_in(page: Page, at: Served, form: str = "") -> None:
    """Sign in, and go to the form of an action."""
    page.goto(f"{at.url}/queues/0/act/{form or 'pause'}")
    page.fill("#token", TOKEN)
    page.click("button:text-is('sign in')")


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Serve queues on a port of this machine, looked at each second."""
    with ExitStack() as running:

        def served(*queues: LocalQueue, acts: bool = True) -> Served:
            known = {queue.name: queue for queue in queues}

            def opener(name: str, reader: str | None) -> OpenedQueue:
                queue = known[name]
                seen = queue if reader is None else queue.open_reader(reader)
                return OpenedQueue(look=follow(store_of(seen)), operate=seen)

            sessions = Sessions(TOKEN, "ann") if acts else None
            board = Board(list(known), opener)
            site = Site(board=board, sessions=sessions, acts=acts, every=1.0)
            port = running.enter_context(_running(site))
            return Served(queue=queues[0], url=f"http://127.0.0.1:{port}", port=port)

        yield served


@contextmanager
def _running(site: Site) -> Iterator[int]:
    with listening("127.0.0.1", 0) as at:
        server = server_of(site.app(LOOPBACK))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [at]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield at.getsockname()[1]
        server.should_exit = True
        thread.join()


@pytest.fixture
def other_site() -> Iterator[Callable[[str], str]]:
    """Serve a document as another site, and return where it is."""
    with ExitStack() as running:
        yield lambda html: running.enter_context(_site(html))


@contextmanager
def _site(html: str) -> Iterator[str]:
    class Answers(BaseHTTPRequestHandler):
        """Answers whatever is asked for with the same."""

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, *_args: Any) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture
def night(place: str) -> Iterator[LocalQueue]:
    """Make a queue as somebody finds it who is called at night."""
    root = Path("/tmp/queues" if PICTURES else place)  # noqa: S108 - a path that pictures may have
    clock = ManualClock(datetime(2026, 3, 14, 2, 0, tzinfo=timezone.utc))
    config = QueueConfig(
        dedup_key="path",
        fair_key="tenant",
        group_key="folder",
        max_attempts=3,
        lease=timedelta(minutes=20),
    )
    queue = LocalQueue.create(
        root / "invoices",
        "path string, tenant string, folder string",
        config,
        durability="process",
        clock=clock,
    )
    tenants = ("acme", "borealis", "cobalt", "dune")
    for hour in range(4):
        queue.enqueue(
            [
                {"path": f"{hour}/{n}.pdf", "tenant": tenants[n * 3 % 7 % 4], "folder": f"f{n % 7}"}
                for n in range(24 + 8 * hour)
            ]
        )
        for turn in range(8):
            clock.advance(timedelta(minutes=2))
            claim = queue.claim(3, worker_id=f"worker-{turn % 3}")
            _settle(claim, turn)
    clock.advance(timedelta(minutes=1))
    queue.claim(4, worker_id="worker-1")
    clock.advance(timedelta(seconds=40))
    yield queue
    shutil.rmtree(root, ignore_errors=True)


def _settle(claim: Any, turn: int) -> None:
    rows = claim.rows
    if not rows:
        return
    told: dict[int, tuple[str, str | None]] = {row["_seq"]: ("ack", None) for row in rows}
    first = rows[0]["_seq"]
    if turn % 3 == 1:
        error = f"TimeoutError: GET /v2/render/{first} took 30.0 s"
        told[first] = ("nack", error)
    if turn == 6:
        told[first] = ("dead", f"ValueError: page {first} of {rows[0]['path']} has no total")
    claim.settle_each(told)
