"""An object store whose answers get lost, and that counts what it is asked."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from obstore.exceptions import GenericError
from obstore.store import MemoryStore

#: Does a request, or something in its place.
Fault = Callable[[Callable[[], Any]], Any]


class ShakyStore:
    """A store of ``obstore`` that fails some requests before, and others after they were done.

    Parameters
    ----------
    store : ObjectStore, optional
        The store; by default one in memory.
    lost, refused : float
        The part of the requests that are done without an answer, and that are not done (503).
    delay : float
        Seconds that each request takes longer.
    """

    def __init__(
        self,
        store: Any = None,
        *,
        lost: float = 0.0,
        refused: float = 0.0,
        delay: float = 0.0,
        seed: int = 0,
    ) -> None:
        self._store = MemoryStore() if store is None else store
        self.lost, self.refused, self.delay = lost, refused, delay
        self._random = random.Random(seed)  # noqa: S311 - of a test
        self._fault: tuple[str, Fault] | None = None
        self.asked: Counter[str] = Counter()
        """How often each verb was asked."""
        self.names: list[str] = []
        """The requests, each as a verb and a name."""
        self.at_once = 0
        """How many were under way at once, at most."""
        self._under_way = 0

    def __reduce__(self) -> tuple[Any, ...]:
        # Who gets a copy in another process asks the store itself.
        return _same, (self._store,)

    def put(self, path: str, content: bytes, **options: Any) -> Any:
        return self._ask("PUT", path, lambda: self._store.put(path, content, **options))

    def get(self, path: str) -> Any:
        return self._ask("GET", path, lambda: self._store.get(path))

    def delete(self, paths: str) -> Any:
        return self._ask("DELETE", paths, lambda: self._store.delete(paths))

    def list(self, prefix: str | None, **options: Any) -> Iterator[Any]:
        found = self._ask("LIST", prefix or "", lambda: [*self._store.list(prefix, **options)])
        return iter(found)

    def fail_next(self, request: str, fault: Fault) -> None:
        """Have the next request that begins so done by a fault."""
        self._fault = (request, fault)

    def found(self) -> Sequence[str]:
        """Return the names of all objects."""
        return sorted(one["path"] for some in self._store.list() for one in some)

    def remove(self, names: Iterable[str]) -> None:
        """Remove objects."""
        for name in tuple(names):
            self._store.delete(name)

    def _ask(self, verb: str, path: str, ask: Callable[[], Any]) -> Any:
        self.asked[verb] += 1
        name = f"{verb} {path}"
        self.names.append(name)
        self._under_way += 1
        self.at_once = max(self.at_once, self._under_way)
        time.sleep(self.delay)
        self._under_way -= 1
        if self._fault is not None and name.startswith(self._fault[0]):
            (_, fault), self._fault = self._fault, None
            return fault(ask)
        if self._random.random() < self.refused:
            raise GenericError("503 Slow Down")
        answer: Any = None
        error: Exception | None = None
        try:
            answer = ask()
        except Exception as exc:  # noqa: BLE001 - an answer like any other
            error = exc
        if self._random.random() < self.lost:
            raise GenericError("operation timed out")
        if error is not None:
            raise error
        return answer


def _same(store: Any) -> Any:
    return store
