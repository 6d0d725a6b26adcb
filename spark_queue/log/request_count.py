"""Looks at a log, each of which may be a request."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar


class Looks:
    """How often a log is looked at; here, where a look costs next to nothing, each time.

    Where it is a request, a thread keeps what it has seen while it decides: a step that was
    decided by an old view is lost by its commit.
    """

    #: Whether each look is a request.
    is_remote: ClassVar[bool] = False

    def still(self, older_than: float | None) -> AbstractContextManager[None]:
        """Keep the log for this thread as it was last seen.

        Parameters
        ----------
        older_than : float, optional
            Seconds since the last look from which on it is looked at first. ``None`` for the log
            that is written next, whose commit is a look: then only if others write to it, too.
        """
        del older_than
        return nullcontext()

    def look(self) -> bool:
        """Look at a log that stays :meth:`still`, and tell whether others have committed."""
        return False

    def pause(self) -> float:
        """Return the seconds after which one who waits looks anyhow."""
        return 1.0
