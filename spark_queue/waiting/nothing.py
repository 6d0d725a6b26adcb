"""The error of who waited in vain."""

from __future__ import annotations

import queue


def nothing_came(what: str, patience: float | None) -> queue.Empty:
    """Return the error that says what was waited for, and for how long.

    Parameters
    ----------
    what : str
        What was waited for, as in "item".
    patience : float or None
        How many seconds at most; 0 where nobody waited, ``None`` where only an end of the wait by
        others could end it.
    """
    if patience == 0:
        return queue.Empty(f"there is no {what} now, and the call does not wait")
    most = "" if patience is None else f", which was to take at most {patience:g} s"
    return queue.Empty(f"no {what} came before the end of the wait{most}")
