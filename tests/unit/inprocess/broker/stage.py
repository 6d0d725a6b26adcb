"""A stage on which tests decide when tasks end, on threads and on an event loop alike."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any

from spark_queue.memory.broker import QueueBroker, Turn
from spark_queue.memory.waiting.timer import ManualTimer
from tests.unit.threads import until


class Stage:
    """Runs tasks that end when the test says so, and writes down when they start and end."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.timer = ManualTimer()
        self.started: list[str] = []
        self.ended: list[str] = []
        self.turns: dict[str, Turn] = {}
        self._gates: dict[str, Future[Any]] = {}
        self.futures: dict[str, Future[Any]] = {}
        self._brokers: list[QueueBroker] = []
        self._lock = threading.Lock()
        self._count = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def broker(self, max_active: int | None = 2, *limits: Any, **options: Any) -> QueueBroker:
        """Make the broker of the test."""
        self._brokers.append(QueueBroker(max_active, *limits, timer=self.timer, **options))
        return self._brokers[-1]

    def add(
        self,
        name: str,
        group: Hashable | None = None,
        *,
        before: Callable[[Turn], object] = lambda _: None,
        after: Callable[[Turn], object] = lambda _: None,
        **options: Any,
    ) -> Future[Any]:
        """Enqueue a task that calls ``before``, waits for its end, and calls ``after``."""
        gate = self._gates[name] = Future()

        def begin(turn: Turn) -> None:
            self.turns[name] = turn
            self.started.append(name)
            before(turn)

        def finish(turn: Turn, value: Any) -> Any:
            after(turn)
            self.ended.append(name)
            return value

        def thread_task(turn: Turn) -> Any:
            with self._inside():
                begin(turn)
                return finish(turn, gate.result(timeout=10))

        async def loop_task(turn: Turn) -> Any:
            with self._inside():
                begin(turn)
                return finish(turn, await asyncio.wrap_future(gate))

        task = thread_task if self.kind == "threads" else loop_task
        self.futures[name] = self.on_loop(lambda: self._brokers[-1].enqueue(task, group, **options))
        # Two that start at once on threads would do so in any order.
        self.settle()
        return self.futures[name]

    def on_loop(self, call: Callable[[], Any]) -> Any:
        """Call something on the stage's event loop."""

        async def run() -> Any:
            return call()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(timeout=10)

    def let_end(self, name: str, value: Any = None, error: BaseException | None = None) -> None:
        """Let a task go on to its end."""
        gate = self._gates[name]
        if error is not None:
            gate.set_exception(error)
        else:
            gate.set_result(name if value is None else value)

    def end(self, name: str, error: BaseException | None = None) -> None:
        """Let a task end, and wait until its successors have started."""
        self.let_end(name, error=error)
        self.futures[name].exception(timeout=10)
        self.settle()

    def settle(self) -> None:
        """Wait until everything that may start has started."""
        until(lambda: sum(broker.running_count for broker in self._brokers) == self._count)

    @contextmanager
    def _inside(self) -> Iterator[None]:
        with self._lock:
            self._count += 1
        try:
            yield
        finally:
            with self._lock:
                self._count -= 1

    def play(self, durations: dict[str, int]) -> None:
        """End tasks as if each took so long: of those that run, the one whose time is up first."""
        now = 0
        ends: dict[str, int] = {}
        while len(self.ended) < len(durations):
            self.settle()
            ends |= {name: now + durations[name] for name in self.started if name not in ends}
            name = min((name for name in ends if name not in self.ended), key=ends.__getitem__)
            now = ends[name]
            self.end(name)

    def close(self) -> None:
        """Let everything end."""
        for broker in self._brokers:
            self.on_loop(partial(broker.stop, force=True))
        for name, gate in self._gates.items():
            if not gate.done():
                gate.set_result(name)
            if name in self.turns:
                self.turns[name].release()
        for broker in self._brokers:
            broker.wait_for_idle(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
