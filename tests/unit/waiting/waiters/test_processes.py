"""Queues at the end of their process, and in the child of a fork: programs of their own."""

from __future__ import annotations

import os
import pickle
import textwrap

import pytest

from spark_queue.memory.waiting.processes import Owner
from tests.programs import run_python

IMPORTS = """
import os, sys, threading
from spark_queue.memory.broker import QueueBroker
from spark_queue.memory.singular import SingularUpdateQueue, WorkerPool
from spark_queue.errors import QueueShutDownError
"""


def said_by(program: str) -> str:
    """Run a program, and return what it prints and logs."""
    ended = run_python("-W", "ignore", "-c", IMPORTS + textwrap.dedent(program), check=True)
    return ended.stdout + ended.stderr


def test_requests_that_end_with_their_process_are_told_of() -> None:
    """A process that ends without a shutdown says how many accepted requests it drops."""
    said = said_by("""
        begun = threading.Event()
        busy = SingularUpdateQueue(lambda _: begun.set() or threading.Event().wait(), name="busy")
        busy.start()
        for number in range(3):
            busy.submit(number)
        begun.wait(30)
        SingularUpdateQueue(str, name="idle").start()
        with SingularUpdateQueue(str, name="done") as done:
            done.submit(1)
    """)
    assert "queue 'busy' ends with its process: 2 accepted request(s) are not handled" in said
    assert said.count("ends with its process") == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_child_process_waits_for_no_thread_of_its_parent() -> None:
    """After a fork a used broker begins afresh, and a started queue refuses requests by name."""
    said = said_by("""
        gate = threading.Event()
        broker, pool = QueueBroker(1), WorkerPool(1)
        fresh = SingularUpdateQueue(str, name="fresh")
        early = fresh.submit("early")
        used = SingularUpdateQueue(lambda item: item and gate.wait(30), name="used")
        used.start()
        assert used.submit(0).result() == 0
        running = broker.enqueue(lambda turn: gate.wait(30), "G")
        waiting = broker.enqueue(lambda turn: "parent's", "G")
        left = [used.submit(1), used.submit(2)]
        if os.fork() == 0:
            print(broker.enqueue(lambda turn: "a task of the child", "G").result(30))
            print(broker.active_count, broker.waiting_count)
            broker.stop()
            for refused in (used.submit, lambda _: SingularUpdateQueue(str, pool=pool).start()):
                try:
                    refused(3)
                except QueueShutDownError as error:
                    print(error)
            used.shutdown()
            fresh.start()
            print(early.result(30), fresh.is_running, used.is_running)
            fresh.shutdown()
            sys.stdout.flush()
            os._exit(0)
        os.wait()
        gate.set()
        print(running.result(30), waiting.result(30), [reply.result(30) for reply in left])
        used.shutdown()
        fresh.shutdown()
        pool.shutdown()
        broker.stop()
    """)
    assert said.splitlines() == [
        "a task of the child",
        "0 0",
        "queue 'used' was started before this process was forked: make one here",
        "the pool is shut down, or is that of a parent process",
        "early True False",
        "True parent's [True, True]",
    ]


def test_a_copy_by_pickle_is_of_the_process_that_has_it() -> None:
    """A process that was sent what another one uses, as by Spark Connect, is no child of a fork."""
    sent = pickle.dumps(Owner("it")).hex()
    program = f"import pickle; pickle.loads(bytes.fromhex({sent!r})).require()"
    run_python("-c", program, check=True)
