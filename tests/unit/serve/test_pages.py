"""What pages show, to whoever only looks."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from spark_queue.clock import ManualClock
from spark_queue.local_queue import LocalQueue
from spark_queue.report import reading
from spark_queue.report.model import Report
from spark_queue.state.store import Store
from tests.unit.serve.conftest import EVIL, Pages

Make = Callable[..., LocalQueue]


class _Read(HTMLParser):
    """Takes down what a page has: its tags, its links, its texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.names: set[str] = set()
        self.links: list[str] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.names |= {name for name, _ in attrs}
        self.links += [value for name, value in attrs if tag == "a" and name == "href" and value]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


_TAGS = {
    *("html", "head", "meta", "title", "link", "script", "body", "nav", "span", "main", "div"),
    *(
        "header",
        "section",
        "small",
        "i",
        "h1",
        "h2",
        "h3",
        "p",
        "b",
        "a",
        "pre",
        "code",
        "ol",
        "li",
    ),
    *("table", "thead", "tbody", "tr", "th", "td", "label", "input", "button", "form", "select"),
    *("option", "details", "summary", "ul"),
    *("svg", "path", "rect", "line", "text"),
}


_SCRIPTS = {
    '<script src="/theme.js">',
    *(f'<script src="/{x}.js" defer>' for x in ("live", "sort", "copy")),
}


def test_board_has_a_line_for_each_queue(make: Make, pages: Pages) -> None:
    """Of several queues it says how many items are where; one that is gone says so in its line."""
    full, other, gone = (make("id string") for _ in range(3))
    full.enqueue([{"id": "1"}, {"id": "2"}])
    full.claim(1)
    other.pause()
    browser = pages(full, other, gone)
    LocalQueue.drop(gone.name)
    gone.close()

    shown = browser.get("/")

    table = shown.text.partition("<table")[2]
    text = " ".join(_Read(f"<table{table}").texts).split()
    assert shown.status_code == 200
    assert text[text.index(full.name) + 1 :][:3] == ["1", "1", "0"]
    assert text[text.index(full.name) - 1] == "OK"
    # Before the name, which is on the screen of a phone.
    assert text[text.index(other.name) - 1] == "PAUSED"
    assert "there is no such queue" in shown.text


