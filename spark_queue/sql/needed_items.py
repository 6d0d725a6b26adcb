"""Items that a reader still needs: a purge leaves them."""

from __future__ import annotations

from collections.abc import Callable

from spark_queue.sql.look import FrameT, QueueLook
from spark_queue.state import existence
from spark_queue.state.store import Store

#: No log has a step that high.
_BEYOND = 1 << 62


def find_needed(look: Callable[..., QueueLook[FrameT]], reader: Store, since: int | None) -> FrameT:
    """Return the items that a reader is not done with: ``_seq`` and ``_gen``.

    Parameters
    ----------
    look : type of QueueLook
        The engine.
    reader : Store
        The queue as the reader sees it. One that reads a stream is not done with the
        items behind where it said to be, and one that has no log with nothing.
    since : int, optional
        A step of its log as of which that is known: then what was in its hands, or came back to
        it, after that one; to a stream nothing does.
    """
    if reader.registered().streams:
        steps = {} if since is None else {"since": _BEYOND}
    elif existence.is_prepared(reader):
        with look(reader, moved_since=since or 0, has_values=False) as at:
            if since is None:
                return at.join(
                    part.view("needed_items", ("_seq", "_gen"), found="status")
                    for part in at.in_parts()
                )
            at.give("found", at.moves())
            return at.view("needed_items", ("_seq", "_gen"))
    else:
        steps = {}
    with look(reader, **steps, has_values=False) as at:
        return at.view("visible_items", ("_seq", "_gen"))
