"""What jobs of Spark are for: said for a block, and the caller's words put back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spark_queue.log.job_descriptions import described, named
from spark_queue.log.session_options import PlainSession

_KEY = "spark.job.description"


class _Context:
    """Remembers local properties as Spark does: what is set to nothing is forgotten."""

    def __init__(self, **known: str) -> None:
        self.known: dict[str, str] = known

    def getLocalProperty(self, key: str) -> str | None:  # noqa: N802 - Spark's name
        return self.known.get(key)

    def setLocalProperty(self, key: str, value: str | None) -> None:  # noqa: N802 - Spark's name
        self.known.pop(key, None)
        if value is not None:
            self.known[key] = value


class _Connected:
    """A session that shows no context."""

    @property
    def sparkContext(self) -> None:  # noqa: N802 - Spark's name
        raise AttributeError("JVM_ATTRIBUTE_NOT_SUPPORTED")


@pytest.mark.parametrize("before", [{}, {_KEY: "the caller's"}])
def test_the_callers_description_is_put_back(before: dict[str, str]) -> None:
    """Inside a block its own holds, the inner one first; after it what was before, also nothing."""
    context = _Context(**before)
    session: Any = SimpleNamespace(sparkContext=context)

    def fail() -> None:
        with described(session, "outer"):
            with described(session, "inner"):
                assert context.known == {_KEY: "inner"}
            assert context.known == {_KEY: "outer"}
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert context.known == before


@pytest.mark.parametrize("session", [PlainSession(), _Connected()])
def test_where_there_is_no_context_nothing_breaks(session: Any) -> None:
    """Without Spark, and over Connect, the block is run."""
    with described(session, "nothing"):
        pass


def test_a_method_is_described_by_its_queue() -> None:
    """The queue's name, and what the method is for; what it gets and returns is its own."""
    context = _Context()
    session: Any = SimpleNamespace(sparkContext=context)

    class Planner:
        store = SimpleNamespace(name="/q", session=session)

        @named("claim")
        def at(self, head: int, *, more: int = 0) -> tuple[str | None, int]:
            """Say what is said."""
            return context.getLocalProperty(_KEY), head + more

    assert Planner().at(1, more=2) == ("queue /q: claim", 3)
    assert context.known == {}
