"""Descriptions of Spark jobs, for Spark's own displays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from spark_queue.log.session_options import PlainSession, Session

if TYPE_CHECKING:
    from pyspark import SparkContext

#: Where Spark keeps, for each thread, what the jobs that it starts are for.
_DESCRIPTION = "spark.job.description"

_Args = ParamSpec("_Args")
_T = TypeVar("_T")


#: A method of an object with a ``store``.
_Method: TypeAlias = Callable[Concatenate[Any, _Args], _T]


@contextmanager
def described(session: Session, what: str) -> Iterator[None]:
    """Say what the jobs of a block are for; what its caller has said holds again after it.

    Over Spark Connect, and wherever a session does not show its context, they have no description.
    """
    context = _context(session)
    if context is None:
        yield
        return
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, what)
    try:
        yield
    finally:
        # Without a value Spark forgets it; only its annotation asks for a text.
        context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]


def named(what: str) -> Callable[[_Method[_Args, _T]], _Method[_Args, _T]]:
    """Describe the jobs of a method by its queue and what it is for."""

    def decorate(method: _Method[_Args, _T]) -> _Method[_Args, _T]:
        @wraps(method)
        def run(self: Any, /, *args: _Args.args, **kwargs: _Args.kwargs) -> _T:
            store = self.store
            with described(store.session, f"queue {store.name}: {what}"):
                return method(self, *args, **kwargs)

        return run

    return decorate


def _context(session: Session) -> SparkContext | None:
    if isinstance(session, PlainSession):
        return None
    try:
        return session.sparkContext
    except Exception:  # noqa: BLE001 - each kind of session says in its own way that it has none
        return None
