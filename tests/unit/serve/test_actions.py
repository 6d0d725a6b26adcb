"""What an operator does by a page: who may, what is told before, and what the log says after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from html import unescape

import pytest

from spark_queue import acting
from spark_queue.flow import Limit, Rate
from spark_queue.local_queue import LocalQueue
from spark_queue.serve.guard import Sessions
from tests.unit.serve.conftest import EVIL, ORIGIN, TOKEN, Browser, Pages

Make = Callable[..., LocalQueue]


@pytest.fixture
def queue(make: Make) -> LocalQueue:
    """Make a queue of three items, one of them claimed."""
    queue = make("id string")
    queue.enqueue([{"id": EVIL}, {"id": "2"}, {"id": "3"}])
    queue.claim(1)
    return queue


@pytest.fixture
def browser(queue: LocalQueue, pages: Pages) -> Browser:
    """Open the pages of that queue, with actions."""
    return pages(queue, acts=True)


def test_without_leave_there_are_no_actions(queue: LocalQueue, pages: Pages) -> None:
    """Pages that were not started with actions have no form, and no way to sign in."""
    plain = pages(queue)
    assert "/act/" not in plain.get("/queues/0").text
    for path in ("/queues/0/act/pause", "/sign-in"):
        assert plain.form(path, token=TOKEN).status_code in {404, 405}
    assert not queue.paused


def test_who_has_not_the_token_does_nothing(queue: LocalQueue, browser: Browser) -> None:
    """A wrong token, a cookie that is made up, and a form of another session are refused."""
    refused = browser.form("/sign-in", token=TOKEN + "x", operator="eve", next="/queues/0?x=1")
    assert (refused.status_code, len(browser.cookies)) == (403, 0)
    assert "not the token" in refused.text
    assert 'value="/queues/0?x=1"' in refused.text
    assert browser.form("/queues/0/act/pause", confirmed="9").status_code == 403
    assert browser.get("/queues/0/act/pause", follow_redirects=False).status_code == 303
    browser.cookies.set(Sessions(TOKEN, "").cookie, "made up")
    assert browser.form("/queues/0/act/pause", confirmed="9").status_code == 403
    browser.cookies.clear()
    browser.sign_in()
    for csrf in ("", "made up", "\u00e9"):
        answer = browser.form("/queues/0/act/pause", confirmed="9", csrf=csrf)
        assert answer.status_code == 403
    assert not queue.paused


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "null"},
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "file://127.0.0.1:8765"},
        {"origin": "http://["},
        {"origin": "http://evil.example:8765", "host": "127.0.0.1:8765"},
        {"origin": ORIGIN, "sec-fetch-site": "cross-site"},
        {"origin": ORIGIN, "sec-fetch-site": "same-site"},
    ],
)
def test_form_of_another_site_is_refused(
    queue: LocalQueue, browser: Browser, headers: dict[str, str]
) -> None:
    """Whoever has signed in, and all secrets of the form: its origin has to be ours."""
    browser.sign_in()
    path = "/queues/0/act/pause"
    fields = {"csrf": browser.csrf(path), "confirmed": "9"}
    answer = browser.post(path, data=fields, headers=headers)
    assert answer.status_code == 403
    assert not queue.paused


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "x@127.0.0.1", "", "[", "a:b"],
)
def test_name_that_is_not_ours_is_refused(browser: Browser, host: str) -> None:
    """A name that another site has lead here gets no page, whether it reads or acts."""
    for ask in (browser.get, browser.post):
        answer = ask("/queues/0", headers={"host": host, "origin": f"http://{host}"})
        assert answer.status_code == 403
        assert "content-security-policy" in answer.headers


@pytest.mark.parametrize("host", ["127.0.0.1:1", "localhost", "LOCALHOST:8765", "[::1]:8765"])
def test_names_of_this_machine_are_ours(browser: Browser, host: str) -> None:
    """Loopback has three names, and any port may lead here."""
    assert browser.get("/style.css", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/style.css", "/live.js", "/nothing", "/queues/0/items/1"])
def test_every_answer_keeps_scripts_and_frames_out(browser: Browser, path: str) -> None:
    """No script but our file, no style in a text, no frame, nothing kept, and no guess at types."""
    told = browser.get(path).headers
    policy = dict(part.strip().split(" ", 1) for part in told["content-security-policy"].split(";"))
    assert (policy["default-src"], policy["script-src"]) == ("'none'", "'self'")
    assert (policy["frame-ancestors"], policy["base-uri"]) == ("'none'", "'none'")
    assert "unsafe" not in told["content-security-policy"]
    assert told["cache-control"] == "no-store"
    assert told["x-content-type-options"] == "nosniff"


def test_cookie_is_for_this_site_alone(browser: Browser) -> None:
    """No script reads it, and no other site's request brings it."""
    fields = {"token": TOKEN, "operator": "ann", "next": "//evil.example/"}
    answer = browser.form("/sign-in", **fields)
    assert answer.headers["location"] == "/"
    assert {"HttpOnly", "SameSite=strict"} < {*answer.headers["set-cookie"].split("; ")}


