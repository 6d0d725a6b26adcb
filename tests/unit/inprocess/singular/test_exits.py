from __future__ import annotations

import contextlib
from typing import Any

import pytest

from spark_queue.errors import QueueShutDownError
from spark_queue.memory.singular import SingularUpdateQueue, WorkerPool
from tests.unit.inprocess.singular.test_requests import Gate
from tests.unit.threads import in_thread, until


@pytest.mark.parametrize("drives", ["thread", "pool"])
def test_a_stop_answers_all_though_callbacks_exit(drives: str) -> None:
    """SU-13: every request fails, every waiting producer is refused, and the worker ends."""

    def exits(_: Any) -> None:
        raise SystemExit

    gate = Gate()
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(WorkerPool(1)) if drives == "pool" else None
        queue = SingularUpdateQueue(gate, capacity=3, pool=pool)
        queue.start()
        first = queue.submit(1)
        gate.wait()
        left = [queue.submit(number) for number in range(3)]
        producer, refused = in_thread(lambda: queue.submit(4))
        until(lambda: queue.work.line.blocked == 1)
        for reply in (first, *left):
            reply.add_done_callback(exits)
        gate.open()
        assert first.result(timeout=10) == 1
        for reply in left:
            assert isinstance(reply.exception(timeout=10), QueueShutDownError)
        producer.join(10)
        assert isinstance(refused[0], QueueShutDownError)
        in_thread(queue.shutdown)[0].join(10)
        assert not queue.is_running
        if pool is not None:
            with SingularUpdateQueue(str, pool=pool) as other:
                assert other.submit(1).result(timeout=10) == "1"
