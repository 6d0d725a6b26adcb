"""Hostile values of everything that a page is given."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from urllib.parse import quote

import pytest

from spark_queue.local_queue import LocalQueue
from tests.unit.hostile.values import LINES, RAW
from tests.unit.serve.conftest import ORIGIN, TOKEN, Browser, Pages

#: What no number, name, text or condition should be.
HOSTILE = (
    *("", " ", "0", "-1", "1.5", "1e999", "nan", "inf", "-inf", "9" * 400, "9" * 5_000, "١٢٣"),
    *("none", "None", "null", "true", "\x00", "a\x00b", "\ud800", "\U0010ffff", "é" * 3_000),
    *("'", '"', "`", "\\", "%", "%%s", "{{ 7*7 }}", "{0.__class__}", "../../etc/passwd", "//x"),
    *("<script>alert(1)</script>", "x' OR true --", "a\r\nset-cookie: b=c", "a=b=c", "=", "a=nan"),
    *("a=1e999", "(" * 20_000, "(" * 20_000 + "true" + ")" * 20_000, "not " * 15_000 + "true"),
    *(
        "true or " * 7_000 + "true",
        "true" + " is null" * 7_000,
        "'a'" + " || 'a'" * 8_000 + " = 'a'",
    ),
    *("case when true then " * 3_000, "_seq in (" + "1," * 20_000 + "1)", "_seq = " + "9" * 5_000),
    *(
        "tenant = ",
        "nothing = 1",
        "_seq",
        "1",
        "(select 1)",
        "_seq = 1; drop table x",
        "x" * 60_000,
    ),
    *("date '2026-02-30' = date '2026-02-30'", "timestamp '9999-12-31T23:59:59-14:00' is null"),
    *("tenant like 'a\\", "tenant rlike '('", "_seq % 0 = 1", "cast('x' as bigint) = 1"),
    *("/\\x", "javascript:alert(1)", "@", "0@" + "x" * 5_000, "../0", "0/act/pause", "."),
)

#: Longer ones are for forms: an address has no room for them.
_SHORT = tuple(value for value in HOSTILE if len(value) < 4_000)

_SETTINGS = ("lease", "group_limit", "max_in_flight", "max_attempts", "max_losses", "on_failure")

_FIELDS = (
    *(("configure", field) for field in (*_SETTINGS, "weights", "confirmed")),
    *(("cancel", field) for field in ("where", "confirmed", "csrf", "nothing")),
    ("redrive", "where"),
)

_PATHS = (
    *("/{}", "/queues/{}", "/queues/0@{}", "/queues/0/{}", "/queues/0/items/{}"),
    *("/queues/0/tenants/{}", "/queues/0/groups/{}", "/queues/0/errors/{}", "/queues/0/act/{}"),
    *(f"/queues/0/{{}}/{'0' * 32}", "/?{}", "/queues/0?{}", "/sign-in?next={}"),
    *("/queues/0/act/cancel?where={}", "/queues/0/act/configure?lease={}"),
)


@pytest.fixture
def browser(evil: LocalQueue, pages: Pages) -> Browser:
    """Sign in at a queue that has everything a page may show."""
    browser = pages(evil, acts=True)
    browser.sign_in()
    return browser


def _bytes(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


@pytest.mark.parametrize("path", _PATHS)
def test_hostile_address_is_answered(browser: Browser, path: str) -> None:
    """No part of an address ends in an error of the server."""
    for value in _SHORT:
        for written in (quote(_bytes(value)), quote(_bytes(value), safe="")):
            answer = browser.get(path.format(written), follow_redirects=False)
            assert answer.status_code < 500, value


@pytest.mark.parametrize(("verb", "field"), _FIELDS)
def test_hostile_field_is_answered(browser: Browser, verb: str, field: str) -> None:
    """No field of a form ends in an error of the server."""
    path = f"/queues/0/act/{verb}"
    csrf = browser.csrf(path)
    for value in HOSTILE:
        fields = {"where": "_seq = 77", "csrf": csrf, field: value}
        assert _send(browser, path, fields) < 500, value


@pytest.mark.parametrize("field", ["token", "operator", "next"])
def test_hostile_sign_in_is_answered(browser: Browser, field: str) -> None:
    """Nor does any field of the form to sign in."""
    for value in HOSTILE:
        fields = {"token": TOKEN, "operator": "ann", "next": "/", field: value}
        assert _send(browser, "/sign-in", fields) < 500, value


@pytest.mark.parametrize("name", ["cookie", "origin", "host", "content-type", "x-refresh"])
def test_hostile_header_is_answered(browser: Browser, name: str) -> None:
    """Nor does any header that is looked at, with a form whose bytes are no text."""
    for value in _SHORT:
        headers = {b"origin": ORIGIN.encode(), name.encode(): _bytes(value).replace(b"\r\n", b" ")}
        for path in ("/queues/0", "/queues/0/act/pause"):
            assert browser.get(path, headers=headers, follow_redirects=False).status_code < 500
        answer = browser.post("/queues/0/act/pause", content=b"\xff&=%ff&csrf", headers=headers)
        assert answer.status_code < 500, value


def test_no_page_shows_a_control_sign(make: Callable[..., LocalQueue], pages: Pages) -> None:
    """Texts are escaped on each page, and a form sends them back as they are."""
    queue = make(fair_key="tenant", group_key="path", max_attempts=1)
    queue.enqueue([{"id": LINES, "tenant": LINES, "path": LINES} for _ in range(2)])
    queue.claim(1, worker_id=LINES).nack(LINES)
    browser = pages(queue, acts=True)
    browser.sign_in()
    board, seat = browser.get("/").text, browser.get("/queues/0").text
    links = sorted(set(re.findall(r'href="(/queues/0/(?!act)[^"]+)"', seat)))
    where = f"tenant = '{LINES}'"

    dry_run = browser.act("cancel", where=where).text

    asked = re.search(r'name="where" value="([^"]+)"', dry_run)
    assert asked is not None
    assert unescape(asked[1]) == where
    assert {link.split("/")[3] for link in links} == {"items", "tenants", "errors", "workers"}
    for shown in (seat, dry_run.replace(asked[0], ""), *(browser.get(at).text for at in links)):
        assert r"\x1b" in shown
        assert not RAW.findall(shown)
    assert not RAW.findall(board)


def _send(browser: Browser, path: str, fields: dict[str, str]) -> int:
    body = "&".join(f"{name}={quote(_bytes(value))}" for name, value in fields.items())
    kind = "application/x-www-form-urlencoded"
    headers = {"origin": ORIGIN, "content-type": kind}
    answer = browser.post(path, content=body, headers=headers, follow_redirects=False)
    status: int = answer.status_code
    return status