@pytest.mark.parametrize(
    ("verb", "fields", "said"),
    [
        ("pause", {}, "2 items that wait will not be given out"),
        ("resume", {}, "2 items that wait may be given out again"),
        ("cancel", {"where": "_seq > 0"}, "3 items will be cancelled (1 claimed, 2 ready now)"),
        ("redrive", {"where": "_seq > 0"}, "0 items will be enqueued again"),
        ("configure", {"lease": "60"}, "3 open items will be served by it"),
    ],
)
def test_confirmation_says_how_many_items(
    queue: LocalQueue, browser: Browser, verb: str, fields: dict[str, str], said: str
) -> None:
    """What would be done is told before, with the first items, and nothing is done by then."""
    browser.sign_in()
    before = queue.config

    shown = browser.act(verb, **fields)

    assert shown.status_code == 200
    assert said in shown.text
    assert "<script>" not in shown.text
    assert ("alert(" in shown.text) == (verb == "cancel")
    assert (queue.paused, queue.config) == (False, before)
    assert queue.counts()["cancelled"] == 0


def test_a_form_changes_what_was_typed(make: Make, pages: Pages) -> None:
    """What another operator has changed since it was opened stays, also of the weights."""
    queue = make("id string", fair_key="id", weights={"a": 2.0, "b": 2.0})
    browser = pages(queue, acts=True)
    browser.sign_in()
    form = browser.fields("/queues/0/act/configure")
    queue.configure(lease=timedelta(seconds=77), max_attempts=9, weights={"b": 9.0, "c": 4.0})
    typed = {**form, "lease": "60", "weights": "a=5 b=2"}
    shown = browser.act("configure", **typed)
    assert "weights.a 2 -&gt; 5, lease 77 s -&gt; 60 s" in shown.text
    kept = browser.fields_of(shown.text)
    assert browser.act("configure", **kept).status_code == 303
    config = queue.config
    assert (config.lease, config.max_attempts) == (timedelta(seconds=60), 9)
    assert dict(config.weights) == {"a": 5.0, "b": 9.0, "c": 4.0}


