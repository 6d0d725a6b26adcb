"""Rows of a Delta table by DuckDB, with its extension as PyPI has it."""

from __future__ import annotations

import os
from importlib.metadata import files
from typing import Any

import duckdb

from answering import answer

connection = duckdb.connect()
for name in "httpfs", "delta":
    # INSTALL would ask DuckDB's own server.
    there = files(f"duckdb-extension-{name}") or ()
    packed = next(file for file in there if ".duckdb_ext" in file.name)
    connection.execute(f"LOAD '{packed.locate()}'")
if "AWS_ENDPOINT_URL" in os.environ:
    connection.execute(
        "CREATE SECRET (TYPE s3, KEY_ID '{AWS_ACCESS_KEY_ID}', SECRET '{AWS_SECRET_ACCESS_KEY}',"
        " REGION '{AWS_REGION}', ENDPOINT '{endpoint}', URL_STYLE 'path', USE_SSL false)".format(
            endpoint=os.environ["AWS_ENDPOINT_URL"].removeprefix("http://"), **os.environ
        )
    )


def rows(path: str, where: str = "true") -> Any:
    """Return the rows that meet a condition."""
    asked = f"SELECT * FROM delta_scan('{path}') WHERE {where}"  # noqa: S608
    return connection.execute(asked).to_arrow_table()


if __name__ == "__main__":
    answer(rows)
