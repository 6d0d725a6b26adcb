"""Rows of a Delta table by Delta Kernel in Java, with its default engine.

Its jars come from Maven Central by the first start, into the environment of this Python.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import Schema

from answering import answer
from jars import class_path

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

#: How values are written for the other side.
WRITTEN: Mapping[type, Callable[[Any], Any]] = {
    float: str,
    datetime: lambda at: (at - EPOCH) // timedelta(microseconds=1),
    date: lambda day: (day - EPOCH.date()).days,
    Decimal: "{:f}".format,
    bytes: bytes.hex,
}


def started() -> subprocess.Popen[str]:
    """Start the program of Java."""
    # The default engine does not name the interface that it is of among its dependencies.
    jars = class_path("io.delta", "4.4.0", "delta-kernel-api", "delta-kernel-defaults")
    program = str(Path(__file__).with_name("KernelRows.java"))
    command = ["java", "-Xmx1g", "-cp", jars, program]
    return subprocess.Popen(command, stdin=-1, stdout=-1, text=True, bufsize=1)  # noqa: S603


kernel: Any = started()


def rows(path: str, where: Any = None) -> Any:
    """Return the rows that meet a condition."""
    met = where and {
        "column": where[0],
        "word": where[1],
        "type": type(where[2]).__name__,
        "value": WRITTEN.get(type(where[2]), lambda value: value)(where[2]),
    }
    kernel.stdin.write(json.dumps({"path": path, "where": met}) + "\n")
    told = json.loads(kernel.stdout.readline())
    if "error" in told:
        raise RuntimeError(told["error"])
    schema = pa.schema(Schema.from_json(told["schema"]).to_arrow())
    columns = zip(*told["rows"], strict=True) if told["rows"] else [()] * len(schema)
    return pa.table(
        [
            pa.array([value_of(value, field.type) for value in column], field.type)
            for column, field in zip(columns, schema, strict=True)
        ],
        schema=schema,
    )


def value_of(value: Any, kind: pa.DataType) -> Any:
    """Return a value as pyarrow takes it."""
    if value is None:
        return None
    if pa.types.is_floating(kind):
        return float(value)
    if pa.types.is_decimal(kind):
        return Decimal(value)
    return bytes.fromhex(value) if pa.types.is_binary(kind) else value_within(value, kind)


def value_within(value: Any, kind: pa.DataType) -> Any:
    """Return a list or a struct with values as pyarrow takes them."""
    if pa.types.is_list(kind):
        return [value_of(one, kind.value_type) for one in value]
    if pa.types.is_struct(kind):
        return {field.name: value_of(value[field.name], field.type) for field in kind}
    return value


if __name__ == "__main__":
    answer(rows)
