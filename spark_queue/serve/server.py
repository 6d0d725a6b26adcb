"""Serve until somebody has seen enough."""

from __future__ import annotations

import socket

import uvicorn

from spark_queue.errors import InvalidArgumentError
from spark_queue.serve.guard import RequestGuard
from spark_queue.serve.request_limits import ConnectionLimits, protocol_of


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


def server_of(app: RequestGuard, limits: ConnectionLimits | None = None) -> uvicorn.Server:
    """Return what answers requests when it is run, within limits of its connections."""
    config = uvicorn.Config(
        app,
        http=protocol_of(limits or ConnectionLimits(), app.has_signed_in),
        # A socket of the web would be out of the limits.
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
