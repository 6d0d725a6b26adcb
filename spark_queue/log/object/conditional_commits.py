"""Commits that are conditional PUTs: their texts, and other writers of their tables."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import MappingProxyType
from typing import Any

from spark_queue.errors import InvalidArgumentError
from spark_queue.log.delta import table_creation
from spark_queue.log.delta.commits import name_of
from spark_queue.log.delta.integrity import read_actions, seal
from spark_queue.log.disk import scratch
from spark_queue.log.object.pending_rows import TAKEN
from spark_queue.log.storage import Storage, require_exclusive_create

#: What a writer of such a table has to know. Others refuse a table with a feature that they do not
#: know; readers need not know it.
FEATURE = "sparkQueueConditionalCommits"

_NOTHING = nullcontext()

#: What to do where it is not the queue, but a table of its results.
LEAVE_IT = "Leave it to processes without Spark, or name another table"


@contextmanager
def writes(
    target: str,
    block: AbstractContextManager[None] = _NOTHING,
    way_out: str = "Open the queue with storage=",
) -> Iterator[None]:
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
                f"Spark would write over what was told. {way_out}"
            ) from exc
        raise


_PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": [FEATURE]}

#: Bytes of files up to which a commit has a copy of them: who follows it asks for no second object.
_SMALL = 65_536

_COPIES = "sparkQueueFiles"

_NONE: Mapping[str, tuple[int, int]] = MappingProxyType({})


def create_table(storage: Storage, schema: str, properties: Mapping[str, str]) -> None:
    """Make an empty table, unless one is there by now.

    Raises
    ------
    SetupError
        The storage writes over an object.
    """
    text, name = _first_text(schema, properties), f"_delta_log/{name_of(0)}"
    if storage.put_if_absent(name, text) == text:
        require_exclusive_create(storage, name)


def _first_text(schema: str, properties: Mapping[str, str]) -> bytes:
    """Return the commit that makes an empty table, which only this library writes."""
    with scratch.directory() as place:
        table_creation.make_table(place, schema, properties, ())
        text = (place / "_delta_log" / name_of(0)).read_text(encoding="utf-8")
    actions = [
        {"protocol": _PROTOCOL} if "protocol" in action else action for action in read_actions(text)
    ]
    return seal(actions).encode()


def text_of(
    actions: Sequence[Mapping[str, Any]],
    files: Mapping[str, bytes],
    taken: Mapping[str, tuple[int, int]] = _NONE,
) -> bytes:
    """Return a commit, with the pending rows in it, and a copy of its files, if they are small."""
    first, *others = actions
    if "commitInfo" in first and files and sum(map(len, files.values())) <= _SMALL:
        copies = {name: b64encode(content).decode() for name, content in files.items()}
        first = {"commitInfo": {**first["commitInfo"], _COPIES: copies}}
    if taken:
        first = {"commitInfo": {**first["commitInfo"], TAKEN: taken}}
    return seal([first, *others]).encode()


def files_of(text: bytes) -> Iterator[tuple[str, bytes]]:
    """Return the names and contents of files of which a commit has a copy."""
    first = text.partition(b"\n")[0]
    if _COPIES.encode() not in first:
        return
    copies = json.loads(first).get("commitInfo", {}).get(_COPIES, {})
    for name, content in copies.items():
        yield name, b64decode(content)
