"""How somebody finds an item, a worker, what is wrong, and what came and went."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from html import unescape
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from spark_queue.clock import ManualClock
from spark_queue.local_queue import LocalQueue
from spark_queue.report.finding import Checkup
from spark_queue.report.following import id_of
from spark_queue.serve.watching import KeptCheckup
from tests.unit.serve.conftest import EVIL, Browser, Pages

Make = Callable[..., LocalQueue]


@pytest.fixture
def queue(make: Make, clock: ManualClock) -> LocalQueue:
    """Make a queue with an item of each of four states, of three tenants."""
    queue = make(fair_key="tenant", max_attempts=1)
    queue.enqueue([{"id": str(n), "tenant": "abc"[n % 3], "path": "p"} for n in range(6)])
    queue.claim(1, worker_id="anvil").ack()
    queue.claim(1, worker_id="anvil").nack("no 'route' to 10.0.0.7")
    queue.claim(1, worker_id="bellows")
    clock.advance(timedelta(minutes=1))
    return queue


def _items(page: str) -> list[int]:
    """Return the items that a page lists."""
    return [int(seq) for seq in re.findall(r'href="/queues/0/items/([0-9]+)"', page)]


def _link(page: str, part: str) -> str:
    return unescape(next(x for x in re.findall(r'href="([^"]+)"', page) if part in x))


def test_number_leads_to_its_item_and_a_key_to_those_that_have_it(make: Make, pages: Pages) -> None:
    """A number of no item is a key, too; of what leads to nothing the page says so."""
    queue = make("id string", dedup_key="id")
    queue.enqueue([{"id": key} for key in ("7", "a/1", "a/10", "it's")])
    browser = pages(queue)
    assert 'action="/queues/0/find"' in browser.get("/queues/0").text
    answer = browser.get("/queues/0/find?find=2", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/queues/0/items/2")
    for key, found in {"7": [1], "a/1": [2], "it's": [4], "9" * 30: [], "": [1, 2, 3, 4]}.items():
        shown = browser.get("/queues/0/find", params={"find": key})
        assert (shown.status_code, _items(shown.text)) == (200, found)
    assert "No item is like that." in browser.get("/queues/0/find?find=x").text


def test_a_name_leads_to_the_pages_of_its_queue(make: Make, pages: Pages) -> None:
    """A job that knows the queue, not its number, links to it, to an item, or to some of them."""
    first, second = make(), make(fair_key="tenant")
    second.enqueue({"id": "1", "tenant": "a&b", "path": "p"})
    browser = pages(first, second)

    def lead(**fields: str) -> str:
        answer = browser.get("/go", params=fields, follow_redirects=False)
        return str(answer.headers.get("location", int(answer.status_code)))

    assert [lead(queue=one.name) for one in (first, second)] == ["/queues/0", "/queues/1"]
    assert lead(queue=f"{first.name}/../{Path(second.name).name}/") == "/queues/1"
    assert lead(queue=second.name, item="1") == "/queues/1/items/1"
    found = lead(queue=second.name, tenant="a&b")
    assert found == "/queues/1/items?tenant=a%26b"
    assert 'href="/queues/1/items/1"' in browser.get(found).text
    assert lead(queue=second.name, reader="mail") == "/queues/1@mail"
    assert lead(queue=second.name, base="x") == "/queues/1/items?base=x"
    assert [lead(), lead(queue="elsewhere"), lead(queue=first.name, item="x")] == ["404"] * 3


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("", [1, 2, 3, 4, 5, 6]),
        ("state=dead", [2]),
        ("state=acked", [1]),
        ("tenant=a", [1, 4]),
        ("tenant=a&state=ready", [4]),
        ("text=ROUTE", [2]),
        ("text=no+%27route", [2]),
        ("text=bellow", [3]),
        ("group=none", []),
        ("text=%27+OR+true+--", []),
        ("where=path+%3D+'p'+AND+id+%3E+'2'", [4, 5, 6]),
        ("where=_attempts+%3D+1", [2]),
        ("where=_seq+%3C+5&tenant=a", [1, 4]),
        ("where=_seq+%3C+5&state=ready&text=b", []),
        ("text=%5C", [1, 2, 3, 4, 5, 6]),
    ],
)
def test_items_are_found_by_what_they_are(
    queue: LocalQueue, pages: Pages, asked: str, found: list[int]
) -> None:
    """State, tenant and group are exact, a text is a part; a quote ends no text of SQL."""
    answer = pages(queue).get(f"/queues/0/items?{asked}")
    assert (answer.status_code, _items(answer.text)) == (200, found)
    assert ("No item is like that" in answer.text) == (not found)


def test_items_at_work_say_how_far_they_are(make: Make, pages: Pages) -> None:
    """In lists, and on the page of each; a note is a text there, also one with markup."""
    queue = make()
    queue.enqueue([{"id": str(n), "tenant": "a", "path": "p"} for n in range(3)])
    browser = pages(queue)
    assert "progress" not in browser.get("/queues/0/items").text
    held = queue.claim(2, worker_id="anvil")
    held.renew(progress={1: (0.4, "page 12 of 30"), 2: (1, EVIL)})

    shown = browser.get("/queues/0/items?state=claimed").text
    of_a_worker = browser.get(f"/queues/0/workers/{id_of('anvil')}").text

    for page in (shown, of_a_worker):
        assert "40% done: page 12 of 30" in page
        assert "100% done: &lt;script&gt;" in page
        assert "<script>alert" not in page
    assert "(40% done: page 12 of 30), and may be" in browser.get("/queues/0/items/1").text


def test_filter_stays_in_its_form(queue: LocalQueue, pages: Pages) -> None:
    """What was asked for is there to be changed, as it was typed; a state that is none is said."""
    browser = pages(queue)
    shown = browser.get("/queues/0/items", params={"state": "dead", "tenant": EVIL}).text
    assert "<option selected>dead</option>" in shown
    assert unescape(re.findall(r'name="tenant" value="([^"]*)"', shown)[0]) == EVIL
    answer = browser.get("/queues/0/items?state=lost")
    assert (answer.status_code, "must be one of ready" in answer.text) == (400, True)


def test_more_than_a_hundred_items_are_on_further_pages(make: Make, pages: Pages) -> None:
    """Each page has a link to the next hundred, and one back to the first, with the same filter."""
    queue = make("id string")
    queue.enqueue([{"id": str(n)} for n in range(230)])
    browser, path, seen = pages(queue), "/queues/0/items?state=ready", []
    for _ in range(3):
        page = browser.get(path).text
        seen.append(_items(page))
        path = _link(page, "after=" if "Next 100" in page else "state=ready")
    assert [(one[0], one[-1], len(one)) for one in seen] == [
        *((1, 100, 100), (101, 200, 100), (201, 230, 30)),
    ]
    assert path == "/queues/0/items?state=ready"


def test_worker_has_a_page_of_its_items(queue: LocalQueue, pages: Pages) -> None:
    """It says whether the worker lives, and which items it holds or let die."""
    browser = pages(queue)
    page = browser.get("/queues/0").text
    links = {
        unescape(text): href
        for href, text in re.findall(r'href="(/queues/0/workers/[0-9a-f]+)">([^<]+)<', page)
    }
    assert {*links} == {"anvil", "bellows"}
    shown = browser.get(links["bellows"]).text
    assert ("Worker bellows" in shown, _items(shown)) == (True, [3])


def test_state_of_a_queue_is_a_word(make: Make, pages: Pages, clock: ManualClock) -> None:
    """A queue is OK, FAILING when items die, STALLED when nobody claims, PAUSED before all else."""
    queue = make("id string", max_attempts=1)
    browser = pages(queue)

    def word() -> str:
        clock.advance(timedelta(minutes=1))
        page = browser.get("/", headers={"x-refresh": "1"}).text
        found = re.search(r'data-sort="[0-9]"><b class="pill [a-z]+">([A-Z]+)<', page)
        return found[1] if found else ""

    queue.enqueue([{"id": str(n)} for n in range(3)])
    seen = [word()]
    queue.claim(1).nack("boom")
    browser = pages(queue)
    seen.append(word())
    clock.advance(timedelta(hours=2))
    browser = pages(queue)
    seen.append(word())
    queue.pause()
    browser = pages(queue)
    assert [*seen, word()] == ["OK", "FAILING", "STALLED", "PAUSED"]


def test_findings_of_the_doctor_are_on_top_with_what_mends_them(make: Make, pages: Pages) -> None:
    """The index and the queue say what is wrong, with the command; who may act has a button."""
    queue = make("id string", max_attempts=1)
    queue.enqueue([{"id": "1"}, {"id": "2"}])
    queue.claim(1).nack("KeyError: total")
    queue.pause()
    for acts in (False, True):
        browser = pages(queue, acts=acts)
        for path in ("/", "/queues/0"):
            page = unescape(browser.get(path).text)
            strip = page[page.index('class="strip"') : page.index("<table")]
            assert "claims get nothing" in strip
            assert f"spark-queue resume {queue.name}" in strip
            assert ('href="/queues/0/act/resume"' in strip) == acts
            assert ("/act/redrive?where=_state+%3D+%27dead%27" in strip) == acts


def test_healthy_queue_says_that_nothing_is_wrong(make: Make, pages: Pages) -> None:
    """An empty strip is a sentence, and a queue that is gone has its line, and no finding."""
    well, gone = make("id string"), make("id string")
    browser = pages(well, gone)
    LocalQueue.drop(gone.name)
    gone.close()
    assert "The doctor finds nothing wrong." in browser.get("/").text


def test_index_says_what_comes_and_goes(queue: LocalQueue, pages: Pages) -> None:
    """A line has the rates in and out, the age of the oldest runnable item, and who works."""
    page = pages(queue).get("/").text
    cells = dict(re.findall(r'data-head="([a-z ,]+)">([^<]*)<', page))
    assert (cells["in"], cells["out"]) == ("6.0 / min", "1.0 / min")
    assert (cells["oldest runnable"], cells["workers"]) == ("60.0 s", "1 alive")
    assert "open items of a day: 0 to 4, now 4" in page


@pytest.mark.parametrize("hours", [1, 6, 24, 168])
def test_chart_counts_what_came_and_went(queue: LocalQueue, pages: Pages, hours: int) -> None:
    """In the parts of any range, all that entered, was acked or failed is counted once."""
    shown = pages(queue).get(f"/queues/0?hours={hours}").text

    assert "6 enqueued, 1 acked, 1 failed, 4 open now" in shown
    assert f'href="/queues/0?hours={hours}" aria-current=true' in shown
    assert shown.count("aria-current=true") == 1
    # It begins with the first event, and shows ten parts at least.
    assert shown.count('<rect class="part"') == 10
    assert '<p class="utc muted">UTC</p>' in shown


def test_chart_of_before_the_range_is_in_its_depth(
    queue: LocalQueue, pages: Pages, clock: ManualClock
) -> None:
    """Items that were open before are open at its begin; a range that no link has is refused."""
    clock.advance(timedelta(hours=3))
    browser = pages(queue)
    shown = browser.get("/queues/0").text
    assert "0 enqueued, 0 acked, 0 failed, 4 open now" in shown
    assert shown.count("enqueued 0, acked 0, failed 0, open 4") == 60
    for hours in ("2", "x", "-1"):
        assert browser.get(f"/queues/0?hours={hours}").status_code == 404


def test_state_of_a_queue_is_what_a_checkup_of_its_tables_finds(make: Make, pages: Pages) -> None:
    """What no report sees, as the rows of somebody else, is the headline of both pages, too."""
    queue = make("id string")
    rows = pa.table({"id": ["x"]})
    write_deltalake(Path(queue.name, "queue"), rows, mode="append", schema_mode="merge")

    browser = pages(queue)

    for path in ("/", "/queues/0"):
        assert '<b class="pill broken">BROKEN</b>' in browser.get(path).text
    assert "foreign-rows" in queue.doctor().ids()


def test_only_what_applies_is_offered(make: Make, pages: Pages) -> None:
    """A queue is paused or resumed, and nothing is redriven where nothing ended."""
    queue = make("id string", max_attempts=1)

    def offered(path: str = "/queues/0") -> list[str]:
        page = pages(queue, acts=True).get(path).text
        actions = re.findall(r'<p class="actions">(.*?)</p>', page, re.DOTALL)
        return re.findall(r"/act/([a-z]+)", actions[0]) if actions else []

    assert offered() == ["pause", "configure"]
    queue.enqueue([{"id": "1"}, {"id": "2"}, {"id": "3"}])
    queue.pause()
    assert offered() == ["resume", "cancel", "configure"]
    queue.resume()
    queue.claim(1).ack()
    queue.claim(1).nack("boom")
    assert offered() == ["pause", "cancel", "redrive", "configure"]
    assert [offered(f"/queues/0/items/{n}") for n in (1, 2, 3)] == [[], ["redrive"], ["cancel"]]


def test_undo_is_beside_the_step_it_takes_back(queue: LocalQueue, pages: Pages) -> None:
    """Its button leads to the form, the form to what would come back, and that is done once."""
    queue.cancel("tenant = 'c' AND _seq = 6")
    browser = pages(queue, acts=True)
    browser.sign_in()
    form = _link(browser.get("/queues/0").text, "/act/undo?step=")
    step = form.partition("step=")[2]
    assert f'name="step" value="{step}"' in browser.get(form).text

    shown = browser.act("undo", step=step)

    assert f"step {step} (cancel) will be taken back: 1 item back" in shown.text
    assert queue.counts()["cancelled"] == 1
    assert browser.act("undo", step=step, confirmed="1").status_code == 303
    page = browser.get("/queues/0").text
    assert f"took step {step} back: 1 item back" in page
    assert "/act/undo?step=" not in page
    assert queue.counts()["ready"] == 3


def test_undo_of_a_pause_says_what_is_so_again(queue: LocalQueue, pages: Pages) -> None:
    """Settings are named with the values that they get; a step that cannot be undone says why."""
    step = queue.pause()
    browser = pages(queue, acts=True)
    browser.sign_in()
    assert "paused is False again" in browser.act("undo", step=str(step)).text
    for wrong in ("1", "x", "999"):
        answer = browser.act("undo", step=wrong)
        assert (answer.status_code, f'value="{wrong}"' in answer.text) == (400, True)
    assert queue.paused


def test_form_that_is_wrong_keeps_what_was_typed(queue: LocalQueue, pages: Pages) -> None:
    """The error is above the form, whose fields are as they were sent."""
    browser: Browser = pages(queue, acts=True)
    browser.sign_in()
    answer = browser.act("cancel", where="tenent = 'a'")
    assert (answer.status_code, 'role="alert"' in answer.text) == (400, True)
    assert 'value="tenent = &#39;a&#39;"' in answer.text
    answer = browser.act("configure", lease="soon", max_attempts="7")
    assert ('value="soon"' in answer.text, 'value="7"' in answer.text) == (True, True)


def _wait_until(is_so: Callable[[], bool]) -> None:
    ends = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_checkup_is_renewed_behind_what_is_shown() -> None:
    """The first look waits; one that comes later is shown the former, and the next the new one."""
    now, made, may_end = [0.0], list[Checkup](), threading.Event()

    def examine() -> Checkup:
        if made:
            may_end.wait(30)
        at = datetime(2026, 1, 1 + len(made), tzinfo=timezone.utc)
        made.append(Checkup(queue="q", at=at, findings=(), unchecked={}))
        return made[-1]

    kept = KeptCheckup(examine, timer=lambda: now[0])
    first = kept.look()
    assert kept.look() is first
    now[0] = 31
    assert (kept.look(), kept.look()) == (first, first)
    assert len(made) == 1
    may_end.set()
    _wait_until(lambda: kept.look() is not first)
    assert (kept.look(), len(made)) == (made[1], 2)


def test_checkup_that_fails_behind_is_made_again_by_a_look(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What goes wrong is logged, and who looks next is told."""
    now, times = [0.0], list[int]()

    def examine() -> Checkup:
        times.append(1)
        if len(times) > 1:
            raise OSError("the disk is gone")
        return Checkup(
            queue="q", at=datetime(2026, 1, 1, tzinfo=timezone.utc), findings=(), unchecked={}
        )

    kept = KeptCheckup(examine, timer=lambda: now[0])
    kept.look()
    now[0] = 31
    kept.look()
    _wait_until(lambda: "cannot be renewed" in caplog.text)
    with pytest.raises(OSError, match="the disk is gone"):
        _wait_until(lambda: kept.look() is None)


