from __future__ import annotations

import ctypes
import gc
import socket
import socketserver
import threading
import weakref
from collections import deque
from concurrent.futures import CancelledError, Future
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from spark_queue.errors import (
    InvalidArgumentError,
    QueueFullError,
    QueueShutDownError,
    SparkQueueError,
)
from spark_queue.memory.singular import SingularUpdateQueue, WriteAheadLog
from spark_queue.memory.waiting.timer import ManualTimer
from tests.unit.threads import in_thread, together, until


class Gate:
    """A handler that stops at each request until it is opened, and writes down what it saw."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.opened = threading.Semaphore(0)
        self.seen: list[Any] = []

    def __call__(self, item: Any) -> Any:
        """Handle a request."""
        self.entered.release()
        assert self.opened.acquire(timeout=10)
        self.seen.append(item)
        return item

    def open(self, times: int = 1) -> None:
        """Let so many requests pass."""
        for _ in range(times):
            self.opened.release()

    def wait(self) -> None:
        """Wait until a request stands at the gate."""
        assert self.entered.acquire(timeout=10)


def test_requests_before_the_start_wait_and_are_answered_in_order() -> None:
    """SU-01: 50 requests are accepted before the start, and answered in their order after it."""
    done: list[int] = []
    queue: SingularUpdateQueue[int, int] = SingularUpdateQueue(lambda x: x)
    replies = [queue.submit(number) for number in range(50)]
    for number, reply in enumerate(replies):
        reply.add_done_callback(lambda _, number=number: done.append(number))  # type: ignore[misc]
    assert queue.task_count == 50
    assert not any(reply.done() for reply in replies)
    assert not queue.is_running
    queue.start()
    assert [reply.result(timeout=10) for reply in replies] == list(range(50))
    queue.shutdown()
    assert done == list(range(50))


def test_one_handler_call_at_a_time_in_each_producers_order() -> None:
    """SU-02: with many producers the handler never overlaps, and keeps each one's order."""
    inside: list[int] = []
    overlaps: list[int] = []
    seen: list[tuple[int, int]] = []

    def handler(item: tuple[int, int]) -> None:
        inside.append(1)
        overlaps.append(len(inside))
        seen.append(item)
        inside.pop()

    def produce(producer: int) -> None:
        for number in range(300):
            queue.submit((producer, number))

    with SingularUpdateQueue(handler, capacity=8) as queue:
        together(*(partial(produce, producer) for producer in range(6)))
    assert set(overlaps) == {1}
    for producer in range(6):
        assert [n for p, n in seen if p == producer] == list(range(300))


def test_a_server_answers_through_a_queue() -> None:
    """SU-05: a server whose handler is such a queue answers a request over TCP."""
    with SingularUpdateQueue[bytes, bytes](lambda line: b"got " + line) as queue:

        class Connection(socketserver.StreamRequestHandler):
            """Sends what the queue replies."""

            def handle(self) -> None:
                """Answer one line."""
                self.wfile.write(queue.submit(self.rfile.readline()).result(timeout=10))

        with socketserver.TCPServer(("127.0.0.1", 0), Connection) as server:
            thread, _ = in_thread(server.handle_request)
            address = cast("tuple[str, int]", server.server_address)
            with socket.create_connection(address, timeout=10) as client:
                client.sendall(b"hello\n")
                assert client.makefile("rb").read() == b"got hello\n"
            thread.join()


def test_a_record_is_readable_once_its_reply_came(tmp_path: Path) -> None:
    """SU-06: after the reply to a write, the record can be read from the file."""
    with WriteAheadLog[str](tmp_path / "log") as log, SingularUpdateQueue(log.append) as queue:
        queue.submit("WAL").result(timeout=10)
        with WriteAheadLog[str](tmp_path / "log", sync="never") as reader:
            assert list(reader.replay()) == ["WAL"]


def test_two_records_are_readable_in_order(tmp_path: Path) -> None:
    """SU-07: after the replies to two writes, both records can be read."""
    with WriteAheadLog[str](tmp_path / "log") as log, SingularUpdateQueue(log.append) as queue:
        replies = [queue.submit("WAL"), queue.submit("RAFT")]
        for reply in replies:
            reply.result(timeout=10)
        assert list(log.replay()) == ["WAL", "RAFT"]


def test_a_prepared_call_can_be_submitted() -> None:
    """SU-09: with a handler that calls what it gets, prepared calls are requests."""
    prepared = [lambda: "first", lambda: "second"]
    with SingularUpdateQueue[Any, str](lambda call: call()) as queue:
        assert [queue.submit(call).result(timeout=10) for call in prepared] == ["first", "second"]


