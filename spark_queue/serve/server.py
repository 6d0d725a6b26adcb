"""Serve until the process is stopped."""

from __future__ import annotations

import asyncio
import math
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from spark_queue.errors import InvalidArgumentError
from spark_queue.serve.guard import RequestGuard

_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"connection: close\r\nretry-after: 5\r\ncontent-length: 34\r\n\r\n"
    b"Too many connections: try again.\r\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """How many connections a server holds, and how long it waits for a request."""

    most: int = 200
    """Connections in all: each takes a descriptor, of which a process has 1,024 or fewer."""
    room: int = 50
    """How many of them are kept for addresses that have signed in."""
    most_of_address: int = 100
    """Connections of one address, which may be a proxy or a tunnel."""
    seconds: float = 15.0
    """Time for a request, header and body, from when it may begin."""


class Crowd:
    """The open connections of a server; the oldest idle ones make room for new ones.

    Parameters
    ----------
    bounds : ConnectionLimits
        How many there may be.
    has_signed_in : callable
        Tells whether a user has signed in from an address.
    """

    def __init__(self, bounds: ConnectionLimits, has_signed_in: Callable[[str], bool]) -> None:
        self.bounds = bounds
        self._has_signed_in = has_signed_in
        # In the order in which they came.
        self._open: dict[CrowdedProtocol, None] = {}

    def admit(self, new: CrowdedProtocol) -> bool:
        """Make room for a connection, and return whether there is any."""
        while rivals := self._rivals(new.address):
            oldest = next((one for one in rivals if one.is_waiting), None)
            if oldest is None:
                return False
            oldest.drop()
        self._open[new] = None
        return True

    def leave(self, gone: CrowdedProtocol) -> None:
        """Forget a connection."""
        self._open.pop(gone, None)

    def _rivals(self, address: str) -> list[CrowdedProtocol]:
        """Return the connections that may make room for an address, in order."""
        own = [one for one in self._open if one.address == address]
        if len(own) >= self.bounds.most_of_address:
            return own
        counts = Counter(one.address for one in self._open)
        known = {address for address in counts if self._has_signed_in(address)}
        strangers = [one for one in self._open if one.address not in known]
        if self._has_signed_in(address):
            rivals, most = [*self._open], self.bounds.most
        else:
            rivals, most = strangers, self.bounds.most - self.bounds.room
        if len(rivals) < most:
            return []
        return sorted(rivals, key=lambda one: (one.address in known, -counts[one.address]))


class CrowdedProtocol(H11Protocol):
    """A connection that has a time for each request, and makes room for others."""

    crowd: ClassVar[Crowd]
    address: str = ""
    _deadline: asyncio.TimerHandle | None = None
    _unsent: float = math.inf

    @property
    def is_waiting(self) -> bool:
        """Whether the client must act: send the rest of a request, or take an answer."""
        is_asked = self.conn.their_state not in (h11.IDLE, h11.SEND_BODY)
        return not (is_asked and self.conn.our_state in (h11.SEND_RESPONSE, h11.SEND_BODY))

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, or refuse it."""
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        if self.crowd.admit(self):
            self._watch()
        else:
            transport.write(_BUSY)
            transport.close()

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Go on to the next request."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self.crowd.leave(self)
        self._forget_deadline()
        super().connection_lost(exc)

    def drop(self) -> None:
        """Close the connection at once."""
        self.crowd.leave(self)
        self._forget_deadline()
        self.transport.abort()

    def _watch(self) -> None:
        # Bytes that arrive give no more time: a header may come byte by byte.
        if not self.is_waiting:
            self._forget_deadline()
            self._unsent = math.inf
        elif self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(self.crowd.bounds.seconds, self._expire)

    def _expire(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        if 0 < unsent < self._unsent:
            # A slow client still takes the answer.
            self._unsent = unsent
            self._deadline = self.loop.call_later(self.crowd.bounds.seconds, self._expire)
        else:
            self.drop()

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def protocol_of(
    bounds: ConnectionLimits, has_signed_in: Callable[[str], bool]
) -> type[CrowdedProtocol]:
    """Return the protocol of one server, whose connections share a crowd."""

    class OfServer(CrowdedProtocol):
        crowd = Crowd(bounds, has_signed_in)

    return OfServer


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that takes requests; a free port is found for 0.

    Raises
    ------
    InvalidArgumentError
        When the port is taken, or the machine has no such address.
    """
    try:
        kind = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=kind)
    except OSError as exc:
        raise InvalidArgumentError(
            f"port is {port} of {host!r}, where nothing can be served: {exc}; name another, or 0"
        ) from exc


def run(app: RequestGuard, at: socket.socket) -> None:
    """Answer requests until the process is interrupted."""
    server_of(app).run(sockets=[at])


def server_of(app: RequestGuard, bounds: ConnectionLimits | None = None) -> uvicorn.Server:
    """Return the server to run, with bounds of its connections."""
    config = uvicorn.Config(
        app,
        http=protocol_of(bounds or ConnectionLimits(), app.has_signed_in),
        # A socket of the web would be out of the bounds.
        ws="none",
        # So many are accepted at once, before the first of them is counted.
        backlog=500,
        # The log of the process shows them.
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
    )
    return uvicorn.Server(config)
