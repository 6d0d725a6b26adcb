"""What both programs that ask the client of Delta Sharing have: a profile, and rows."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import delta_sharing
import pyarrow as pa

from answering import compared


def profile_of(endpoint: str) -> Path:
    """Return a file that tells the client of a server, which asks for no secret."""
    told = {"shareCredentialsVersion": 1, "endpoint": endpoint, "bearerToken": "none"}
    profile = Path(tempfile.mkdtemp(), "profile.share")
    profile.write_text(json.dumps(told), "utf-8")
    return profile


def shared_rows(url: str, form: str, where: Any, hints: str | None = None) -> pa.Table:
    """Return the rows that meet a condition; by hints the server may leave out files."""
    frame = delta_sharing.load_as_pandas(
        url, use_delta_format=form == "delta", jsonPredicateHints=hints
    )
    if where is not None:
        column = frame[where[0]]
        met = column.isna() if where[1] == "IS NULL" else compared(column, *where[1:])
        frame = frame[met]
    return pa.Table.from_pandas(frame, preserve_index=False)