def test_a_form_changes_the_limits_that_were_typed(make: Make, pages: Pages) -> None:
    """Number by number: what is left out or as it was stays, also where others have changed it."""
    limit = Limit(by="tenant", default=4, overrides={"acme": 9, "big corp": 7, "two\nlines": 1})
    queue = make(fair_key="tenant", limits=(limit, Limit(by="path", default=50)))
    browser = pages(queue, acts=True)
    browser.sign_in()
    form = browser.fields("/queues/0/act/configure")
    assert form["limits"] == "tenant=4 tenant:acme=9 'tenant:big corp=7' path=50"
    queue.configure(limits=(replace(limit, overrides={**limit.overrides, "c": 3}),))
    text = "tenant=5 tenant:acme=none 'tenant:big corp=unlimited' path=50 path:a=b=2"
    shown = browser.act("configure", **{**form, "limits": text})
    for said in (
        "limit by tenant 4 -&gt; 5",
        "limit of acme by tenant 9 -&gt; default",
        "limit of &#39;big corp&#39; by tenant 7 -&gt; unlimited",
        "limit of a=b by path default -&gt; 2",
    ):
        assert said in shown.text
    assert browser.act("configure", **browser.fields_of(shown.text)).status_code == 303
    of_tenants = {"big corp": None, "two\nlines": 1, "c": 3}
    assert queue.config.limits == (
        Limit(by="tenant", default=5, overrides=of_tenants),
        Limit(by="path", default=50, overrides={"a=b": 2}),
    )
    page = browser.get("/queues/0").text
    assert "limit of acme by tenant 9 -&gt; default" in page
    undone = browser.act("undo", step="3", confirmed="0")
    assert (undone.status_code, queue.config.limits[0].default) == (303, 4)
    assert queue.config.limits[0].overrides["c"] == 3


def test_a_form_changes_the_rates_that_were_typed(make: Make, pages: Pages) -> None:
    """Each word is one number, also one with a burst; what stays as it was shown is not set."""
    minute = timedelta(minutes=1)
    was = Rate(by="tenant", limit=100, per=minute, burst=10, overrides={"acme": 20})
    queue = make(fair_key="tenant", rates=(was, Rate(limit=1000, per=timedelta(seconds=1))))
    browser = pages(queue, acts=True)
    browser.sign_in()
    form = browser.fields("/queues/0/act/configure")
    assert form["rates"] == "tenant=100/60s,burst=10 tenant:acme=20 1000/1s"
    shown = browser.act("configure", **{**form, "rates": "tenant=50/60s,burst=5 tenant:acme=9.5"})
    assert "rate by tenant 100/60s,burst=10 -&gt; 50/60s,burst=5" in shown.text
    assert "rate of acme by tenant 20/60s -&gt; 9.5/60s" in shown.text
    assert browser.act("configure", **browser.fields_of(shown.text)).status_code == 303
    changed = replace(was, limit=50, burst=5, overrides={"acme": 9.5})
    assert queue.config.rates == (changed, queue.config.rates[1])
    assert "rate of acme by tenant 20/60s -&gt; 9.5/60s" in browser.get("/queues/0").text
    assert browser.act("undo", step="2", confirmed="1").status_code == 303
    assert queue.config.rates[0] == was


def test_a_limit_that_others_changed_is_shown_again(make: Make, pages: Pages) -> None:
    """A number that is not what the form showed is confirmed once more; others do not matter."""
    queue = make(fair_key="tenant", limits=(Limit(by="tenant", default=4),))
    browser = pages(queue, acts=True)
    browser.sign_in()
    kept = browser.fields_of(browser.act("configure", limits="tenant=5").text)
    queue.configure(limits=(Limit(by="tenant", default=8, overrides={"a": 1}),))
    again = browser.act("configure", **kept)
    assert "settings were changed since they were shown" in again.text
    assert "limit by tenant 8 -&gt; 5" in again.text
    assert browser.act("configure", **browser.fields_of(again.text)).status_code == 303
    assert queue.config.limits == (Limit(by="tenant", default=5, overrides={"a": 1}),)


def test_the_first_limit_by_the_fair_key_comes_by_a_form(make: Make, pages: Pages) -> None:
    """A queue without a limit shows none, and takes one by the text of its fair key."""
    queue = make(fair_key="tenant")
    browser = pages(queue, acts=True)
    browser.sign_in()
    assert browser.fields("/queues/0/act/configure")["limits"] == ""
    kept = browser.fields_of(browser.act("configure", limits="tenant:acme=2").text)
    assert browser.act("configure", **kept).status_code == 303
    assert queue.config.limits == (Limit(by="tenant", overrides={"acme": 2}),)