def test_board_shows_the_others_where_one_cannot_be_read(
    make: Make, pages: Pages, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever a library raises over a queue is said in its line, and logged."""
    well, odd = make("id string"), make("id string")
    well.pause()
    read = reading.read

    def read_but_one(store: Store, **named: Any) -> Report:
        if store.name == odd.name:
            raise RuntimeError("out of memory\nby far")
        return read(store, **named)

    monkeypatch.setattr(reading, "read", read_but_one)
    shown = pages(well, odd).get("/")

    assert (shown.status_code, "PAUSED" in shown.text) == (200, True)
    assert "out of memory</td>" in shown.text
    assert f"{odd.name}: cannot be shown" in caplog.text


def test_idle_tenants_share_a_line_that_is_no_page(
    make: Make, pages: Pages, clock: ManualClock
) -> None:
    """It is there beside a hundred others, of which each is a page."""
    queue = make("tenant string", fair_key="tenant")
    queue.enqueue([{"tenant": f"idle {n}"} for n in range(9)])
    queue.claim(9).ack()
    with_turns = pages(queue).get("/queues/0").text
    clock.advance(timedelta(hours=2))
    queue.enqueue([{"tenant": f"busy {n}"} for n in range(110)])

    shown = pages(queue).get("/queues/0").text

    assert (with_turns.count("/tenants/"), shown.count("/tenants/")) == (9, 100)
    assert ">9 more, all idle<" in shown


def test_every_link_of_a_queue_is_a_page(evil: LocalQueue, pages: Pages) -> None:
    """Errors, tenants, groups, items and readers are pages; none has markup that is not ours."""
    browser, todo, seen = pages(evil), ["/"], set()
    while todo:
        path = todo.pop()
        answer = browser.get(path)
        assert answer.status_code == 200, path
        read = _Read(answer.text)
        assert read.tags <= _TAGS, path
        assert not {name for name in read.names if name.startswith("on")} | read.names & {"style"}
        assert "{{" in answer.text or path == "/"
        assert {*re.findall(r"<script[^>]*>", answer.text)} <= _SCRIPTS
        seen.add(path)
        found = [re.sub("@/.*", "@", link) for link in read.links if link.startswith("/")]
        # Of what is of one kind one is as good as another.
        todo += [link for link in found if _kind(link) not in {_kind(x) for x in {*seen, *todo}}]

    assert {_kind(path) for path in seen} == {
        *("/", "/queues/*", "/queues/0@", "/queues/0/items", "/queues/0/items/*"),
        *("/queues/0/tenants/*", "/queues/0/groups/*", "/queues/0/errors/*", "/queues/0/workers/*"),
    }


def _kind(path: str) -> str:
    return re.sub(r"/([0-9a-f]{32}|[0-9]+)$", "/*", path.partition("?hours=")[0])


def test_page_of_an_error_has_its_items_and_what_mends_it(evil: LocalQueue, pages: Pages) -> None:
    """It says how often and since when, shows one as it was, its items, and the command."""
    browser = pages(evil)
    (link,) = (x for x in _Read(browser.get("/queues/0").text).links if "/errors/" in x)

    read = _Read(browser.get(link).text)

    assert EVIL in read.texts
    assert any(text.startswith("spark-queue redrive ") for text in read.texts)
    assert {"/queues/0/items/1"} < {*read.links}


def test_page_of_an_item_names_whom_it_waits_for(evil: LocalQueue, pages: Pages) -> None:
    """It has the time line, and the item that is in the way is a link."""
    read = _Read(pages(evil).get("/queues/0/items/4").text)

    assert "/queues/0/items/2" in read.links
    assert any("waits for item 2" in text for text in read.texts)


@pytest.mark.parametrize(
    "path",
    [
        *("/queues/1", "/queues/x", "/queues/-1", "/queues/0@nobody", "/queues/0/items/9"),
        *("/queues/0/items/x", "/queues/0/items/99999999999999999999", "/queues/0/tenants/"),
        *(f"/queues/0/tenants/{'0' * 32}", f"/queues/0/others/{'0' * 32}", "/queues/0/act/pause"),
        *("/sign-in", "/static/../app.py"),
    ],
)
def test_what_is_not_there_is_said(make: Make, pages: Pages, path: str) -> None:
    """An address that leads to nothing is answered by 404, with a page of ours."""
    answer = pages(make()).get(path)
    assert answer.status_code == 404
    assert "no such page" in answer.text or "no reader" in answer.text


def test_digest_that_is_none_is_refused(make: Make, pages: Pages) -> None:
    """What is no digest comes near no query."""
    answer = pages(make()).get("/queues/0/tenants/x' OR true --")
    assert answer.status_code == 400


def test_viewers_share_a_look(make: Make, pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten who look at the same time cost as one; who acts has it read anew."""
    queue, looks = make("id string"), []
    queue.enqueue([{"id": "1"}])
    browser, read = pages(queue, acts=True), reading.read

    def counted(*args: Any, **named: Any) -> Report:
        looks.append(1)
        return read(*args, **named)

    monkeypatch.setattr(reading, "read", counted)
    for _ in range(10):
        assert browser.get("/queues/0").status_code == 200
    assert len(looks) == 1
    browser.sign_in()
    assert browser.act("pause", confirmed="1").status_code == 303
    assert "PAUSED" in browser.get("/queues/0").text


def test_look_at_a_queue_changes_nothing(evil: LocalQueue, pages: Pages, place: str) -> None:
    """Pages that are asked for leave every file of the queue as it was, and add none."""

    def files() -> dict[str, int]:
        return {str(f): f.stat().st_mtime_ns for f in Path(place).rglob("*") if f.is_file()}

    browser, before = pages(evil, acts=True), files()
    browser.sign_in()
    for path in ("/", "/queues/0", "/queues/0/items/1", "/queues/0/act/cancel?where=true"):
        assert browser.get(path).status_code == 200
        assert browser.head(path).status_code == 200
    assert files() == before
