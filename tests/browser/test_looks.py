"""Looks of every page: pictures for the documents, and what keeps nobody from reading them."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_queue.acting import acting_as
from spark_queue.clock import ManualClock
from spark_queue.config import QueueConfig
from spark_queue.local_queue import LocalQueue
from spark_queue.queue_views import store_of
from spark_queue.report.following import id_of
from tests.browser.conftest import PICTURES, Served, sign_in

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

Serve = Callable[..., Served]

_AXE = Path(__file__).with_name("vendor") / "axe.js"

#: What is looked at, by the name of its picture.
_PAGES = {
    "index": "/",
    "queue": "/queues/0",
    "items": "/queues/0/items?state=ready",
    "item": "/queues/0/items/5",
    "tenant": f"/queues/0/tenants/{id_of('dune')}",
    "worker": f"/queues/0/workers/{id_of('worker-1')}",
    "error": f"/queues/0/errors/{id_of('TimeoutError: GET <path> took <n> s')}",
    "form": "/queues/0/act/configure",
    "wrong": "/queues/9",
}

_CASES = [(width, scheme) for width in (1280, 390) for scheme in ("light", "dark")]


@pytest.fixture
def queues(night: LocalQueue) -> list[LocalQueue]:
    """Make one queue that fails, one that is well, one that is paused, one that nobody claims."""
    root, clock = Path(night.name).parent, store_of(night).clock
    assert isinstance(clock, ManualClock)
    made = [
        LocalQueue.create(
            root / name, "id string", QueueConfig(), durability="process", clock=clock
        )
        for name in ("mails", "exports", "billing")
    ]
    mails, exports, _ = made
    for queue in made:
        queue.enqueue([{"id": str(n)} for n in range(40)])
    for turn in range(20):
        clock.advance(timedelta(minutes=4))
        mails.claim(2, worker_id="mailer").ack()
        night.enqueue([{"path": f"late/{turn}", "tenant": "acme", "folder": f"f{turn}"}])
        claim = night.claim(3, worker_id=f"worker-{turn % 2}")
        if turn % 5:
            claim.ack()
        else:
            claim.nack("TimeoutError: GET /v2/render/7 took 30.0 s")
    with acting_as("bob"):
        exports.pause()
    with acting_as("ann"):
        night.cancel("tenant = 'dune' AND _seq > 130")
    mails.enqueue([{"id": f"late {n}"} for n in range(12)])
    mails.claim(2, worker_id="mailer")
    night.claim(4, worker_id="worker-1")
    return [night, *made]


def _open(page: Page, at: Served, path: str) -> None:
    page.goto(at.url + path)


def _found_by_axe(page: Page) -> list[str]:
    """Return what a page has that keeps somebody from reading or using it."""
    page.evaluate(_AXE.read_text(encoding="utf-8"))
    found: dict[str, Any] = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']} ({one['impact']}): {one['nodes'][0]['html'][:200]}"
        for one in found["violations"]
    ]


@pytest.mark.parametrize(("width", "scheme"), _CASES)
def test_every_page_can_be_read_by_all(
    page: Page, serve: Serve, queues: list[LocalQueue], width: int, scheme: Any
) -> None:
    """No page, light or dark, wide or narrow, has what axe finds fault with."""
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    at = serve(*queues)
    sign_in(page, at)
    for name, path in _PAGES.items():
        _open(page, at, path)
        assert _found_by_axe(page) == [], name
    page.goto(f"{at.url}/queues/0/act/cancel?where=tenant+%3D+%27dune%27")
    page.click("button:text-is('what would it do?')")
    page.wait_for_selector("button:has-text('cancel:')")
    assert _found_by_axe(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_report_in_a_file_can_be_read_by_all(
    page: Page, night: LocalQueue, tmp_path: Path, scheme: Any
) -> None:
    """One file, without a script or a network, has nothing either that axe finds fault with."""
    page.emulate_media(color_scheme=scheme)
    for name, html in (("queue", night.report().html()), ("item", night.report_item(5).html())):
        file = tmp_path / f"{name}.html"
        file.write_text(html, encoding="utf-8")
        page.goto(file.as_uri())
        assert _found_by_axe(page) == [], name


@pytest.mark.parametrize(("width", "scheme"), _CASES)
def test_pictures_of_the_documents(
    page: Page,
    serve: Serve,
    queues: list[LocalQueue],
    tmp_path: Path,
    width: int,
    scheme: Any,
) -> None:
    """The documents show pages and a report, light and dark, in a wide window and on a phone."""
    pictures = Path(PICTURES) if PICTURES else tmp_path
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900 if width > 400 else 800})
    at = serve(*queues)
    sign_in(page, at)
    taken = {}
    for name, path in _PAGES.items():
        _open(page, at, path)
        taken[f"serve-{name}"] = _picture(page)
    page.goto(f"{at.url}/queues/0/act/cancel?where=tenant+%3D+%27dune%27")
    page.click("button:text-is('what would it do?')")
    page.wait_for_selector("button:has-text('cancel:')")
    taken["serve-confirm"] = _picture(page)
    assert "will be cancelled" in page.inner_text("body")
    file = tmp_path / "report.html"
    file.write_text(queues[0].report().html(), encoding="utf-8")
    page.goto(file.as_uri())
    taken["report"] = _picture(page)
    for name, picture in taken.items():
        assert len(picture) > 2_000
        (pictures / f"{name}-{width}-{scheme}.webp").write_bytes(picture)


def _picture(page: Page) -> bytes:
    """Return a picture of a page, no longer than three screens."""
    wide = page.viewport_size["width"] if page.viewport_size else 0
    long = int(page.evaluate("document.documentElement.scrollHeight"))
    clip = {"x": 0, "y": 0, "width": wide, "height": min(long, 2_000), "scale": 1}
    asked = {"format": "webp", "quality": 60, "clip": clip, "captureBeyondViewport": True}
    told = page.context.new_cdp_session(page).send("Page.captureScreenshot", asked)
    return base64.b64decode(told["data"])
