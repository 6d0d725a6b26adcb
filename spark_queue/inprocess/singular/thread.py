"""A worker with a thread of its own."""

from __future__ import annotations

import contextlib
import logging
import threading
from typing import Generic, TypeVar

from spark_queue.inprocess.singular.requests import Reply
from spark_queue.inprocess.singular.work import RequestWork

T = TypeVar("T")
R = TypeVar("R")

_log = logging.getLogger(__name__)


class ThreadWorker(Generic[T, R]):
    """Handles the requests of one queue, one after another, on one daemon thread."""

    def __init__(self, work: RequestWork[T, R]) -> None:
        self._work = work
        self._bell = threading.Lock()
        self._bell.acquire()
        work.line.wake = self._ring
        self._thread = threading.Thread(target=self._run, name=work.name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._work.context.enter()
        try:
            while self._serve_next():
                pass
        except BaseException as error:  # noqa: BLE001 - a callback's; nobody may be left waiting
            self._work.abort(error)
        finally:
            self._work.end()

    def _serve_next(self) -> bool:
        request = self._work.line.take()
        if request is not None:
            self._answer(*request)
        elif self._work.line.closed:
            return False
        else:
            self._sleep()
        return True

    def _ring(self) -> None:
        # It rings already where an interrupted sleep has not heard it.
        with contextlib.suppress(RuntimeError):
            self._bell.release()

    def _sleep(self) -> None:
        try:
            self._bell.acquire()
        except Exception:  # noqa: BLE001 - raised into the idle thread: no request is concerned
            _log.warning("queue %r was interrupted while idle", self._work.name, exc_info=True)

    def _answer(self, item: T, reply: Reply[R]) -> None:
        if not reply.set_running_or_notify_cancel():
            return
        try:
            result = self._work.handle(item)
            admission = self._work.pass_on(result)
            if admission is not None:
                admission.wait()
        except BaseException as error:  # noqa: BLE001 - it is the reply
            self._work.fail(reply, error)
        else:
            reply.set_result(result)