def test_a_form_shows_numbers_as_they_are_typed(make: Make, pages: Pages) -> None:
    """Whole, without an exponent: 90 days are so many seconds, and a weight keeps its digits."""
    browser = pages(make("id string", fair_key="id", weights={"a": 1234567.5}), acts=True)
    browser.sign_in()
    form = browser.fields("/queues/0/act/configure")
    assert (form["forget_sources_after"], form["weights"]) == ("7776000", "a=1234567.5")


def test_a_confirmation_holds_for_the_settings_that_it_showed(
    queue: LocalQueue, browser: Browser
) -> None:
    """What came between it and the click is shown before it is replaced."""
    browser.sign_in()
    kept = browser.fields_of(browser.act("configure", lease="60").text)
    queue.configure(lease=timedelta(seconds=77))
    again = browser.act("configure", **kept)
    assert "settings were changed since they were shown" in again.text
    assert "lease 77 s -&gt; 60 s" in again.text
    assert queue.config.lease == timedelta(seconds=77)
    browser.act("configure", **browser.fields_of(again.text))
    assert queue.config.lease == timedelta(seconds=60)


def test_more_items_than_were_confirmed_are_asked_again(
    queue: LocalQueue, browser: Browser
) -> None:
    """Items that came since are not ended by a confirmation of fewer."""
    browser.sign_in()
    queue.enqueue([{"id": "4"}])
    shown = browser.act("cancel", where="_seq > 0", confirmed="3")
    assert "more items than were confirmed" in shown.text
    assert queue.counts()["cancelled"] == 0


@pytest.mark.parametrize("verb", ["pause", "resume", "configure"])
def test_settings_are_confirmed_of_a_queue_that_grows(
    queue: LocalQueue, browser: Browser, verb: str
) -> None:
    """What ends no item is done to a queue, however many items have come since it was told."""
    browser.sign_in()
    queue.enqueue([{"id": "4"}])
    assert browser.act(verb, lease="60", confirmed="1").status_code == 303


@pytest.mark.parametrize(
    ("verb", "fields", "said"),
    [
        ("cancel", {}, "where is empty"),
        ("cancel", {"where": "nothing = 1"}, "nothing is no column; "),
        ("configure", {}, "nothing is changed"),
        ("configure", {"lease": "soon"}, "it must be a number"),
        ("configure", {"max_attempts": "few"}, "must be a whole number or none"),
        ("configure", {"weights": "a"}, "KEY=WEIGHT"),
        ("configure", {"limits": "id"}, "limit is &#39;id&#39;: give it as BY=NUMBER"),
        ("configure", {"limits": "'id=3"}, "it has no closing quotation"),
        ("configure", {"limits": "id=3"}, "limits by &#39;id&#39;: by which keys there are limits"),
    ],
)
def test_form_that_is_wrong_says_so(
    queue: LocalQueue, browser: Browser, verb: str, fields: dict[str, str], said: str
) -> None:
    """A field that cannot be read is named, and nothing is done."""
    browser.sign_in()
    answer = browser.act(verb, **fields, confirmed="9")
    assert (answer.status_code, said in answer.text) == (400, True)
    assert queue.counts()["cancelled"] == 0


def test_log_names_the_operator_of_each_action(queue: LocalQueue, browser: Browser) -> None:
    """The steps of all five actions say who did them; a cancel of a program names nobody."""
    browser.sign_in("ann <b>")
    for verb, fields in (
        ("pause", {}),
        ("resume", {}),
        ("configure", {"lease": "60", "max_in_flight": "5"}),
        ("cancel", {"where": "_seq = 2"}),
        ("redrive", {"where": "_seq = 2"}),
    ):
        answer = browser.act(verb, **fields, confirmed="9")
        assert (answer.status_code, answer.headers["location"]) == (303, "/queues/0")
    queue.cancel({"_seq": 3})

    page = browser.get("/queues/0").text
    steps = queue.report().steps

    # One clock that stands still: steps of one log are in order, those of the other anywhere.
    done = {(one.action, one.items, one.who) for one in steps}
    assert done == {
        ("created", 0, acting.whoami()),
        ("paused", 0, "ann <b>"),
        ("resumed", 0, "ann <b>"),
        ("configured", 0, "ann <b>"),
        ("cancelled", 1, "ann <b>"),
        ("redriven", 1, "ann <b>"),
        ("cancelled", 1, None),
    }
    assert (queue.config.lease, queue.config.max_in_flight) == (timedelta(seconds=60), 5)
    assert "ann &lt;b&gt;" in page
    assert "redrove 1 item" in page
    assert "redrove 1 item" not in browser.get("/queues/0").text


