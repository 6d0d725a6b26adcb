"""Choice of the kind of a log."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from spark_queue.log.addresses import TableAddress
from spark_queue.log.delta.log import Log
from spark_queue.log.heads import Head
from spark_queue.log.session_options import PlainSession, Session, TablesElsewhere

if TYPE_CHECKING:
    from spark_queue.log.output.outputs import ResultTable

_Head = TypeVar("_Head", bound=Head)


class TableSource(TablesElsewhere, Protocol):
    """Tables that are kept elsewhere than on this machine's disk."""

    def log(self, session: Session, address: TableAddress, parse: Callable[[str], Any]) -> Log[Any]:
        """Return the table at an address as a log, whether or not it is there."""

    def tables_beside(self, address: TableAddress) -> set[str]:
        """Return the names of the tables of a place, by one of them."""

    def results(self, url: str, what: str, source: str) -> ResultTable | None:
        """Return a table of results on an object store; ``None`` where that is not reached."""


def tables_of(session: PlainSession) -> TableSource | None:
    """Return the tables of a session; ``None`` for this machine's disk."""
    return cast("TableSource | None", session.tables)


def log_of(
    session: Session,
    address: TableAddress,
    parse: Callable[[str], _Head],
    tables: TableSource | None = None,
) -> Log[_Head]:
    """Return a table in the form that suits the session, and who keeps it if not this disk."""
    if isinstance(session, PlainSession):
        tables = tables or tables_of(session)
    if tables is not None:
        return tables.log(session, address, parse)
    name = "DeltaLog" if isinstance(session, PlainSession) else "SparkLog"
    module = "delta_log" if isinstance(session, PlainSession) else "spark.spark_log"
    made = getattr(import_module(f"spark_queue.log.{module}"), name)
    log: Log[_Head] = made(session, address, parse)
    return log
