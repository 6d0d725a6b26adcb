"""Dispatcher of a broker: start, end and refusal of tasks."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from spark_queue.checks import require_key
from spark_queue.errors import DeadlockError, QueueFullError, QueueShutDownError, TaskExpiredError
from spark_queue.memory.broker.turn import Turn
from spark_queue.memory.broker.turn_scheduler import TaskScheduler
from spark_queue.memory.waiting.abort import AbortSignal
from spark_queue.memory.waiting.timer import Alarm, Timeout, Timer
from spark_queue.memory.waiting.waiters import LineFuture, WaiterLine, call_each, leads_to

_STOPPED = "the broker was stopped"


@dataclass(slots=True)
class _Step:
    """Decisions made under the lock, to be carried out without it."""

    started: list[Turn] = field(default_factory=list)
    expired: list[Turn] = field(default_factory=list)


class Dispatcher:
    """Moves tasks from waiting to active to ended, one step at a time.

    Each step is decided under the lock and carried out after it: no task, callback or listener
    ever runs under the lock. A task that may start is started in the step that makes it so.
    """

    def __init__(
        self,
        scheduler: TaskScheduler[Turn],
        *,
        max_active: float,
        max_waiting: float,
        max_idle: float | None,
        manual: bool,
        timer: Timer,
    ) -> None:
        self.lock = threading.Lock()
        self.scheduler = scheduler
        self._max_active = max_active
        self._max_waiting = max_waiting
        self._max_idle = max_idle
        self._manual = manual
        self._timer = timer
        self._alarm: Alarm | None = None
        self._running: set[Turn] = set()
        self._idle_line: WaiterLine[None] = WaiterLine(timer)
        self.stopped = False

    @property
    def running_count(self) -> int:
        """How many tasks have not returned, released early or not."""
        return len(self._running)

    def running(self) -> list[Turn]:
        """Return the tasks that have started and not ended."""
        with self.lock:
            return list(self._running)

    def admit(self, turn: Turn) -> None:
        """Start a task, or let it wait.

        Raises
        ------
        QueueFullError
            When it cannot start at once and too many wait.
        QueueShutDownError
            When the broker was stopped.
        InvalidArgumentError
            When the group cannot be hashed.
        BaseException
            The reason of the caller's signal, when it is aborted already.
        """
        if turn.group is not None:
            require_key("group", turn.group)
        if turn.parent is not None:
            turn.parent.raise_if_aborted()
        with self.lock:
            step = _Step(expired=self._expire())
            refusal = self._refusal(turn)
            if refusal is None:
                deadline = self._max_idle and self._timer.now() + self._max_idle
                self.scheduler.enqueue(turn, turn.group, deadline)
                self._start_ready(step)
        self._carry_out(step)
        if refusal is not None:
            raise refusal
        if turn.parent is not None:
            self._listen(turn, turn.parent)

    def _refusal(self, turn: Turn) -> Exception | None:
        if self.stopped:
            return QueueShutDownError(_STOPPED)
        waiting = len(self.scheduler)
        if waiting < self._max_waiting:
            return None
        starts = self._has_slot() and self.scheduler.is_free(turn.group)
        return None if starts else QueueFullError(turn.task, waiting)

    def _has_slot(self) -> bool:
        return self.scheduler.active_count < self._max_active

    def _listen(self, turn: Turn, signal: AbortSignal) -> None:
        leave = signal.listen(lambda reason: self.abort(turn, reason))
        turn.future.add_done_callback(lambda _: leave())

    def _start_ready(self, step: _Step) -> None:
        scheduler = self.scheduler
        while self._has_slot():
            turn = scheduler.take_next()
            if turn is None:
                break
            turn.started = True
            turn.future.set_running_or_notify_cancel()
            self._running.add(turn)
            step.started.append(turn)
        self._set_alarm()

    def _set_alarm(self) -> None:
        if self._max_idle is None:
            return
        when = self.scheduler.next_expiration()
        if when is not None and self._alarm is None:
            self._alarm = self._timer.call_at(when, self._on_alarm)
        elif when is None and self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _on_alarm(self) -> None:
        with self.lock:
            self._alarm = None
            step = _Step(expired=self._expire())
            self._start_ready(step)
        self._carry_out(step)

    def _expire(self) -> list[Turn]:
        if self._max_idle is None or not len(self.scheduler):
            return []
        expired = self.scheduler.expire(self._timer.now())
        for turn in expired:
            turn.settled = True
        return expired

    def release(self, turn: Turn) -> None:
        """Free the slot and the group of a task, and start what that lets start."""
        with self.lock:
            step = self._free(turn)
        self._carry_out(step)

    def _free(self, turn: Turn) -> _Step:
        step = _Step()
        if turn.started and not turn.released:
            turn.released = True
            self.scheduler.complete(turn)
            step.expired = self._expire()
            self._start_ready(step)
        return step

    def finish(self, turn: Turn, result: object, error: BaseException | None) -> list[Turn]:
        """End a task, and return the tasks to launch now.

        Without effect on one that was ended before, as by the end of its event loop.
        """
        with self.lock:
            if turn.ended:
                return []
            turn.ended = True
            step = _Step() if self._manual else self._free(turn)
            settles, turn.settled = not turn.settled, True
        turn.exit()
        if step.expired or turn.future.watched:
            # Callbacks are foreign code and may wait for what starts now, which must not wait
            # for them then.
            self.launch(step.started)
            conclude = partial(self._conclude, turn, result, error, settles=settles)
            call_each([partial(self._reject_expired, step.expired), conclude])
            return []
        try:
            self._conclude(turn, result, error, settles=settles)
        except BaseException:
            # A callback was added just now, and ends this thread.
            self.launch(step.started)
            raise
        return step.started

    def _conclude(
        self, turn: Turn, result: object, error: BaseException | None, *, settles: bool
    ) -> None:
        try:
            if settles:
                _settle(turn, result, error)
        finally:
            self._leave(turn)

    def _leave(self, turn: Turn) -> None:
        # After its future is settled, so that all futures are when nothing runs any more.
        turn.future.turn = None
        with self.lock:
            self._running.discard(turn)
        self.tell_if_idle()

    def launch(self, turns: Iterable[Turn]) -> None:
        """Run tasks on their runners; a task that cannot run ends."""
        pending = deque(turns)
        while pending:
            turn = pending.popleft()
            try:
                turn.runner.launch(turn)
            except Exception as error:  # noqa: BLE001 - no thread, or no loop any more
                try:
                    pending.extend(self._lose(turn, error))
                except BaseException:
                    self.launch(pending)
                    raise

    def lose(self, turn: Turn, error: BaseException) -> None:
        """End a task that its runner will not end."""
        self.launch(self._lose(turn, error))

    def _lose(self, turn: Turn, error: BaseException) -> list[Turn]:
        with self.lock:
            # A task that never had its turn has none to release.
            step = self._free(turn) if turn.thread is None else _Step()
        started = step.started

        def finish() -> None:
            started.extend(self.finish(turn, None, error))

        try:
            call_each([partial(self._reject_expired, step.expired), finish])
        except BaseException:
            self.launch(started)
            raise
        return started

    def abort(self, turn: Turn, reason: BaseException) -> None:
        """Reject a task: a waiting one never runs, a running one gets a signal."""
        with self.lock:
            waited = self.scheduler.remove(turn)
            settles, turn.settled = not turn.settled, True
            if waited:
                self._set_alarm()
        try:
            if settles:
                turn.future.set_exception(reason)
        finally:
            self.tell_if_idle()

    def withdraw(self, turn: Turn) -> bool:
        """Take a waiting task out for a cancel; ``False`` when it does not wait.

        The caller settles its future, and then tells whether all is idle.
        """
        with self.lock:
            waited = self.scheduler.remove(turn)
            turn.settled = turn.settled or waited
            if waited:
                self._set_alarm()
        return waited

    def close(self, *, force: bool) -> None:
        """Refuse new tasks and reject waiting ones; ``force`` signals the running ones to stop."""
        with self.lock:
            self.stopped = True
            waiting = self.scheduler.clear()
            running = list(self._running) if force else []
            for turn in waiting:
                turn.settled = True
            self._set_alarm()
        why = QueueShutDownError
        rejects = [partial(turn.future.set_exception, why(_STOPPED)) for turn in waiting]
        aborts = [partial(turn.scope().abort, why(_STOPPED)) for turn in running]
        call_each([*rejects, *aborts, self.tell_if_idle])

    def idle(self, timeout: Timeout = None) -> LineFuture[None]:
        """Return a future that is done when nothing runs and nothing waits."""
        future: LineFuture[None] = LineFuture()
        future.join(self._idle_line, lambda: TimeoutError("tasks still run or wait"), timeout)
        self.tell_if_idle()
        return future

    def tell_if_idle(self) -> None:
        """End the waits for idleness once no task runs or waits."""
        if self._running or len(self.scheduler) or not len(self._idle_line):
            return
        with self.lock:
            is_idle = not self._running and not len(self.scheduler)
        if is_idle:
            self._idle_line.trigger_all(None)

    def begin_wait(self, mine: Turn, target: Turn) -> None:
        """Note that a running task waits for another.

        Raises
        ------
        DeadlockError
            When that could only end after the running one has ended.
        """
        with self.lock:
            # Noted before the check, so that of two who close a circle at once one sees the other.
            mine.waits_for = target
            if leads_to(mine, target, self._blocker) or self._is_starved():
                mine.waits_for = None
                raise DeadlockError(
                    f"a task of group {mine.group!r} waits for one that can only start after it: "
                    "release the turn first, or do not wait"
                )

    def _blocker(self, turn: Turn) -> Turn | None:
        """Return what a task waits for; before its start that is the active one of its group."""
        return turn.waits_for if turn.started else self.scheduler.holder(turn.group)

    def _is_starved(self) -> bool:
        """Whether every slot is held by a task that waits for one without a slot."""
        if self._has_slot():
            return False
        waited_for = [turn.waits_for for turn in self.scheduler.active]
        return all(target is not None and not target.started for target in waited_for)

    def _carry_out(self, step: _Step) -> None:
        if step.expired:
            reject = partial(self._reject_expired, step.expired)
            call_each([reject, partial(self.launch, step.started)])
        elif step.started:
            self.launch(step.started)

    def _reject_expired(self, expired: list[Turn]) -> None:
        if expired:
            why = f"not started within the maximum waiting time of {self._max_idle} s"
            rejects = [
                partial(turn.future.set_exception, TaskExpiredError(why)) for turn in expired
            ]
            call_each([*rejects, self.tell_if_idle])


def _settle(turn: Turn, result: object, error: BaseException | None) -> None:
    if error is None:
        turn.future.set_result(result)
    else:
        turn.future.set_exception(error)
