"""Connections that take room from others: real ones, on this machine's loopback."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.responses import Response
from uvicorn import Server

from spark_queue.local_queue import LocalQueue
from spark_queue.queue_views import store_of
from spark_queue.report.following import follow
from spark_queue.serve.guard import LOOPBACK, RequestGuard, Sessions
from spark_queue.serve.server import ConnectionLimits, listening, server_of
from spark_queue.serve.site import Site
from spark_queue.serve.watching import Board, OpenedQueue
from tests.unit.serve.conftest import TOKEN

Make = Callable[..., LocalQueue]
Serve = Callable[..., int]
Connect = Callable[..., socket.socket]

#: Bytes of an answer that does not fit into the buffers of two sockets.
_LARGE = 15_000_000

#: Takes 1,500 connections, sends what it is told to on each, and holds what it still has.
_FLOOD = """
import resource, socket, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4_000), hard))
held = []
for number in range(1_500):
    try:
        held.append(socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=5))
        held[-1].sendall(sys.argv[2].encode())
    except OSError:
        pass
print("ready", flush=True)
sys.stdin.read()
"""

_HALF = {
    "nothing": "",
    "half a header": "GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nx-a: b\r\n",
    "half a body": "POST /sign-in HTTP/1.1\r\nhost: 127.0.0.1\r\norigin: http://127.0.0.1\r\n"
    "content-length: 60000\r\n\r\ntoken=",
}


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serve pages of a queue at a port of loopback."""
    with ExitStack() as running:

        def served(
            queue: LocalQueue, wait: Callable[[], None] = lambda: None, **limits: Any
        ) -> int:
            def opened(_name: str, _reader: str | None) -> OpenedQueue:
                wait()
                return OpenedQueue(look=follow(store_of(queue)), operate=queue)

            # Each is opened by itself.
            board = Board([queue.name] * 3, opened)
            site = Site(board=board, sessions=Sessions(TOKEN, "ann"), acts=True)
            at = running.enter_context(listening("127.0.0.1", 0))
            running.enter_context(_running(site.app(LOOPBACK), at, ConnectionLimits(**limits)))
            port: int = at.getsockname()[1]
            return port

        yield served


@contextmanager
def _running(app: RequestGuard, at: socket.socket, limits: ConnectionLimits) -> Iterator[Server]:
    server = server_of(app, limits)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [at]})
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield server
    server.should_exit = True
    thread.join()


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Open connections, and close them at the end."""
    with ExitStack() as held:
        yield lambda *given: held.enter_context(_connect(*given))


def _connect(port: int, text: str = "", source: str = "127.0.0.1") -> socket.socket:
    connection = socket.create_connection(
        ("127.0.0.1", port), timeout=60, source_address=(source, 0)
    )
    connection.sendall(text.encode())
    return connection


def _ask(port: int, path: str, source: str = "127.0.0.1") -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=60, source_address=(source, 0))
    connection.request("GET", path)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


def _sign_in(port: int, source: str) -> None:
    connection = HTTPConnection("127.0.0.1", port, timeout=60, source_address=(source, 0))
    headers = {"origin": f"http://127.0.0.1:{port}"}
    connection.request("POST", "/sign-in", urlencode({"token": TOKEN, "operator": "ann"}), headers)
    cookie = connection.getresponse().getheader("set-cookie")
    assert cookie is not None
    connection.close()


def _is_closed(connection: socket.socket) -> bool:
    """Wait until the other side has closed a connection, without a word."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("half", _HALF)
