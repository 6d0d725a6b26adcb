"""Rows of a Delta table by Trino, from a server of a JVM that ends with this process.

Its jars come from Maven Central by the first start. ``JAVA25_HOME`` says where Java 25 is.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import trino
from deltalake import DeltaTable

from answering import answer
from jars import class_path

VERSION = "449"

#: An instant in microseconds: Python has none as late as the connector makes of the last one.
INSTANT = "1000 * date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00 UTC', \"{}\")"


def started() -> subprocess.Popen[str]:
    """Start the server."""
    if "JAVA25_HOME" not in os.environ:
        sys.exit("JAVA25_HOME is not set: Trino needs Java 22 or newer")
    jars = class_path("io.trino", VERSION, "trino-delta-lake", "trino-main", managed="trino-root")
    java = Path(os.environ["JAVA25_HOME"], "bin", "java")
    program = str(Path(__file__).with_name("TrinoServer.java"))
    command = [str(java), "-Xmx1g", "-cp", jars, program]
    return subprocess.Popen(command, stdin=-1, stdout=-1, text=True)  # noqa: S603 - our own


server: Any = started()
there = urlsplit(server.stdout.readline().strip())
cursor = trino.dbapi.connect(
    host=there.hostname, port=there.port, user="reader", catalog="delta", schema="read"
).cursor()
cursor.execute("CREATE SCHEMA read").fetchall()
names = (f"t{number}" for number in count())


@cache
def registered(path: str) -> tuple[str, pa.Schema]:
    """Return how a table is asked, of which the catalog is told once, and its schema."""
    name, place = next(names), path if "://" in path else f"local://{path}"
    cursor.execute(f"CALL system.register_table('read', '{name}', '{place}')").fetchall()
    schema = pa.schema(DeltaTable(path).schema().to_arrow())
    columns = (
        (INSTANT if pa.types.is_timestamp(field.type) else '"{}"').format(field.name)
        for field in schema
    )
    return f"SELECT {', '.join(columns)} FROM {name}", schema  # noqa: S608 - our own words


def rows(path: str, where: str = "true") -> Any:
    """Return the rows that meet a condition."""
    asked, schema = registered(path)
    found = cursor.execute(f"{asked} WHERE {where}").fetchall()
    columns = zip(*found, strict=True) if found else [()] * len(schema)
    return pa.table([*map(pa.array, columns, schema.types)], schema)


if __name__ == "__main__":
    answer(rows)
