"""A proxy before an object store, which loses answers, refuses requests and takes its time."""

from __future__ import annotations

import random
import time
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

#: Headers that are of one connection, and not of what goes through it.
_OF_A_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length"})


class ShakyProxy(ThreadingHTTPServer):
    """Passes requests on to a store on this machine, and its answers back; most of them.

    Parameters
    ----------
    port, store : int
        Its own port, and that of the store.
    lost, refused : float
        The part of the requests that are done without an answer, and that are not done (503).
    delay : float
        Seconds that each request takes longer.
    seed : int
        Decides which.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self, port: int, store: int, *, lost: float, refused: float, delay: float, seed: int
    ) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.store = store
        self.lost, self.refused, self.delay = lost, refused, delay
        self.random = random.Random(seed)  # noqa: S311 - of a benchmark

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a client that was killed."""


class _Handler(BaseHTTPRequestHandler):
    server: ShakyProxy
    protocol_version = "HTTP/1.1"

    #: Else the content of an answer waits 40 ms, until the client has acknowledged its headers.
    disable_nagle_algorithm = True

    def _pass_on(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size)
        time.sleep(self.server.delay)
        if self.server.random.random() < self.server.refused:
            self._answer(503, [], b"slow down")
            return
        status, headers, content = self._ask(body)
        if self.server.random.random() < self.server.lost:
            self.close_connection = True
            return
        self._answer(status, headers, content)

    def _ask(
        self, body: bytes, leaving: frozenset[str] = frozenset({"connection", "keep-alive"})
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        store = HTTPConnection("127.0.0.1", self.server.store, timeout=30)
        try:
            store.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in leaving:
                    store.putheader(name, value)
            store.endheaders(body)
            answer = store.getresponse()
            found = answer.status, answer.getheaders(), answer.read()
        except (OSError, HTTPException):
            return 502, [], b""
        finally:
            store.close()
        is_of_last_bytes = self.headers.get("Range", "").startswith("bytes=-")
        if found[0] != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or not is_of_last_bytes:
            return found
        # More last bytes than there are: S3 sends all of them, and gofakes3 refuses.
        _, headers, content = self._ask(body, leaving | {"range"})
        there = f"bytes 0-{len(content) - 1}/{len(content)}"
        return 206, [*headers, ("Content-Range", there)], content

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in _OF_A_HOP:
                self.send_header(name, value)
        is_head = self.command == "HEAD"
        size = dict(headers).get("Content-Length", "0") if is_head else str(len(content))
        self.send_header("Content-Length", size)
        self.end_headers()
        if not is_head:
            self.wfile.write(content)

    do_GET = do_PUT = do_DELETE = do_HEAD = do_POST = _pass_on  # noqa: N815 - named by the library

    def log_message(self, *_: object) -> None:
        """Say nothing of a request."""