def test_list_shows_the_columns_of_an_item(make: Make, pages: Pages) -> None:
    """The user's columns are there, cut and escaped; one that is called like ours leads nowhere."""
    queue = make("item string, note string, tenant string", fair_key="tenant")
    queue.enqueue([{"item": "7", "note": f"<b>{'x' * 90}", "tenant": "ann"}])

    shown = pages(queue).get("/queues/0/items").text

    heads = re.findall(r"<th [^>]*>([^<]*)</th>", shown)
    assert heads == ["item", "is", "item", "note", "since", "tenant"]
    assert _items(shown) == [1]
    assert f"&lt;b&gt;{'x' * 57}…</td>" in shown


def test_condition_that_is_none_is_said(queue: LocalQueue, pages: Pages) -> None:
    """What is no condition, and what only Spark understands, is refused by name."""
    browser = pages(queue)
    for where, said in {
        "nothing = 1": "nothing",
        "_seq = 1; DROP TABLE x": "is not among what may stand in it",
        "rand() < 2": "needs a session of Spark",
    }.items():
        answer = browser.get("/queues/0/items", params={"where": where})
        assert (answer.status_code, said in unescape(answer.text)) == (400, True)


def test_ticked_items_are_acted_on(queue: LocalQueue, pages: Pages) -> None:
    """Those that are ticked are in the form, and no others are cancelled; viewers have no boxes."""
    assert 'type="checkbox"' not in pages(queue).get("/queues/0/items").text
    browser = pages(queue, acts=True)
    browser.sign_in()
    shown = browser.get("/queues/0/items?tenant=a").text
    assert re.findall(r'name="seq" value="([0-9]+)"', shown) == ["1", "4"]
    assert 'formaction="/queues/0/act/cancel"' in shown

    form = browser.fields("/queues/0/act/cancel?seq=4&seq=6")
    assert form["where"] == "_seq IN (4, 6)"
    told = browser.act("cancel", where=form["where"]).text
    assert "2 items will be cancelled" in told
    assert browser.act("cancel", where=form["where"], confirmed="2").status_code == 303

    states = {row["_seq"]: row["_state"] for row in queue.status().to_pylist()}
    assert [seq for seq, state in states.items() if state == "cancelled"] == [4, 6]
    assert browser.get("/queues/0/act/cancel?seq=x").status_code == 404