def test_every_gift_is_given_once() -> None:
    """SU-10: of many fire-and-forget requests each takes the first free gift, and none twice."""
    count = 40_000
    free, given = deque(range(count)), list[int]()

    def give(_: None) -> None:
        given.append(free.popleft())

    with SingularUpdateQueue(give, capacity=count) as queue:
        together(*[lambda: [queue.submit(None) for _ in range(count // 4)]] * 4)
    assert given == list(range(count))


def test_every_caller_gets_a_gift_of_its_own() -> None:
    """SU-11: of 10,000 calls that wait for their reply all succeed, with distinct gifts."""
    free = deque(range(10_000))
    gifts: list[list[int]] = [[] for _ in range(20)]

    def ask(mine: list[int]) -> None:
        mine.extend(queue.submit(None).result(timeout=30) for _ in range(500))

    with SingularUpdateQueue[None, int](lambda _: free.popleft()) as queue:
        together(*(partial(ask, mine) for mine in gifts))
    assert sorted(gift for mine in gifts for gift in mine) == list(range(10_000))


def test_an_error_is_the_reply_and_the_next_request_is_served() -> None:
    """SU-12: when the handler raises, its future fails with that very error; the next goes on."""
    error = ValueError("no")

    def handler(item: int) -> int:
        if item == 1:
            raise error
        return item

    with SingularUpdateQueue(handler) as queue:
        failed = queue.submit(1)
        assert queue.submit(3).result(timeout=10) == 3
        assert failed.exception(timeout=10) is error


@pytest.mark.parametrize("fatal", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_a_fatal_error_stops_the_queue_and_nobody_hangs(fatal: type[BaseException]) -> None:
    """SU-13: a fatal error fails its future, stops the queue, and fails what is left."""
    entered, leave = threading.Event(), threading.Event()

    def handler(_: Any) -> None:
        entered.set()
        leave.wait(10)
        raise fatal("the end")

    queue = SingularUpdateQueue(handler, capacity=2)
    queue.start()
    first = queue.submit(1)
    assert entered.wait(10)
    left = [queue.submit(2), queue.submit(3)]
    thread, ended = in_thread(lambda: queue.submit(4))
    until(lambda: queue.work.line.blocked == 1)
    leave.set()
    assert isinstance(first.exception(timeout=10), fatal)
    for reply in left:
        assert isinstance(reply.exception(timeout=10), QueueShutDownError)
    thread.join(timeout=10)
    assert isinstance(ended[0], QueueShutDownError)
    with pytest.raises(QueueShutDownError, match="the end"):
        queue.submit(5)
    queue.shutdown()
    assert not queue.is_running


def test_a_producer_waits_while_all_slots_are_taken() -> None:
    """SU-15: with a busy worker 100 requests fit at once, and the 101st waits for a slot."""
    gate = Gate()
    with SingularUpdateQueue(gate) as queue:
        queue.submit("busy")
        gate.wait()
        for number in range(100):
            queue.submit_nowait(number)
        assert queue.task_count == 100
        thread, ended = in_thread(lambda: queue.submit("late"))
        until(lambda: queue.work.line.blocked == 1)
        assert ended == []
        gate.open()
        thread.join(timeout=10)
        assert isinstance(ended[0], Future)
        assert queue.task_count == 100
        gate.open(101)
        assert ended[0].result(timeout=10) == "late"
    assert gate.seen == ["busy", *range(100), "late"]


def test_blocked_producers_enter_first_come_first_served() -> None:
    """SU-15: a slot goes to the producer that waits longest, whoever else comes by."""
    gate = Gate()
    with SingularUpdateQueue(gate, capacity=1) as queue:
        queue.submit("busy")
        gate.wait()
        queue.submit("queued")
        producers = []
        for name in ("a", "b", "c"):
            producers.append(in_thread(partial(queue.submit, name)))
            until(lambda: queue.work.line.blocked == len(producers))
        with pytest.raises(QueueFullError):
            queue.submit_nowait("pushy")
        gate.open(5)
        for thread, _ in producers:
            thread.join(timeout=10)
    assert gate.seen == ["busy", "queued", "a", "b", "c"]


def test_none_is_a_request_and_a_reply() -> None:
    """SU-20: a null request is handled and a null reply completes the future."""
    with SingularUpdateQueue[Any, Any](lambda x: x) as queue:
        reply = queue.submit(None)
        assert reply.result(timeout=10) is None
        assert reply.done()


def test_an_interrupted_idle_worker_serves_the_next_request() -> None:
    """SU-22: an exception raised into the idle worker's thread does not end it."""
    with SingularUpdateQueue[int, int](lambda _: threading.get_ident()) as queue:
        worker = queue.submit(1).result(timeout=10)
        for _ in range(3):
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(worker), ctypes.py_object(ValueError)
            )
            queue.work.line.wake()
            assert queue.submit(2).result(timeout=10) == worker


def test_a_wake_up_without_a_request_does_no_harm() -> None:
    """SU-22: a worker that is woken for nothing goes on waiting."""
    with SingularUpdateQueue[int, int](lambda x: x) as queue:
        for number in range(50):
            queue.work.line.wake()
            assert queue.submit(number).result(timeout=10) == number


def test_callbacks_run_where_concurrent_futures_run_them() -> None:
    """SU-23: a callback added in time runs on the worker, a late one on the thread that adds it."""
    gate = Gate()
    where: list[int] = []
    with SingularUpdateQueue[int, int](lambda x: (gate(x), threading.get_ident())[1]) as queue:
        reply = queue.submit(1)
        gate.wait()
        reply.add_done_callback(lambda _: where.append(threading.get_ident()))
        gate.open()
        worker = reply.result(timeout=10)
        queue.submit(2)
        gate.open()
        queue.shutdown()
        reply.add_done_callback(lambda _: where.append(threading.get_ident()))
    assert where == [worker, threading.get_ident()]
    assert worker != threading.get_ident()


def test_a_callback_that_ends_its_thread_leaves_nobody_waiting() -> None:
    """SU-13: a fatal error of a callback stops the queue, and every future resolves."""
    gate = Gate()
    queue = SingularUpdateQueue(gate)
    queue.start()
    first, second = queue.submit(1), queue.submit(2)
    gate.wait()

    def fatal(_: Any) -> None:
        raise SystemExit

    first.add_done_callback(fatal)
    gate.open()
    assert first.result(timeout=10) == 1
    assert isinstance(second.exception(timeout=10), QueueShutDownError)
    queue.shutdown()


def test_submitting_without_waiting_refuses_when_full() -> None:
    """SU-26: submit_nowait raises when all slots are taken, with the item and the size."""
    queue: SingularUpdateQueue[str, str] = SingularUpdateQueue(str, capacity=2)
    queue.submit_nowait("a")
    queue.submit_nowait("b")
    with pytest.raises(QueueFullError) as refused:
        queue.submit_nowait("c")
    assert (refused.value.item, refused.value.size) == ("c", 2)
    assert queue.task_count == 2
    queue.shutdown()


def test_submitting_waits_no_longer_than_it_may() -> None:
    """SU-26: a submit whose time is up is refused, and leaves neither a request nor a waiter."""
    timer = ManualTimer()
    queue: SingularUpdateQueue[str, str] = SingularUpdateQueue(str, capacity=1, timer=timer)
    queue.submit("a")
    thread, ended = in_thread(lambda: queue.submit("b", timeout=5))
    until(lambda: queue.work.line.blocked == 1)
    until(lambda: len(timer) == 1)
    timer.advance(5)
    thread.join(timeout=10)
    assert isinstance(ended[0], QueueFullError)
    assert (queue.task_count, queue.work.line.blocked) == (1, 0)
    queue.shutdown()


def test_a_cancelled_request_is_skipped() -> None:
    """A request that is cancelled before its turn is not handled, one under way is."""
    gate = Gate()
    with SingularUpdateQueue(gate) as queue:
        first, second, third = (queue.submit(number) for number in range(3))
        gate.wait()
        assert not first.cancel()
        assert second.cancel()
        gate.open(2)
        assert third.result(timeout=10) == 2
        with pytest.raises(CancelledError):
            second.result(timeout=10)
    assert gate.seen == [0, 2]


def test_a_negative_timeout_is_refused() -> None:
    """A negative timeout is an error and nothing is queued."""
    queue: SingularUpdateQueue[str, str] = SingularUpdateQueue(str)
    with pytest.raises(InvalidArgumentError, match="timeout"):
        queue.submit("a", timeout=-1)
    assert queue.task_count == 0
    queue.shutdown()


def test_a_second_start_is_an_error() -> None:
    """SU-19: a queue is started once; a second start changes nothing."""
    with SingularUpdateQueue[int, int](lambda x: x) as queue:
        with pytest.raises(SparkQueueError, match="started before"):
            queue.start()
        assert queue.submit(1).result(timeout=10) == 1


def test_no_memory_of_the_last_request_is_kept() -> None:
    """An idle worker does not keep the last request alive."""

    class Big:
        """A request."""

    with SingularUpdateQueue[Any, None](lambda _: None) as queue:
        item = Big()
        alive = weakref.ref(item)
        queue.submit(item).result(timeout=10)
        del item
        queue.submit(None).result(timeout=10)
        gc.collect()
        assert alive() is None


def test_the_text_form_counts() -> None:
    """The text form names the queue and says what waits."""
    queue: SingularUpdateQueue[str, str] = SingularUpdateQueue(str, name="accounts")
    queue.submit("a")
    assert repr(queue) == "<SingularUpdateQueue 'accounts' running=False tasks=1 blocked=0>"
    queue.shutdown()
