"""Rows of a Delta table by ClickHouse in this process. It reads below the working folder only."""

from __future__ import annotations

import os
from typing import Any

import chdb

from answering import answer


def rows(path: str, where: str = "true") -> Any:
    """Return the rows that meet a condition."""
    table = f"deltaLakeLocal('{path}')"
    if path.startswith("s3://"):
        keys = os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
        url = f"{os.environ['AWS_ENDPOINT_URL']}/{path.removeprefix('s3://')}"
        table = "deltaLake('{}', '{}', '{}')".format(url, *keys)
    return chdb.query(f"SELECT * FROM {table} WHERE {where}", "ArrowTable")  # noqa: S608


if __name__ == "__main__":
    answer(rows)
