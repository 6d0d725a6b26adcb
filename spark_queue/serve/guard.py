"""Access control of the pages, before anything is read."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from spark_queue.acting import acting_as

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
    """Refuses requests by a foreign host name, and forms of other sites.

    A site that has its own name lead to this machine comes with that name. The address at which a
    request has arrived is always ours. A form that another site
    sends comes with that site's origin, or with none.

    Parameters
    ----------
    app : ASGI application
        The application behind it.
    hosts : iterable of str
        The names by which it may be asked for, without a port.
    has_signed_in : callable, optional
        Tells whether a user has signed in from an address; by default none has.
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
    """Whether a name is an address, and this one."""
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


#: Sessions that are kept: the oldest are forgotten for newer ones.
_KEPT = 100


@dataclass(slots=True, kw_only=True)
class Session:
    """An operator who has signed in."""

    operator: str
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    """The secret of this session's forms, against forms from elsewhere."""
    said: str = ""
    """The message about the last action, to be shown once."""
    address: str = ""
    """From where they asked last."""

    def owns(self, form_token: str) -> bool:
        """Whether a form was made for this session, in constant time."""
        return _is_same(form_token, self.csrf)

    def take_said(self) -> str:
        """Return the note of the last action, once."""
        said, self.said = self.said, ""
        return said


class Sessions:
    """Operators who have signed in, by the secret that their browser keeps.

    Parameters
    ----------
    token : str
        What they have to know.
    operator : str
        The name that the form suggests.
    """

    def __init__(self, token: str, operator: str) -> None:
        self._token = token
        self.operator = operator
        self.cookie = "sq_" + hashlib.sha256(token.encode()).hexdigest()[:12]
        self._lock = threading.Lock()
        self._known: dict[str, Session] = {}

    def signed_in(self, token: str, operator: str, address: str = "") -> str | None:
        """Return the secret of a new session; ``None`` where the token is another.

        Raises
        ------
        InvalidArgumentError
            When the operator has no name, or none that can be logged.
        """
        if not _is_same(token.strip(), self._token):
            return None
        with acting_as(operator):
            session = Session(operator=operator.strip(), address=address)
        secret = secrets.token_urlsafe(32)
        with self._lock:
            self._known[secret] = session
            while len(self._known) > _KEPT:
                self._known.pop(next(iter(self._known)))
        return secret

    def of(self, secret: str | None, address: str = "") -> Session | None:
        """Return the session of a secret, and note its present address."""
        session = None if secret is None else self._known.get(secret)
        if session is not None and address:
            session.address = address
        return session

    def is_at(self, address: str) -> bool:
        """Whether a signed-in session was last seen at an address."""
        with self._lock:
            known = {session.address for session in self._known.values()}
        return bool(address) and address in known


def _is_same(given: str, known: str) -> bool:
    """Compare secrets, in a time that does not tell how much of one is right."""
    return hmac.compare_digest(given.encode(), known.encode())
