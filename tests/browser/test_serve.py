"""What pages are in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from spark_queue.config import QueueConfig
from spark_queue.local_queue import LocalQueue
from tests.browser.conftest import Served, sign_in

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

Serve = Callable[..., Served]

_EVIL = "<script>alert('x')</script><img src=x onerror=alert(1)><svg onload=alert(2)>\"'&"


@pytest.fixture
def queue(place: str) -> LocalQueue:
    """Make a queue of two items on the clock of the system."""
    path = f"{place}/queue"
    queue = LocalQueue.create(path, "id string", QueueConfig(), durability="process")
    queue.enqueue([{"id": "1"}, {"id": "2"}])
    return queue


@pytest.fixture
def evil(place: str) -> LocalQueue:
    """Make a queue whose every text would run as a script, if it could."""
    config = QueueConfig(fair_key="tenant", group_key="tenant", max_attempts=1)
    schema = "id string, tenant string"
    queue = LocalQueue.create(f"{place}/queue", schema, config, durability="process")
    queue.enqueue([{"id": _EVIL, "tenant": _EVIL} for _ in range(4)])
    queue.claim(1, worker_id=_EVIL).nack(_EVIL)
    queue.claim(1, worker_id=_EVIL)
    return queue


def _cell(page: Page, state: str) -> str:
    row = page.locator(f"tr:has(td:text-is('{state}'))").first
    # A string, also for a type checker that does not know the browser's library.
    return str(row.locator("td").nth(1).inner_text())


def _wait_for(page: Page, state: str, count: str) -> None:
    page.wait_for_selector(f"tr:has(td:text-is('{state}')) td:text-is('{count}')")


def _pages_of(page: Page, at: Served) -> list[str]:
    """Return a page of each kind."""
    page.goto(f"{at.url}/queues/0")
    found = {re.sub(r"[0-9a-f]{32}|[0-9]+$", "", link): link for link in _links(page)}
    return ["/", "/queues/0", *found.values()]


def _links(page: Page) -> list[str]:
    hrefs: list[str] = page.eval_on_selector_all(
        "main a", "all => all.map((a) => a.getAttribute('href'))"
    )
    passed = [href for href in hrefs if not href.startswith(("#", "/queues/0@"))]
    return [href for href in passed if "/act/" not in href]


def test_what_is_shown_is_refreshed(page: Page, serve: Serve, queue: LocalQueue) -> None:
    """Items that come are there a few seconds later, in the same page; hold keeps it as it is."""
    page.goto(f"{serve(queue, acts=False).url}/queues/0")
    assert _cell(page, "runnable") == "2"
    page.evaluate("window.stays = 1")
    title = page.inner_text(".as-of")

    queue.enqueue([{"id": "3"}])
    _wait_for(page, "runnable", "3")
    page.click("button:text-is('hold')")
    queue.enqueue([{"id": "4"}])
    page.wait_for_timeout(2_500)

    assert _cell(page, "runnable") == "3"
    assert page.evaluate("window.stays") == 1
    assert "as of" in page.inner_text("#fresh")
    assert page.inner_text(".as-of") > title
    page.click("button:text-is('go on')")
    _wait_for(page, "runnable", "4")


def test_no_text_runs_as_a_script(page: Page, serve: Serve, evil: LocalQueue) -> None:
    """Whatever items, tenants, workers and errors say is shown as it is, after a refresh, too."""
    at, asked = serve(evil), set[str]()
    page.on("request", lambda request: asked.add(request.url.split("/")[2]))
    for path in _pages_of(page, at):
        page.goto(at.url + path)
        page.wait_for_selector("#fresh:text('as of')")
        assert page.locator("main script, main img, main [onload], main [onerror]").count() == 0
        assert path == "/" or "<script>alert('x')</script>" in page.inner_text("body")
    sign_in(page, at, "cancel?where=true")
    page.click("button:text-is('what would it do?')")
    assert _EVIL in page.inner_text("body")
    assert asked == {f"127.0.0.1:{at.port}"}


def test_script_that_is_not_ours_does_not_run(page: Page, serve: Serve, queue: LocalQueue) -> None:
    """Even what would get into the page, as markup or as an element, is not run by the browser."""
    page.goto(serve(queue).url)
    page.evaluate(
        """() => {
          const one = document.createElement("script");
          one.textContent = "window.ran = 1";
          document.body.append(one);
          document.body.insertAdjacentHTML("beforeend", "<img src=/no onerror='window.ran = 2'>");
        }"""
    )
    page.wait_for_timeout(300)
    assert page.evaluate("window.ran === undefined")


def test_operator_cancels_what_was_counted(page: Page, serve: Serve, queue: LocalQueue) -> None:
    """Who signs in, names the items and confirms their count finds the step with their name."""
    sign_in(page, serve(queue), "cancel")
    page.fill("#where", "_seq = 2")
    page.click("button:text-is('what would it do?')")
    assert "1 item will be cancelled (1 ready now)" in page.inner_text("body")
    assert queue.counts()["ready"] == 2

    page.click("button:text-is('cancel: 1 item')")

    assert "cancelled 1 item" in page.inner_text(".said")
    assert queue.counts()["cancelled"] == 1
    steps = page.locator("table").last.inner_text().split("\n")
    assert any("cancelled" in line and "ann" in line for line in steps)
    page.reload()
    assert page.locator(".said").count() == 0


def test_without_the_token_nothing_is_done(page: Page, serve: Serve, queue: LocalQueue) -> None:
    """A wrong token is refused, and so is a form without a session."""
    at = serve(queue)
    page.goto(f"{at.url}/queues/0/act/pause")
    page.fill("#token", "guessed")
    page.click("button:text-is('sign in')")
    assert "not the token" in page.inner_text("[role=alert]")
    status = page.evaluate(
        """async () => (await fetch("/queues/0/act/pause", {
          method: "POST", body: new URLSearchParams({ confirmed: "9" }),
        })).status"""
    )
    assert status == 403
    assert not queue.paused


def test_another_site_does_nothing(
    page: Page, serve: Serve, queue: LocalQueue, other_site: Callable[[str], str]
) -> None:
    """A form of another site is refused, though it knows the secret and brings the cookie."""
    at = serve(queue)
    sign_in(page, at)
    csrf = page.get_attribute("[name=csrf]", "value")
    evil = other_site(
        f"""<form method="post" action="{at.url}/queues/0/act/pause">
        <input name="csrf" value="{csrf}"><input name="confirmed" value="9"></form>
        <script>document.forms[0].submit()</script>"""
    )
    with page.expect_response("**/act/pause") as told:
        page.goto(evil, wait_until="commit")
    page.wait_for_url("**/act/pause")
    assert told.value.status == 403
    assert not queue.paused
    # The same from our own page is done.
    page.goto(f"{at.url}/queues/0/act/pause")
    page.click("button:text-is('what would it do?')")
    page.click("button:has-text('pause:')")
    page.wait_for_selector(".said")
    assert queue.paused


def test_name_of_another_site_that_leads_here_is_refused(
    page: Page, serve: Serve, queue: LocalQueue
) -> None:
    """A page under another name, which its site has lead to this machine, is not shown."""
    answer = page.goto(f"http://rebound.localhost:{serve(queue).port}/queues/0")
    assert answer is not None
    assert answer.status == 403
    assert "runnable" not in page.inner_text("body")


def test_a_phone_shows_which_queue_is_paused(page: Page, serve: Serve, queue: LocalQueue) -> None:
    """The word is beside the name, and needs no scrolling."""
    queue.pause()
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(serve(queue, acts=False).url)

    box = page.locator("b:text-is('PAUSED')").bounding_box()

    assert box is not None
    assert box["x"] + box["width"] <= 390


@pytest.mark.parametrize("width", [390, 640])
def test_pages_fit_a_phone_and_eighty_columns(
    page: Page, serve: Serve, night: LocalQueue, width: int
) -> None:
    """No page is wider than the window: a table that is has a bar of its own."""
    page.set_viewport_size({"width": width, "height": 800})
    at = serve(night)
    sign_in(page, at)
    for path in [*_pages_of(page, at), "/queues/0/act/configure"]:
        page.goto(at.url + path)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, path
        assert page.evaluate("document.querySelectorAll('h1').length") == 1


def _heads(page: Page, sheet: str, column: int) -> list[str]:
    texts: list[str] = page.locator(
        f"table[data-sheet={sheet}] tbody td:nth-child({column})"
    ).all_inner_texts()
    return texts


def test_a_click_sorts_a_table(page: Page, serve: Serve, night: LocalQueue) -> None:
    """By numbers, the most first, then the least; a refresh keeps the order."""
    page.goto(f"{serve(night, acts=False).url}/queues/0")
    for expected in ("descending", "ascending"):
        page.click("table[data-sheet=tenants] th button:text-is('ready')")
        head = page.locator("table[data-sheet=tenants] th[aria-sort]")
        assert (head.inner_text().strip(), head.get_attribute("aria-sort")) == ("ready", expected)
        counts = [int(text or 0) for text in _heads(page, "tenants", 4)]
        assert counts == sorted(counts, reverse=expected == "descending")
    page.wait_for_selector("#fresh:text('as of')")
    assert [int(text or 0) for text in _heads(page, "tenants", 4)] == counts


def test_chart_has_a_range_and_says_what_is_under_the_pointer(
    page: Page, serve: Serve, night: LocalQueue
) -> None:
    """It has units, names its zone, and keeps its range over a refresh."""
    page.set_viewport_size({"width": 1280, "height": 1400})
    page.goto(f"{serve(night, acts=False).url}/queues/0")
    page.click(".ranges a:text-is('6 h')")
    page.wait_for_selector(".ranges a[aria-current=true]:text-is('6 h')")
    tips = page.locator(".axes rect.part title").all_text_contents()
    assert len(tips) > 5
    assert all(re.search(r"Z: enqueued \d+, acked \d+, failed \d+, open \d+", tip) for tip in tips)
    assert "UTC" in page.inner_text(".axes")
    page.wait_for_selector("#fresh:text('as of')")
    assert page.locator(".ranges a[aria-current=true]").inner_text() == "6 h"
    assert re.search(r"as of \d\d:\d\d:\d\dZ", page.inner_text("#fresh"))


def test_ticked_items_stay_so_over_a_refresh_and_are_in_the_form(
    page: Page, serve: Serve, queue: LocalQueue
) -> None:
    """The list changes under the boxes; what was ticked is what the form is about."""
    at = serve(queue)
    sign_in(page, at)
    page.goto(f"{at.url}/queues/0/items")
    page.check("#tick-2")
    queue.enqueue([{"id": "3"}])
    page.wait_for_selector("#tick-3")
    assert page.is_checked("#tick-2")
    page.click("button:text-is('Cancel ticked …')")
    assert page.input_value("#where") == "_seq IN (2)"


def test_command_is_copied(page: Page, serve: Serve, night: LocalQueue) -> None:
    """The button beside a command puts it on the clipboard, also after a refresh."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{serve(night, acts=False).url}/queues/0")
    page.wait_for_selector("#fresh:text('as of')")
    command = page.locator("main code").first.inner_text()
    page.locator("main .copy").first.click()
    page.wait_for_selector("button:text-is('Copied')")
    assert page.evaluate("navigator.clipboard.readText()") == command
    assert page.locator("main code").count() == page.locator("main .copy").count()


