"""Pages of queues on this disk, asked for without a network, by operators who know the token."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from starlette.testclient import TestClient

from spark_queue.clock import ManualClock
from spark_queue.config import QueueConfig
from spark_queue.local_queue import LocalQueue
from spark_queue.queue_views import store_of
from spark_queue.report.following import follow
from spark_queue.serve.guard import LOOPBACK, Sessions
from spark_queue.serve.site import Site
from spark_queue.serve.watching import Board, OpenedQueue

#: Would run as a script, if it could.
EVIL = "<script>alert('x')</script><img src=http://x/y onerror=alert(1)>\"'&{{ 7*7 }}"

ORIGIN = "http://127.0.0.1:8765"
TOKEN = "the token of the tests"  # noqa: S105 - of no use elsewhere


class Browser(TestClient):
    """Asks as a browser does: it says where a form comes from, and keeps cookies."""

    def form(self, path: str, **fields: str) -> Any:
        """Send a form of our own page."""
        return self.post(path, data=fields, headers={"origin": ORIGIN}, follow_redirects=False)

    def sign_in(self, operator: str = "ann") -> None:
        """Sign in with the token."""
        answer = self.form("/sign-in", token=TOKEN, operator=operator, next="/queues/0")
        assert answer.status_code == 303

    def csrf(self, path: str) -> str:
        """Return what a form of ours says."""
        found = re.search(r'name="csrf" value="([^"]+)"', self.get(path).text)
        assert found is not None
        return found[1]

    def fields(self, path: str) -> dict[str, str]:
        """Return what a form of ours sends as it is shown, but for its secret."""
        return self.fields_of(self.get(path).text)

    @staticmethod
    def fields_of(page: str) -> dict[str, str]:
        """Return the same of a page."""
        found = re.findall(r'<input [^>]*name="([^"]+)" value="([^"]*)"', page)
        return {name: unescape(value) for name, value in found if name != "csrf"}

    def act(self, verb: str, **fields: str) -> Any:
        """Send the form of an action."""
        path = f"/queues/0/act/{verb}"
        return self.form(path, csrf=self.csrf(path), **fields)


#: Opens pages of queues: ``pages(queue, acts=True)``.
Pages = Callable[..., Browser]


@pytest.fixture
def make(place: str, clock: ManualClock) -> Callable[..., LocalQueue]:
    """Make queues, one after the other."""
    made: list[LocalQueue] = []

    def build(schema: str = "id string, tenant string, path string", **settings: Any) -> LocalQueue:
        config = QueueConfig(**settings)
        path = f"{place}/queue{len(made)}"
        made.append(LocalQueue.create(path, schema, config, durability="process", clock=clock))
        return made[-1]

    return build


@pytest.fixture
def pages() -> Pages:
    """Serve queues to a browser that asks without a network."""

    def served(*queues: LocalQueue, acts: bool = False, is_private: bool = False) -> Browser:
        known = {queue.name: queue for queue in queues}

        def opener(name: str, reader: str | None) -> OpenedQueue:
            queue = known[name]
            seen = queue if reader is None else queue.open_reader(reader)
            return OpenedQueue(look=follow(store_of(seen)), operate=seen)

        sessions = Sessions(TOKEN, "nobody") if acts or is_private else None
        site = Site(
            board=Board(list(known), opener), sessions=sessions, acts=acts, is_private=is_private
        )
        return Browser(site.app(LOOPBACK), base_url=ORIGIN)

    return served


@pytest.fixture
def evil(make: Callable[..., LocalQueue], clock: ManualClock) -> LocalQueue:
    """Make a queue whose every text would run as a script, if it could."""
    queue = make(fair_key="tenant", group_key="path", max_attempts=2)
    queue.enqueue([{"id": EVIL, "tenant": EVIL, "path": EVIL} for _ in range(4)])
    for _ in range(2):
        queue.claim(1, worker_id=EVIL).nack(EVIL)
        clock.advance(timedelta(minutes=5))
    queue.claim(1, worker_id=EVIL).nack(EVIL)
    clock.advance(timedelta(minutes=5))
    queue.claim(1, worker_id=EVIL)
    return queue
