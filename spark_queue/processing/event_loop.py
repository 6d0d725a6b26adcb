"""Event loop in a thread of its own, for handlers that are ``async def``."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from spark_queue.item_context import CURRENT
from spark_queue.processing.at_work import ItemAtWork

if TYPE_CHECKING:
    from typing_extensions import Self


def is_async(handler: Callable[..., object]) -> bool:
    """Whether a function, or an object that is called as one, is ``async def``."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
        getattr(handler, "__call__", None)  # noqa: B004 - whether it is async, not whether it is
    )


class EventLoop:
    """An event loop, begun for the first thing to await; it ends with the block.

    Any thread may wait for something that it runs. All of it is in one loop, so that a client of
    HTTP or of a database may be shared by all calls of a handler.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    def wait_for(self, awaited: Awaitable[Any]) -> Any:
        """Return what an awaitable gives, or raise what it raises, after it has ended."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._live, name="spark_queue_event_loop", daemon=True
                )
                self._thread.start()
        loop, _ = self._begun.result()
        answer, error = asyncio.run_coroutine_threadsafe(_answer(awaited), loop).result()
        if error is not None:
            raise error
        return answer

    def _live(self) -> None:
        async def live() -> None:
            over = asyncio.Event()
            self._begun.set_result((asyncio.get_running_loop(), over))
            await over.wait()

        try:
            asyncio.run(live())
        except BaseException as exc:
            if not self._begun.done():
                self._begun.set_exception(exc)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is None:
            return
        loop, over = self._begun.result()
        loop.call_soon_threadsafe(over.set)
        self._thread.join()


async def _answer(awaited: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    """Return the answer of an awaitable, or the exception that would end the loop."""
    loop, task, item = asyncio.get_running_loop(), asyncio.current_task(), CURRENT.get()
    end = None if task is None else partial(loop.call_soon_threadsafe, task.cancel)
    with item.ended_by(end) if isinstance(item, ItemAtWork) and end else nullcontext():
        try:
            return await awaited, None
        except (KeyboardInterrupt, SystemExit) as exc:
            return None, exc


@dataclass(frozen=True, slots=True)
class Awaiting:
    """Calls a handler, and waits for its answer where that is to be awaited."""

    handler: Callable[[Any], Any]
    loop: EventLoop

    def __call__(self, given: Any) -> Any:
        """Return the answer of the handler."""
        answer = self.handler(given)
        return self.loop.wait_for(answer) if inspect.isawaitable(answer) else answer