def test_state_comes_first_on_a_phone(page: Page, serve: Serve, night: LocalQueue) -> None:
    """What a queue is called and how it does stand above all that is to be typed or clicked."""
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(f"{serve(night).url}/queues/0")

    def top(of: str) -> float:
        return float(page.eval_on_selector(of, "one => one.getBoundingClientRect().top"))

    assert top("main h1") < top("main .pill") + 20 < 130
    assert top(".find") > top("main .tiles")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_light_or_dark_is_the_viewers_choice(page: Page, serve: Serve, queue: LocalQueue) -> None:
    """A page is as the system is; a click makes it the other, and the next page, too."""

    def paper() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    at = serve(queue, acts=False)
    page.emulate_media(color_scheme="light")
    page.goto(at.url)
    light = paper()
    page.click("#theme")
    dark = paper()
    page.goto(f"{at.url}/queues/0")
    assert (light, dark, paper()) == ("rgb(245, 246, 248)", "rgb(17, 20, 26)", dark)


def test_all_rows_are_shown_by_a_click(page: Page, serve: Serve, place: str) -> None:
    """Ten tenants are shown, then all of them, also after a refresh."""
    config = QueueConfig(fair_key="tenant")
    queue = LocalQueue.create(f"{place}/many", "tenant string", config, durability="process")
    queue.enqueue([{"tenant": f"t{n}"} for n in range(14)])
    page.goto(f"{serve(queue, acts=False).url}/queues/0")
    rows = page.locator("table[data-sheet=tenants] tbody tr:visible")
    assert rows.count() == 10
    page.check("#all-tenants")
    page.wait_for_selector("#fresh:text('as of')")
    assert rows.count() == 14