def test_reader_of_its_own_logs_who_redrove(make: Make, pages: Pages) -> None:
    """A reader that was asked for by name makes items ready again, in a step that names who did."""
    queue = make("id string")
    reader = queue.reader("mirror", start="beginning")
    queue.enqueue([{"id": "1"}])
    reader.cancel("_seq = 1")
    browser = pages(queue, acts=True)
    browser.sign_in()
    path = "/queues/0@mirror/act/redrive"
    answer = browser.form(path, csrf=browser.csrf(path), where="_seq = 1", confirmed="1")
    assert (answer.status_code, answer.headers["location"]) == (303, "/queues/0@mirror")
    assert ("redriven", "ann") in {(one.action, one.who) for one in reader.report().steps}


def test_error_leads_to_the_redrive_of_its_dead(make: Make, pages: Pages) -> None:
    """The page of an error has a form that is filled in with what its dead items failed with."""
    queue = make("id string", max_attempts=1)
    queue.enqueue([{"id": "1"}, {"id": "2"}])
    queue.claim(2).nack("no 'route' to 10.0.0.7")
    browser = pages(queue, acts=True)
    browser.sign_in()
    digest = _link(browser, "/errors/")
    form = _link(browser, "/act/redrive?", digest)
    where = browser.get(form).text.split('name="where" value="')[1].split('"')[0]
    shown = browser.act("redrive", where=unescape(where))
    assert "2 items will be enqueued again (2 dead now)" in shown.text


def test_error_of_no_words_leads_to_no_redrive(make: Make, pages: Pages) -> None:
    """Where its words would mean all that is dead, there is no button."""
    queue = make("id string", max_attempts=1)
    queue.enqueue([{"id": "1"}])
    queue.claim(1).nack("42")
    browser = pages(queue, acts=True)
    page = browser.get(_link(browser, "/errors/")).text
    assert "<pre>42</pre>" in page
    assert "redrive?where" not in page


def _link(browser: Browser, part: str, page: str = "/queues/0") -> str:
    found = (x.split('"')[0] for x in browser.get(page).text.split('href="'))
    return unescape(next(x for x in found if part in x))


@pytest.mark.parametrize("name", ["", "   ", "a\nb", "x" * 201])
def test_operator_needs_a_name(browser: Browser, name: str) -> None:
    """Who would sign with what no log can show is not signed in."""
    answer = browser.form("/sign-in", token=TOKEN, operator=name)
    assert answer.status_code == 400
    assert "operator must be a name" in answer.text


def test_form_has_an_end(browser: Browser) -> None:
    """What is longer than any form is not read to its end."""
    answer = browser.form("/sign-in", token="x" * 70_000, operator="ann")
    assert answer.status_code == 413


def test_pages_that_others_reach_need_the_token(queue: LocalQueue, pages: Pages) -> None:
    """Where a page is not for this machine alone, who has not signed in reads nothing."""
    browser = pages(queue, is_private=True)
    for path in ("/", "/queues/0", "/queues/0/items/1", f"/queues/0/errors/{'0' * 32}"):
        answer = browser.get(path, follow_redirects=False)
        assert (answer.status_code, answer.headers["location"][:14]) == (303, "/sign-in?next=")
    browser.sign_in()
    assert browser.get("/queues/0").status_code == 200


def test_secrets_differ() -> None:
    """Each who signs in has secrets of their own, and may be many: the oldest are forgotten."""
    sessions = Sessions(TOKEN, "ann")
    given = [sessions.signed_in(TOKEN, f"n{n}") for n in range(101)]
    assert len({*given}) == 101
    assert (sessions.of(given[0]), sessions.of(None)) == (None, None)
    last = sessions.of(given[-1])
    assert last is not None
    assert (last.operator, last.owns("")) == ("n100", False)


