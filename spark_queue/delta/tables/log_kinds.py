"""Choice of the kind of a log."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TypeVar

from spark_queue.delta.tables.addresses import TableAddress
from spark_queue.delta.tables.heads import Head
from spark_queue.delta.tables.log import Log
from spark_queue.delta.tables.wishes import PlainSession, Session, TableSource

_Head = TypeVar("_Head", bound=Head)


def log_of(
    session: Session,
    address: TableAddress,
    parse: Callable[[str], _Head],
    tables: TableSource | None = None,
) -> Log[_Head]:
    """Return a table in the form that suits the session, and who keeps it if not this disk."""
    if isinstance(session, PlainSession):
        tables = tables or session.tables
    if tables is not None:
        return tables.log(session, address, parse)
    name = "LocalLog" if isinstance(session, PlainSession) else "SparkLog"
    module = "local_log" if isinstance(session, PlainSession) else "spark_log"
    made = getattr(import_module(f"spark_queue.delta.tables.{module}"), name)
    log: Log[_Head] = made(session, address, parse)
    return log