@pytest.mark.parametrize(
    ("asked", "where"),
    [
        ("state=dead", "_state = 'dead'"),
        ("tenant=a&where=id+>+'0'+OR+id+=+'0'", "_fair_key = 'a' AND (id > '0' OR id = '0')"),
        ("where=_seq+<+3", "_seq < 3"),
    ],
)
def test_all_that_match_are_acted_on(
    queue: LocalQueue, pages: Pages, asked: str, where: str
) -> None:
    """The form has the condition that the list was asked by: it is about the same items."""
    browser = pages(queue, acts=True)
    browser.sign_in()
    shown = browser.get(f"/queues/0/items?{asked}").text

    form = browser.fields(_link(shown, "/act/cancel?"))

    assert form["where"] == where
    listed = _items(shown)
    found = queue.cancel(where, dry_run=True)
    assert {row["_seq"] for row in found.sample} <= {*listed}
    told = {row["_seq"]: row["_state"] for row in queue.status().to_pylist()}
    assert int(found) == sum(told[seq] in ("ready", "claimed") for seq in listed)


@pytest.mark.parametrize("asked", ["", "text=a", "tenant=o'neill", "group=a\\", "key=${x}"])
def test_what_no_condition_says_is_acted_on_by_ticks(make: Make, pages: Pages, asked: str) -> None:
    """No button is there that would be about others: none of all, of a part, of what has quotes."""
    queue = make(dedup_key="id", fair_key="tenant", group_key="path")
    queue.enqueue([{"id": "${x}", "tenant": "o'neill", "path": "a\\"}])
    browser = pages(queue, acts=True)
    shown = browser.get(f"/queues/0/items?{asked}").text
    assert _items(shown) == [1]
    assert "all that match" not in shown
