"""Signed-in sessions: the token printed at the start, and a name."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from dataclasses import dataclass, field

from spark_queue.acting import acting_as

#: Sessions that are kept: the oldest are forgotten for newer ones.
_KEPT = 100


@dataclass(slots=True, kw_only=True)
class Session:
    """An operator who has signed in."""

    operator: str
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    """What each of their forms says, and nobody else's can."""
    said: str = ""
    """What was done last, to be shown once."""
    address: str = ""
    """From where they asked last."""

    def owns(self, form_token: str) -> bool:
        """Tell whether a form was made for this session; what was sent has no say in how long."""
        return _is_same(form_token, self.csrf)

    def take_said(self) -> str:
        """Return what was done last, once."""
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
        """Return the session of a secret, which is at an address now."""
        session = None if secret is None else self._known.get(secret)
        if session is not None and address:
            session.address = address
        return session

    def is_at(self, address: str) -> bool:
        """Tell whether somebody who has signed in was last at an address."""
        with self._lock:
            known = {session.address for session in self._known.values()}
        return bool(address) and address in known


def _is_same(given: str, known: str) -> bool:
    """Compare secrets, in a time that does not tell how much of one is right."""
    return hmac.compare_digest(given.encode(), known.encode())
