"""Access control of the pages, before anything is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: What every answer says to the browser: nothing from elsewhere, no script but ours, in no frame.
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # A form says where it comes from only if the browser may.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

#: The names that a machine has for itself.
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})

_READS = frozenset({"GET", "HEAD"})


class RequestGuard:
    """Lets nobody in by a name that is not ours, and no form from another site.

    A site that has its own name lead to this machine comes with that name. The address at which a
    request has arrived is always ours. A form that another site
    sends comes with that site's origin, or with none.

    Parameters
    ----------
    app : ASGI application
        What is behind.
    hosts : iterable of str
        The names by which it may be asked for, without a port.
    has_signed_in : callable, optional
        Tells whether somebody has signed in from an address; by default nobody has.
    """

    def __init__(
        self,
        app: ASGIApp,
        hosts: Iterable[str],
        has_signed_in: Callable[[str], bool] = lambda _address: False,
    ) -> None:
        self._app = app
        self.has_signed_in = has_signed_in
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        at = scope.get("server")
        why = self._refusal(scope["method"], Headers(scope=scope), at[0] if at else "")
        answers = self._app if why is None else PlainTextResponse(why, status_code=403)
        await answers(scope, receive, send_with_headers)

    def _refusal(self, method: str, headers: Headers, address: str) -> str | None:
        host = headers.get("host", "")
        name = _name_of(f"//{host}")
        # No other site has its name lead here by naming the very address that was reached.
        if name is None or not (name in self._hosts or _is_address(name, address)):
            return f"Refused: no host {host!r} is served here. Name it with --allow-host.\n"
        if method in _READS:
            return None
        origin = headers.get("origin", "")
        if (
            not _leads_to(origin, host)
            or headers.get("sec-fetch-site", "same-origin") != "same-origin"
        ):
            return f"Refused: the form is of another site ({origin or 'which it does not name'}).\n"
        return None


def _leads_to(origin: str, host: str) -> bool:
    parts = _parts_of(origin)
    if parts is None or parts.scheme not in {"http", "https"}:
        return False
    return parts.netloc.lower() == host.lower()


def _is_address(name: str, address: str) -> bool:
    """Tell whether a name is an address, and this one."""
    try:
        return ip_address(name) == ip_address(address)
    except ValueError:
        return False


def _name_of(address: str) -> str | None:
    parts = _parts_of(address)
    return None if parts is None or parts.username is not None else parts.hostname


def _parts_of(address: str) -> SplitResult | None:
    """Return the parts of an address; ``None`` where it is none."""
    try:
        parts = urlsplit(address)
        # Raised where it is no number.
        _ = parts.port
    except ValueError:
        return None
    return parts
