"""Planner of the steps that this process cannot decide itself."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from spark_queue.log.session_options import PlainSession
from spark_queue.state.store import Store

if TYPE_CHECKING:
    from spark_queue.sql.sql_planner import SqlPlanner


def planner_of(store: Store) -> SqlPlanner:
    """Return who decides by the tables of a store, by the session that it has.

    Nothing of Spark, and no engine, is imported before it is needed.
    """
    is_alone = isinstance(store.session, PlainSession)
    name = "spark_queue.sql.sql_planner" if is_alone else "spark_queue.spark.spark_planner"
    planner: SqlPlanner = import_module(name).of(store)
    return planner