def test_page_answers_beside_many_half_requests(make: Make, serve: Serve, half: str) -> None:
    """Fifteen hundred connections that never end their request take no page away."""
    port = serve(make("id string"), seconds=600.0)
    flood = subprocess.Popen(  # noqa: S603 - our own text
        [sys.executable, "-c", _FLOOD, str(port), _HALF[half]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with flood:
        assert flood.stdout is not None
        assert flood.stdout.readline() == "ready\n"
        assert [_ask(port, path) for path in ("/", "/style.css", "/queues/0")] == [200, 200, 200]
        flood.kill()


@pytest.mark.parametrize("half", _HALF)
def test_half_request_is_closed_after_its_time(
    make: Make, serve: Serve, connect: Connect, half: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A header and a body have a time, whether something is sent or nothing at all."""
    port = serve(make("id string"), seconds=0.2)
    assert _is_closed(connect(port, _HALF[half]))
    assert _ask(port, "/style.css") == 200
    assert caplog.text == ""


def test_drops_of_a_header_are_no_more_time(make: Make, serve: Serve, connect: Connect) -> None:
    """Who sends a header byte by byte is closed, however long that goes on."""
    port = serve(make("id string"), seconds=0.2)
    dripping = connect(port, "GET / HTTP/1.1\r\n")
    with suppress(ConnectionError):
        while True:
            dripping.sendall(b"x-a: b\r\n")
            time.sleep(0.01)
    assert _is_closed(dripping)


def test_answered_connection_is_closed_after_its_time(
    make: Make, serve: Serve, connect: Connect
) -> None:
    """Half of a second request ends as half of the first."""
    port = serve(make("id string"), seconds=0.2)
    kept = connect(port, "GET /style.css HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\nGET ")
    answer = b""
    while more := kept.recv(65_536):
        answer += more
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.count(b"HTTP/1.1") == 1


def test_answer_that_takes_long_is_waited_for(make: Make, serve: Serve) -> None:
    """The time is for the request: a slow look at a queue is nobody's fault who asked."""
    port = serve(make("id string"), wait=lambda: time.sleep(1.0), seconds=0.2)
    assert _ask(port, "/queues/0") == 200


@contextmanager
def _asking_for_much(seconds: float) -> Iterator[tuple[socket.socket, Server]]:
    app = RequestGuard(Response(b"x" * _LARGE), LOOPBACK)
    with (
        listening("127.0.0.1", 0) as at,
        _running(app, at, ConnectionLimits(seconds=seconds)) as server,
        socket.socket() as asking,
    ):
        # So that the other side hears soon of what was taken.
        asking.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        asking.settimeout(60)
        asking.connect(at.getsockname())
        asking.sendall(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        yield asking, server


def test_answer_that_is_taken_slowly_is_sent_to_its_end() -> None:
    """The time is over again and again, and each time something was taken."""
    with _asking_for_much(seconds=1.0) as (asking, _):
        taken = 0
        while taken < _LARGE:
            more = len(asking.recv(65_536))
            assert more, taken
            taken += more
            time.sleep(0.005)


def test_answer_that_nobody_takes_is_given_up() -> None:
    """Who asks and takes nothing is closed, before the end of the answer."""
    with _asking_for_much(seconds=0.1) as (asking, server):
        assert asking.recv(12) == b"HTTP/1.1 200"
        while server.server_state.connections:
            time.sleep(0.01)
        taken = 0
        with suppress(ConnectionResetError):
            while more := len(asking.recv(1_000_000)):
                taken += more
    assert taken < _LARGE


def test_one_address_takes_no_room_from_another(make: Make, serve: Serve, connect: Connect) -> None:
    """Of two addresses the one with most connections gives up its oldest."""
    port = serve(make("id string"), most=8, room=0, most_of_address=8, seconds=600.0)
    other = connect(port, "", "127.0.0.2")
    held = [connect(port, "", "127.0.0.3") for _ in range(8)]
    assert [_is_closed(one) for one in held[:1]] == [True]
    other.sendall(b"GET /style.css HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
    assert other.recv(12) == b"HTTP/1.1 200"


def test_address_has_a_limit_of_its_own(make: Make, serve: Serve, connect: Connect) -> None:
    """An address gives up its own oldest connection, where others would have room."""
    port = serve(make("id string"), most=100, most_of_address=3, seconds=600.0)
    held = [connect(port) for _ in range(4)]
    assert _is_closed(held[0])
    held[1].sendall(b"GET /style.css HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
    assert held[1].recv(12) == b"HTTP/1.1 200"


def test_room_is_kept_for_who_has_signed_in(make: Make, serve: Serve, connect: Connect) -> None:
    """Where all others wait for their answers, an address that has signed in is answered still."""
    begun, go_on = threading.Semaphore(0), threading.Event()

    def look() -> None:
        begun.release()
        assert go_on.wait(60)

    port = serve(make("id string"), wait=look, most=6, room=3, most_of_address=6, seconds=600.0)
    _sign_in(port, "127.0.0.2")
    asks = [
        connect(port, f"GET /queues/{n} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n", f"127.0.0.{n + 3}")
        for n in range(3)
    ]
    for _ in asks:
        assert begun.acquire(timeout=60)
    refused = connect(port, "", "127.0.0.6")
    assert refused.recv(12) == b"HTTP/1.1 503"
    assert _ask(port, "/style.css", "127.0.0.2") == 200
    go_on.set()
    assert [ask.recv(12) for ask in asks] == [b"HTTP/1.1 200"] * 3