def test_a_tenant_is_paused_and_resumed_by_its_row(make: Make, pages: Pages) -> None:
    """The form says until when, and what goes on; the row then leads to the resume."""
    queue = make(fair_key="tenant")
    queue.enqueue([{"id": "1", "tenant": "big corp", "path": "p"}])
    browser = pages(queue, acts=True)
    browser.sign_in()
    assert "/act/pause?key=big+corp" in browser.get("/queues/0").text
    told = browser.act("pause", key="big corp", **{"for": "10m"})
    assert "tenant big corp is paused until 10m from now; what is claimed goes on" in told.text
    assert browser.act("pause", **browser.fields_of(told.text)).status_code == 303
    assert queue.claim(1).count == 0
    assert "/act/resume?key=big+corp" in browser.get("/queues/0").text
    told = browser.act("resume", key="big corp")
    assert browser.act("resume", **browser.fields_of(told.text)).status_code == 303
    assert queue.paused_keys == ()


def test_a_pause_of_a_key_that_is_wrong_is_refused(make: Make, pages: Pages) -> None:
    """An expression that no item has stored, a time that is none, and a time without a key."""
    browser = pages(make(fair_key="tenant"), acts=True)
    browser.sign_in()
    for asked, why in (
        ({"key": "a", "by": "upper(tenant)"}, "no such key is stored with items"),
        ({"key": "a", "for": "soon"}, "it must be like 90s, 10m, 2h or 1d"),
        ({"for": "10m"}, "it is about a key"),
    ):
        assert why in browser.act("pause", **asked).text


@pytest.mark.parametrize(
    ("verb", "number", "said", "setting"),
    [
        ("limit", "4", "limit of &#39;big corp&#39; by tenant default -&gt; 4", "limits"),
        ("pace", "10/60s", "rate of &#39;big corp&#39; by tenant default -&gt; 10", "rates"),
    ],
)
def test_a_tenant_gets_a_number_of_its_own_by_its_row(
    make: Make, pages: Pages, verb: str, number: str, said: str, setting: str
) -> None:
    """The form says what changes; an undo takes it back; a queue without such a rule gets one."""
    queue = make(fair_key="tenant")
    queue.enqueue([{"id": "1", "tenant": "big corp", "path": "p"}])
    browser = pages(queue, acts=True)
    browser.sign_in()
    assert f"/act/{verb}?key=big+corp" in browser.get("/queues/0").text
    told = browser.act(verb, key="big corp", number=number)
    assert said in told.text
    assert browser.act(verb, **browser.fields_of(told.text)).status_code == 303
    (rule,) = getattr(queue.config, setting)
    assert (rule.by, rule.most("big corp"), rule.most("b")) == (
        "tenant",
        int(number[:2].strip("/")),
        None,
    )
    assert browser.act(verb, key="big corp", number=number).status_code == 400
    assert browser.act(verb, key="", number=number).status_code == 400
    wrong = browser.act(verb, key="a", by="upper(tenant)", number=number)
    assert (wrong.status_code, "no such key is stored with items" in wrong.text) == (400, True)
    assert browser.act("undo", step="2", confirmed="1").status_code == 303
    assert getattr(queue.config, setting) == ()


def test_a_tenants_row_says_its_rate_and_when_the_next_may_start(make: Make, pages: Pages) -> None:
    """A queue without rates has no such column."""
    rate = Rate(by="tenant", limit=60, per=timedelta(hours=1), overrides={"b": 1})
    queue = make(fair_key="tenant", rates=(rate,))
    queue.enqueue([{"id": str(n), "tenant": "ab"[n % 2], "path": "p"} for n in range(4)])
    assert queue.claim(9).count == 2
    shown = pages(queue).get("/queues/0").text
    assert "60/60m, next in" in shown
    assert "1/60m, next in" in shown
    assert ">rate<" not in pages(make(fair_key="tenant")).get("/queues/0").text
