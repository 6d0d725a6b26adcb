"""Runs commands in this process, with a queue that only takes notes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from spark_queue.cli.scope import Scope
from tests.conftest import CommandLine


@dataclass
class FakeQueue:
    """Answers what it was told to, and remembers how it was asked."""

    answers: dict[str, Any]
    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)
    name: str = "/q"
    paused: bool | None = None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in self.answers:
            raise AttributeError(name)

        def method(*args: Any, **kwargs: Any) -> Any:
            self.calls.append((name, args, kwargs))
            answer = self.answers[name]
            if isinstance(answer, BaseException):
                raise answer
            return answer(*args, **kwargs) if callable(answer) else answer

        return method


class FakeSession:
    """A session that nothing is asked of."""

    class conf:  # noqa: N801 - as a session spells it
        """Its settings."""

        @staticmethod
        def get(_name: str, default: str) -> str:
            """Return what is the case where nothing is set."""
            return default

    class sparkContext:  # noqa: N801 - as a session spells it
        """What knows its jobs."""

        @staticmethod
        def addJobTag(_tag: str) -> None:  # noqa: N802 - Spark's name
            """Do nothing: there are no jobs."""


@pytest.fixture
def run(command_line: CommandLine) -> CommandLine:
    """Run a command with the arguments given, in a session that does nothing."""
    return partial(command_line, sessions=lambda _verbose: FakeSession())


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeQueue]:
    """Put a queue with the given answers in the place of any that a command opens."""

    def fake(**answers: Any) -> FakeQueue:
        queue = FakeQueue(answers)
        monkeypatch.setattr(Scope, "queue", lambda _self, _name: queue)
        return queue

    return fake
