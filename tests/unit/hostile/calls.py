"""The public calls of the library, found by their signatures."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from inspect import Parameter
from typing import Any

from spark_queue.config import LiveSettings
from spark_queue.reader import HandlerOptions

#: The packages whose ``__all__`` is for users.
PACKAGES = (
    "spark_queue",
    "spark_queue.inprocess",
    "spark_queue.journal",
    "spark_queue.operators",
    "spark_queue.streaming",
    "spark_queue.testing",
    "spark_queue.replay",
    "spark_queue.ingest",
)

#: What ``**`` stands for where it has a type.
_KEYWORDS = {"LiveSettings": LiveSettings, "HandlerOptions": HandlerOptions}

#: Protocols and parts that an implementer calls, after the library has checked what came in.
ENGINES = {"Journal", "MemoryJournal", "MemoryStore", "IdempotencyKeyStore"}

#: What the library makes, and users only ask: their constructors are no public calls.
MADE_HERE = {
    "AioBlockingQueue", "AioDistinctQueue", "AioDurableQueue", "AioFairQueue", "AioJournalReader",
    "AioJournaledQueue", "Affected", "AutoCommitReader", "Checkup", "Claim", "Delivery",
    "DeltaQueue", "EnqueueResult", "Entry", "Explanation", "Finding", "Group", "IngestSummary",
    "ItemProgress", "ItemReport", "JournalReader", "JournalStats", "Lag", "LocalClaim",
    "LocalQueue", "LocalReader",
    "LockToken", "Maintained", "OrderSummary", "Past", "PastItem", "ProcessResult", "PutResult",
    "QueueStats", "Read", "Reader", "ReaderOffset", "ReaderStats", "Recovered", "Rehearsal",
    "Reconfigured", "RepeatedBatch",
    "Replay", "Report", "Run", "Settlement", "Settlements", "StepFacts", "StepTimes", "Take",
    "TenantSummary", "TenantWait", "Transaction", "Turn", "TypeSummary", "Undone", "Upgraded",
    "UserSummary", "Waited",
}  # fmt: skip

#: Methods that only the library itself calls.
INNER = {
    "JournaledQueue.evict_waiters",
    "OnceGuard.refuse",
    "ProcessResult.plus",
    "QueueBroker.after_fork",
    "QueueBroker.at_exit",
    "QueueBroker.begin_stop",
    "QueueBroker.require_outside",
    "RetryPolicy.seconds_after",
    "SingularUpdateQueue.begin",
    "Turn.enter",
    "Turn.exit",
    "Turn.on_task_done",
    "WorkerPool.after_fork",
    "WorkerPool.at_exit",
    "WorkerPool.attach",
    "WorkerPool.schedule",
}


@dataclass(frozen=True)
class Call:
    """A public function, a method, or the constructor of a class."""

    name: str
    owner: type[Any] | None
    method: str
    parameters: tuple[Parameter, ...]

    @property
    def function(self) -> object:
        """What runs: classes that have a method from the same base share it."""
        if self.owner is None or self.method == "__init__":
            return self.name
        static = inspect.getattr_static(self.owner, self.method)
        return static if inspect.isfunction(static) else self.name

    @property
    def is_method(self) -> bool:
        """Whether it takes an object to call it of."""
        return self.owner is not None and self.method != "__init__" and not self._is_of_class

    @property
    def _is_of_class(self) -> bool:
        found = inspect.getattr_static(self.owner, self.method, None)
        return isinstance(found, classmethod | staticmethod)

    def bound(self, receiver: Any) -> Callable[..., Any]:
        """Return what is called."""
        if self.owner is None:
            found: Callable[..., Any] = receiver
            return found
        if self.method == "__init__":
            return self.owner
        return getattr(receiver if self.is_method else self.owner, self.method)  # type: ignore[no-any-return]


def public_calls() -> Iterator[Call]:
    """Yield every public call with its parameters, each class and function once."""
    seen: set[int] = set()
    for package in PACKAGES:
        module = import_module(package)
        for name in module.__all__:
            value = getattr(module, name)
            if id(value) in seen or not callable(value) or name in ENGINES:
                continue
            seen.add(id(value))
            if inspect.isclass(value):
                yield from _of_class(name, value)
            elif inspect.isfunction(value):
                yield Call(f"{package.partition('.')[2]}.{name}".lstrip("."), None, package,
                           _parameters(value))  # fmt: skip


def _of_class(name: str, owner: type[Any]) -> Iterator[Call]:
    if issubclass(owner, BaseException | Enum):
        return
    if name not in MADE_HERE:
        yield Call(name, owner, "__init__", _parameters(owner))
    for method in dir(owner):
        static = inspect.getattr_static(owner, method)
        function = getattr(static, "__func__", static)
        is_ours = inspect.isfunction(function) and function.__module__.startswith("spark_queue")
        if is_ours and not method.startswith("_") and f"{name}.{method}" not in INNER:
            bound = getattr(owner, method)
            of_class = isinstance(static, classmethod | staticmethod)
            yield Call(f"{name}.{method}", owner, method, _parameters(bound, of_class=of_class))


def _parameters(function: Any, *, of_class: bool = True) -> tuple[Parameter, ...]:
    given = list(inspect.signature(function).parameters.values())
    given = given if of_class or inspect.isclass(function) else given[1:]
    return tuple(one for parameter in given for one in _spread(parameter))


def _spread(parameter: Parameter) -> Iterator[Parameter]:
    if parameter.kind is not Parameter.VAR_KEYWORD:
        yield parameter
        return
    for name, kind in _KEYWORDS.items():
        if name in str(parameter.annotation):
            for key in kind.__annotations__:
                yield Parameter(key, Parameter.KEYWORD_ONLY, default=None, annotation=Any)
