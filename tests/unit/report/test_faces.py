"""The faces of a report: a page, a terminal, JSON."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from spark_queue.cli import main, show_report
from spark_queue.clock import ManualClock
from spark_queue.local_queue import LocalQueue
from spark_queue.log.delta.commits import LogFile
from spark_queue.log.delta_log import DeltaLog
from spark_queue.queue_views import store_of
from spark_queue.report import condition, following, page as page_module
from spark_queue.report.page import style
from spark_queue.report.sheets import Sheet
from tests.conftest import CommandLine
from tests.unit.report.conftest import Make

_EVIL = "<script>alert('x')</script><img src=http://x/y onerror=alert(1)>\"'&"


class _Tags(HTMLParser):
    """Takes down the tags of a page, what is in them, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name == "href"]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture
def evil(make: Make, clock: ManualClock) -> LocalQueue:
    """Make a queue whose every text would run as a script, if it could."""
    queue = make(fair_key="tenant", group_key="path")
    queue.enqueue([{"id": str(n), "tenant": _EVIL, "path": _EVIL} for n in range(3)])
    queue.claim(1, worker_id=_EVIL).nack(_EVIL)
    clock.advance(timedelta(minutes=1))
    queue.claim(1, worker_id=_EVIL)
    return queue


@pytest.fixture
def run(command_line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Run a command, and return what it printed on eighty columns."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*argv: str) -> str:
        ended = command_line(*argv)
        assert not ended.code, ended.err
        return ended.out

    return run


def test_no_text_of_a_queue_is_markup_in_a_page(evil: LocalQueue) -> None:
    """Whatever items and errors say, a page has the tags that we put there, and loads nothing."""
    report = evil.report()
    for page in (report.html(), evil.report_item(2).html()):
        seen = _Tags(page)
        assert seen.tags <= {
            *(
                "html",
                "head",
                "meta",
                "title",
                "body",
                "style",
                "main",
                "header",
                "nav",
                "section",
                "div",
            ),
            *("h1", "h2", "h3", "p", "b", "i", "a", "span", "small", "code", "ol", "li"),
            *("table", "thead", "tbody", "tr", "th", "td", "svg", "rect", "line", "text", "path"),
        }
        assert not {name for name in seen.attributes if name.startswith(("on", "src"))}
        assert all(link.startswith("#") for link in seen.links)
        assert "default-src 'none'" in page
        assert _EVIL in "".join(seen.texts)
    assert _Tags(report._repr_html_()).tags.isdisjoint({"html", "body", "script"})
    assert "<style>" in evil.report_item(2)._repr_html_()


def test_no_text_of_a_queue_is_markup_in_a_notebook(evil: LocalQueue) -> None:
    """Also of a queue itself, and of a reader of it, whose name is shown."""
    reader = evil.reader(_EVIL)
    for seen in (evil, reader):
        shown = _Tags(seen._repr_html_())
        assert shown.tags.isdisjoint({"html", "body", "script", "img"})
    assert repr(_EVIL) in "".join(shown.texts)


def test_a_notebook_shows_the_name_of_what_cannot_be_read(make: Make, queue_path: str) -> None:
    """A queue that is gone, and a reader of it, are no error there."""
    queue = make()
    reader = queue.reader("mail")
    LocalQueue.drop(queue_path)

    assert queue._repr_html_() == f"LocalQueue(&#x27;{queue_path}&#x27;)"
    assert reader._repr_html_() == f"LocalReader(&#x27;{queue_path}&#x27;)"


def test_a_notebook_shows_the_counts_of_a_large_queue(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are known without a look at its rows, which takes long."""
    monkeypatch.setattr(page_module, "_MOST", 2)
    queue = make()
    queue.enqueue([{"id": str(n), "tenant": "a", "path": ""} for n in range(3)])
    queue.claim(1).ack()

    assert queue._repr_html_() == (f"<b>LocalQueue(&#x27;{queue.name}&#x27;)</b>: 2 ready, 1 acked")


def test_a_plot_has_a_bar_for_each_value_above_none(make: Make) -> None:
    """The newest half hour has the items that are open; an empty queue has no bar."""
    queue = make()
    assert queue.report().html().count("<rect x=") == 0
    queue.enqueue([{"id": str(n), "tenant": "a", "path": "x"} for n in range(7)])

    page = queue.report().html()

    assert page.count("<rect x=") == 1
    assert "<title>7</title>" in page


def test_the_chart_of_a_page_has_axes_units_and_all_that_came_and_went(
    make: Make, clock: ManualClock
) -> None:
    """Its lines have a legend with totals, and what is under the pointer says when it was."""
    queue = make()
    rows = [{"id": str(n), "tenant": "a", "path": "x"} for n in range(7)]
    queue.enqueue(rows)
    queue.claim(7).ack()
    clock.advance(timedelta(days=1))
    assert "nothing came or went" in queue.report().html()
    queue.enqueue(rows)
    clock.advance(timedelta(minutes=20))
    queue.claim(2).ack()
    queue.claim(1).nack("boom")

    page = queue.report().html()
    texts = _Tags(page).texts

    name = "What came and went in 21 min: 7 enqueued, 2 acked, 1 failed, 5 open now"
    assert f'aria-label="{name}"' in page
    for text in ("7 enqueued", "items in 60 s", "open items", "23:59", "00:20", "UTC"):
        assert text in texts
    assert "00:19:00Z: enqueued 0, acked 2, failed 1, open 5" in texts


def test_words_of_a_condition_have_one_sign_everywhere() -> None:
    """A terminal shows the sign that the style of a page puts before the word."""
    for word, sign in condition.SIGNS.items():
        assert re.search(rf"pill\.{word.lower()}::before[^}}]*\\{ord(sign):X}\"", style())


def test_a_terminal_shows_every_panel_in_eighty_columns(evil: LocalQueue) -> None:
    """What goes wrong comes first, nothing is wider than the screen, markup of rich is text."""
    evil.enqueue([{"id": "9", "tenant": "[red]x[/red]", "path": "y"}])
    console = Console(width=80, record=True, color_system=None, file=io.StringIO())
    for part in show_report.report(evil.report()):
        console.print(part, markup=False, soft_wrap=False)

    lines = console.export_text().splitlines()

    assert max(map(len, lines)) <= 80
    assert lines[1] == "✓ OK: 3 items wait, 1 in flight"
    titles = ("Overview", "Errors", "Tenants", "Held groups", "Workers", "Readers")
    places = [next(at for at, line in enumerate(lines) if line.startswith(t)) for t in titles]
    assert places == sorted(places)
    assert any("[red]x" in line for line in lines)


@pytest.mark.parametrize(
    ("width", "heads", "note"),
    [
        (60, ["name", "none", "worth", "rest"], ""),
        (22, ["name", "worth", "rest"], ""),
        (15, ["name", "worth"], "in a wider terminal: rest"),
        (9, ["name"], "in a wider terminal: worth, rest"),
    ],
)
def test_what_does_not_fit_is_left_out_by_whole_columns(
    width: int, heads: list[str], note: str
) -> None:
    """Empty ones first, then the last ones, which are named; no value is cut in two."""
    kinds = {"name": "fold", "none": "left", "worth": "right", "rest": "left"}
    sheet = Sheet(name="s", title="", heads=tuple(kinds.items()), rows=(("ab", "", "5", "six"),))
    console = Console(width=width, record=True, color_system=None, file=io.StringIO())
    console.print(show_report._table(sheet))

    head, _, *rows = console.export_text().splitlines()

    assert head.split() == heads
    assert " ".join(" ".join(rows[1:]).split()) == note
    values = {"name": "ab", "none": "", "worth": "5", "rest": "six"}
    assert rows[0].split() == [values[head] for head in heads if values[head]]


def test_bars_of_a_line_show_what_is_not_nothing() -> None:
    """The highest fills its line, whatever is above 0 is seen, and 0 is not."""
    assert show_report.line([0, 1, 500, 1000]) == " ▁▄█"
    assert show_report.line([]) == ""
    assert show_report.line([0, 0]) == "  "


def test_the_command_prints_writes_and_tells_of_one_item(
    evil: LocalQueue, run: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``report`` prints tables or one object of JSON, writes a page and opens it, shows an item."""
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    file = tmp_path / "report.html"

    told = json.loads(run("report", evil.name, "--json", "--as-of", "2026-01-01T00:00:30Z"))

    assert (told["as_of"], told["overview"]["held_by_group"]) == ("2026-01-01T00:00:30+00:00", 2)
    assert "Held groups" in run("report", evil.name, "--window", "60")
    assert str(file) in run("report", evil.name, "--html", str(file), "--open")
    assert file.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert opened == [file.as_uri()]
    assert "item 2 waits for item 1" in run("report", evil.name, "--item", "2")
    with pytest.raises(SystemExit):
        main(["report", evil.name, "--open"])


def test_top_shows_what_was_done_since(
    evil: LocalQueue, run: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look sees the steps since the one before, and reads only their files."""
    read: list[int] = []
    rows_of = DeltaLog.rows_of

    def counted(log: DeltaLog[Any], files: list[LogFile], columns: list[str]) -> pa.Table:
        read.append(len(files))
        return rows_of(log, files, columns)

    look = following.follow(store_of(evil))
    assert look().overview.claimed == 1
    evil.enqueue([{"id": "9", "tenant": "b", "path": "y"}])
    evil.claim(1)
    monkeypatch.setattr(DeltaLog, "rows_of", counted)

    second = look()

    assert (second.overview.claimed, second.overview.held_by_group) == (2, 2)
    assert sum(read) == 2
    console = Console(width=80, record=True, color_system=None, file=io.StringIO())
    console.print(*show_report.live(second), sep="\n")
    assert "held by a group" in console.export_text()
    lines = run("top", evil.name, "--json", "--looks", "2", "--every", "0.2").splitlines()
    assert [json.loads(line)["overview"]["claimed"] for line in lines] == [2, 2]
    assert "Overview" in run("top", evil.name, "--looks", "1")
