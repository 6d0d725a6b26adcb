"""A store on the loopback that speaks as S3 does, in this process, and fails as it is told."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from hashlib import md5
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

#: What a request is answered by instead of what it asks for: a status of HTTP, or ``None`` for a
#: connection that is cut.
Answer = int | None

#: A request, as its verb and its key, with whether it is conditional.
Asked = tuple[str, str, bool]

_BUCKET = "bucket"


class FaultyS3:
    """Objects in memory, and how they are reached.

    Attributes
    ----------
    objects : dict of str to bytes
        The objects by their keys, which may be such as no client makes.
    asked : list of tuple
        The requests so far.
    fault : callable, optional
        Returns, of a request, what it is answered by instead; ``False`` for what it asks for.
    is_lost : callable, optional
        Returns, for each request that was done, whether its answer is lost: the connection is cut.
    """

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.asked: list[Asked] = []
        self.fault: Callable[[Asked], Answer | bool] | None = None
        self.is_lost: Callable[[], bool] | None = None
        self.lock = threading.Lock()

    def fail_once(self, wanted: Callable[[Asked], bool], answer: Answer) -> None:
        """Answer the next request of a kind so, and all others as they ask."""
        left = [answer]

        def fault(asked: Asked) -> Answer | bool:
            return left.pop() if left and wanted(asked) else False

        self.fault = fault


@contextmanager
def faulty_s3() -> Iterator[tuple[FaultyS3, dict[str, Any]]]:
    """Run a store; return it with the options by which a queue reaches it."""
    store = FaultyS3()

    class Handler(_Handler):
        s3 = store

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.daemon = True
    thread.start()
    try:
        yield (
            store,
            {
                "endpoint": f"http://127.0.0.1:{server.server_port}",
                "access_key_id": "test",
                "secret_access_key": "test",
                "region": "us-east-1",
                "virtual_hosted_style_request": "false",
                "client_options": {"allow_http": "true"},
            },
        )
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # An answer in two parts waits for the receipt of the first.
    disable_nagle_algorithm = True
    wbufsize = 65_536
    s3: FaultyS3

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def handle_expect_100(self) -> bool:
        """Ask for the content at once, which the client holds back until then."""
        goes_on = super().handle_expect_100()
        self.wfile.flush()
        return goes_on

    def do_GET(self) -> None:
        if self._fails():
            return
        asked = parse_qs(urlsplit(self.path).query)
        if "list-type" in asked:
            after = asked.get("start-after", [""])[0]
            self._send(HTTPStatus.OK, self._listed(asked.get("prefix", [""])[0], after))
        elif self._key in self.s3.objects:
            self._send(HTTPStatus.OK, self.s3.objects[self._key])
        else:
            self._send(HTTPStatus.NOT_FOUND, b"<Error><Code>NoSuchKey</Code></Error>")

    def do_HEAD(self) -> None:
        if not self._fails():
            is_there = self._key in self.s3.objects
            self._send(HTTPStatus.OK if is_there else HTTPStatus.NOT_FOUND)

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"] or 0))
        if self._fails():
            return
        with self.s3.lock:
            is_taken = self._is_conditional and self._key in self.s3.objects
            if not is_taken:
                self.s3.objects[self._key] = content
        status = HTTPStatus.PRECONDITION_FAILED if is_taken else HTTPStatus.OK
        self._send(status, etag=md5(content, usedforsecurity=False).hexdigest())

    def do_POST(self) -> None:
        """Remove objects, of which the content is the list."""
        content = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode()
        if self._fails():
            return
        keys = [unescape(key) for key in re.findall(r"<Key>([^<]*)</Key>", content)]
        with self.s3.lock:
            for key in keys:
                self.s3.objects.pop(key, None)
        removed = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
        self._send(HTTPStatus.OK, f"<DeleteResult>{removed}</DeleteResult>".encode())

    def do_DELETE(self) -> None:
        if self._fails():
            return
        with self.s3.lock:
            self.s3.objects.pop(self._key, None)
        self._send(HTTPStatus.NO_CONTENT)

    @property
    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).removeprefix(f"/{_BUCKET}").removeprefix("/")

    @property
    def _is_conditional(self) -> bool:
        return self.headers.get("If-None-Match") == "*"

    def _fails(self) -> bool:
        """Answer in another way than the request asks for, if it is to fail."""
        is_list = "list-type" in self.path
        asked = ("LIST" if is_list else self.command, self._key, self._is_conditional)
        with self.s3.lock:
            self.s3.asked.append(asked)
            answer = self.s3.fault(asked) if self.s3.fault is not None else False
        if answer is None:
            self._cut()
        elif answer is not False:
            self._send(answer, b"<Error><Code>Told</Code></Error>")
        return answer is not False

    def _cut(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def _listed(self, prefix: str, after: str) -> bytes:
        at = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        found = (
            f"<Contents><Key>{escape(key)}</Key><LastModified>{at}</LastModified><ETag>e</ETag>"
            f"<Size>{len(content)}</Size></Contents>"
            for key, content in sorted(self.s3.objects.items())
            if key.startswith(prefix) and key > after
        )
        named = f"<Name>{_BUCKET}</Name><IsTruncated>false</IsTruncated>"
        return f"<ListBucketResult>{named}{''.join(found)}</ListBucketResult>".encode()

    def _send(self, status: int, content: bytes = b"", etag: str = "e") -> None:
        if self.s3.is_lost is not None and self.s3.is_lost():
            self._cut()
            return
        self.send_response(status)
        self.send_header("ETag", f'"{etag}"')
        self.send_header("Last-Modified", self.date_time_string())
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
