"""The files below a directory as rows, and the queue that they go through."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_queue.config import QueueConfig
from spark_queue.ingest.tree import FoundFile, walk

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The columns of a file.
FILE_SCHEMA = "path string, size bigint, modified_at timestamp, tenant string, directory string"

#: Distinct for ever by version, fair by tenant, serial per directory.
FILE_CONFIG = QueueConfig(
    # The numbers go first: they hold no separator, so no two versions share a key.
    dedup_key="concat_ws('/', size, unix_micros(modified_at), path)",
    dedup_scope="forever",
    fair_key="tenant",
    group_key="directory",
)

_ARROW = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("modified_at", pa.timestamp("us", tz="UTC")),
        ("tenant", pa.string()),
        ("directory", pa.string()),
    ]
)


def discover(
    spark: SparkSession,
    source: str | os.PathLike[str],
    *,
    exclude: Sequence[str] = (),
    follow_links: bool = False,
) -> DataFrame:
    """Find the files below a directory.

    The driver walks the tree; workers must see it under the same path to read the files.

    Parameters
    ----------
    spark : SparkSession
        The caller's session.
    source : str or path
        A directory.
    exclude : sequence of str
        Patterns of names to leave out, as the shell has them, of files and of directories with all
        that is below; one with a ``/`` is matched to the path below the source.
    follow_links : bool
        Also look into directories that symbolic links lead to. Each is read once.

    Returns
    -------
    DataFrame
        One row a file: path, size in bytes, modified_at, tenant (the first directory below the
        source, ``""`` for a file at the top) and directory.

    Raises
    ------
    InvalidArgumentError
        When the source is no directory, or cannot be listed; or ``exclude`` is no list of patterns.
    """
    return file_rows(spark, list(walk(source, exclude=exclude, follow_links=follow_links)))


def file_rows(spark: SparkSession, files: Sequence[FoundFile]) -> DataFrame:
    """Return found files as rows of the queue."""
    # The fields of a file are the columns, in their order.
    columns = [[getattr(file, name) for file in files] for name in FoundFile.__slots__]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, _ARROW, strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=_ARROW), FILE_SCHEMA)
