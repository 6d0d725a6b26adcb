"""Serve until somebody has seen enough."""

from __future__ import annotations

import socket

import uvicorn

from spark_queue.errors import InvalidArgumentError
from spark_queue.serve.guard import Guard


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


def run(app: Guard, at: socket.socket) -> None:
    """Answer requests until the process is interrupted."""
    server_of(app).run(sockets=[at])


def server_of(app: Guard) -> uvicorn.Server:
    """Return what answers requests when it is run."""
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, proxy_headers=False
    )
    return uvicorn.Server(config)
