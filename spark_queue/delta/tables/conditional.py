"""Tables whose commits are conditional PUTs, and other writers of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from spark_queue.errors import InvalidArgumentError

#: What a writer of such a table has to know. Others refuse a table with a feature that they do not
#: know; readers need not know it.
FEATURE = "sparkQueueConditionalCommits"


@contextmanager
def writes(target: str, block: AbstractContextManager[None]) -> Iterator[None]:
    """Say in a block why Spark does not write to a table, where that is such a one.

    Raises
    ------
    InvalidArgumentError
        When it is; then nothing was written.
    """
    try:
        with block:
            yield
    except Exception as exc:
        if FEATURE in str(exc):
            raise InvalidArgumentError(
                f"{target!r} is on an object store, and its commits are conditional PUTs: Delta on "
                "Spark would write over steps that were told. Open the queue with storage="
            ) from exc
        raise
