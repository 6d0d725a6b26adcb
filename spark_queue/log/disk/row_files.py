"""Files of rows, in Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from spark_queue.log.session_options import TOGETHER

#: Bytes that are read together at most.
_GROUP_BYTES = 32 * 2**20

#: Rows up to which a dictionary of their values is larger than they are.
FEW = 16

#: How they are written: half of their file would say of the few what their commit says, and the
#: types of Arrow, which readers know. Its steps tell a file from others of its size.
_OF_FEW = {"use_dictionary": False, "write_statistics": ["_step"], "store_schema": False}


def without_nothing(rows: pa.Table) -> pa.Table:
    """Return rows without the columns that are null in all of them.

    Readers of Delta know a missing column as null. The row of a head has four columns of
    forty, and each takes its time to write and to read.
    """
    if not rows.num_rows:
        return rows
    columns = enumerate(rows.columns)
    return rows.select([at for at, column in columns if column.null_count < rows.num_rows])


def write_file(path: str, rows: pa.Table) -> int:
    """Write a new file, and return its size."""
    options = {"row_group_size": _rows_together(rows), "write_page_checksum": True}
    with open(path, "xb") as file:  # noqa: PTH123 - as above
        if rows.num_rows > FEW:
            pq.write_table(rows, file, use_dictionary=_with_dictionary(rows.schema), **options)
            return file.tell()
        # Arrow hands a file of Python each of its pieces; a buffer of its own costs less.
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink, **_OF_FEW, **options)
        return file.write(sink.getvalue())


def _with_dictionary(columns: Iterable[pa.Field]) -> list[str]:
    """Return the columns of a file that have a dictionary: all but those of floats.

    Spark takes 0.0 for no value of a dictionary that has -0.0 alone, and skips its rows.
    """
    found = [leaf for column in columns for leaf in _leaves(column.name, column.type)]
    return [path for path, kind in found if not pa.types.is_floating(kind)]


def _leaves(path: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """Return the columns of a file that one of a table is, by their paths."""
    if pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", kind.key_type)
        yield from _leaves(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{path}.{field.name}", field.type)
    elif pa.types.is_nested(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    else:
        yield path, kind


def _rows_together(rows: pa.Table) -> int:
    """Return how many rows are read together: those of a claim are few, where each is large."""
    count = int(rows.num_rows)
    if count <= FEW:
        return max(count, 1)
    size = int(rows.nbytes)
    return min(TOGETHER, max(_GROUP_BYTES * count // max(size, 1), 1))
