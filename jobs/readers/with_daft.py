"""Rows of a Delta table by daft."""

from __future__ import annotations

import os
from typing import Any

import daft
from daft.io import IOConfig, S3Config

from answering import answer, compared

STORE = IOConfig(
    s3=S3Config(
        endpoint_url=os.environ.get("AWS_ENDPOINT_URL"),
        region_name=os.environ.get("AWS_REGION"),
        key_id=os.environ.get("AWS_ACCESS_KEY_ID"),
        access_key=os.environ.get("AWS_SECRET_ACCESS_KEY"),
        use_ssl=False,
    )
)


def rows(path: str, where: Any = None) -> Any:
    """Return the rows that meet a condition."""
    frame = daft.read_deltalake(path, io_config=STORE)
    if where is not None:
        frame = frame.where(compared(daft.col(where[0]), *where[1:]))
    return frame.to_arrow()


if __name__ == "__main__":
    answer(rows)
