"""What panels of a page say beside numbers: heads, scales, empty panels, commands to paste."""

from __future__ import annotations

import re
import shlex
import subprocess
from datetime import timedelta

import pytest

from spark_queue.clock import ManualClock
from spark_queue.local_queue import LocalQueue
from spark_queue.report import page, panel_tables, sheets
from spark_queue.wording import shell_command
from tests.unit.report.conftest import Make


def _rows(tenant: str, count: int) -> list[dict[str, str | None]]:
    return [{"id": f"{tenant}{n}", "tenant": tenant, "path": None} for n in range(count)]


def _parts(queue: LocalQueue) -> dict[str, str]:
    """Return the sections of a page, by their ids."""
    return {part.id: part.body for part in page.sections(queue.report())}


@pytest.mark.parametrize(
    "words",
    [
        ["--where", "_state = 'dead'"],
        ["it's", 'a "word"'],
        ["'$(id)'", "'`id`'", "'!x'", "'\\'"],
        ["plain", "two words", "*"],
    ],
)
def test_command_means_its_words_to_a_shell(words: list[str]) -> None:
    """Whatever its words have, a shell takes them as they are; single quotes read as they are."""
    command = shell_command("printf", "%s\\n", *words)

    assert shlex.split(command)[2:] == words
    told = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)  # noqa: S603,S607
    assert told.stdout.splitlines() == words


def test_command_with_a_condition_reads_as_it_is_typed(make: Make) -> None:
    """Its quotes are double ones, around the single ones of SQL."""
    queue = make(max_attempts=1)
    queue.enqueue(_rows("ann", 1))
    queue.claim(1).nack("no such table")

    (command,) = sheets.redrives(queue.report())

    assert command.endswith("--where \"_state = 'dead' AND _error LIKE 'no such table%'\"")


def test_head_says_what_its_numbers_are(make: Make) -> None:
    """Heads that are short for something have a title; a user's column of that name has none."""
    queue = make("id string, tenant string, path string, by string")
    queue.enqueue([{**row, "by": "me"} for row in _rows("ann", 2)])
    queue.claim(1)
    found = dict(re.findall(r'title="([^"]*)">([^<]+)</th>', "".join(_parts(queue).values())))
    meant = {head: title for title, head in found.items()}

    assert meant["work p50"] == "From claim to settle: half of the items took no longer"
    assert {"until", "late", "behind"} <= meant.keys()
    known = {(name, head) for name, (_, columns) in sheets.PANELS.items() for head, *_ in columns}
    known |= {("items", head) for head, *_ in sheets.ITEMS}
    heads = {head for _, head in known}
    assert {key for key in panel_tables.MEANT if key[0]} <= known
    assert {head for panel, head in panel_tables.MEANT if not panel} <= heads


def test_bar_of_a_share_is_marked_where_it_is_due(make: Make, clock: ManualClock) -> None:
    """What a weight entitles a tenant to goes by the weights of those that are not idle."""
    queue = make(fair_key="tenant", weights={"big": 3.0, "gone": 9.0})
    queue.enqueue(_rows("gone", 1))
    queue.claim(1).ack()
    clock.advance(timedelta(hours=2))
    queue.enqueue(_rows("big", 20) + _rows("small", 20))
    queue.claim(8).ack()

    report = queue.report()

    shares = {one.fair_key: (one.share, one.due) for one in report.tenants if not one.idle}
    assert shares == {"big": (0.75, 0.75), "small": (0.25, 0.25)}
    tenants = _parts(queue)["tenants"]
    bars = re.findall(r'<rect width="(\d+)" height="4"></rect><rect class="due" x="(\d+)"', tenants)
    assert sorted(bars) == [("25", "25"), ("75", "74")]


def test_what_is_due_counts_tenants_that_are_not_listed(make: Make) -> None:
    """A panel names a hundred; the others are entitled to their part, too."""
    queue = make(fair_key="tenant")
    queue.enqueue([row for n in range(250) for row in _rows(f"t{n}", 1)])

    tenants = queue.report().tenants

    assert len(tenants) == 100
    assert {one.due for one in tenants} == {1 / 250}


def test_empty_panel_is_a_line(make: Make) -> None:
    """Panels with nothing in them are a title and a sentence beside each other."""
    queue = make()
    queue.enqueue(_rows("ann", 1))
    parts = _parts(queue)

    quiet = [name for name, body in parts.items() if 'class="quiet"' in body]

    assert quiet == ["errors", "groups", "workers"]
    assert "<h2>Errors</h2><p" in parts["errors"]


def test_overview_stands_once(make: Make) -> None:
    """What a tile says no table says again."""
    queue = make()
    queue.enqueue(_rows("ann", 3))
    queue.claim(1)
    body = _parts(queue)["overview"]

    tiles = re.findall(r"<span>([^<]+)</span><b>", body)
    rows = re.findall(r'<tr><td class="left">([^<]+)</td>', body)

    assert tiles[:3] == ["ready", "claimed", "dead"]
    assert rows == ["runnable", "acked"]


def test_queue_without_an_item_says_how_the_first_gets_in(make: Make) -> None:
    """It names the columns, the command and the line of Python; not once an item has come."""
    queue = make("id string, tenant string")
    body = _parts(queue)["first"]
    assert "id,tenant" in body
    assert f"<code>spark-queue enqueue {queue.name} --files items.csv</code>" in body
    assert "queue.enqueue([{&#x27;id&#x27;: ..., &#x27;tenant&#x27;: ...}])" in body

    queue.enqueue([{"id": "1", "tenant": "a"}])
    queue.claim(1).ack()

    assert "first" not in _parts(queue)
