"""Text of commits: its actions, and its checksum where it was written here."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

#: The first line of a commit that has a checksum: of all its text, with zeros in its place.
_SEALED = re.compile(r'\{"commitInfo":\{"checksum":"([0-9a-f]{8})"')

_ZEROS = "00000000"


def seal(actions: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of a commit, with a checksum where it says of itself what it is."""
    first, *others = actions
    if "commitInfo" in first:
        first = {"commitInfo": {"checksum": _ZEROS, **first["commitInfo"]}}
    lines = (json.dumps(action, separators=(",", ":")) + "\n" for action in (first, *others))
    text = "".join(lines)
    return text if "commitInfo" not in first else text.replace(_ZEROS, _checksum(text), 1)


def require_seal(text: str) -> None:
    """Check the text of a commit by its checksum, if it has one.

    Raises
    ------
    ValueError
        When it is not what was written.
    """
    found = _SEALED.match(text)
    if found is None:
        return
    bare = text[: found.start(1)] + _ZEROS + text[found.end(1) :]
    if _checksum(bare) != found[1]:
        raise ValueError("its checksum is that of another text")


def read_actions(text: str) -> list[Any]:
    """Return the actions of a commit from its text.

    Only a line feed ends a line: Spark and deltalake write U+2028 and the like as they are.
    """
    return [json.loads(line) for line in text.split("\n") if line]


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"
