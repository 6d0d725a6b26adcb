"""The tables of a queue once more, as shallow clones: Delta's own, of the same files."""

from __future__ import annotations

from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.addresses import TableAddress


def version_of(store: Store, table: TableAddress) -> int:
    """Return the newest version of a table."""
    history = store.spark.sql(f"DESCRIBE HISTORY {table.sql()} LIMIT 1")
    return int(history.select("version").collect()[0][0])


def shallow(store: Store, new: TableAddress, old: TableAddress, version: int) -> None:
    """Make a table as the clone of a version of another one."""
    clone = f"SHALLOW CLONE {old.sql()} VERSION AS OF {version}"
    store.spark.sql(f"CREATE TABLE {new.sql()} {clone}")
