"""The right to write to a table, where processes are interrupted or forked, and files replaced."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from spark_queue.errors import FileAccessError, WriterLockedError
from spark_queue.log.disk import jvms, write_lock
from spark_queue.log.disk.write_lock import holder, holding, is_held
from tests.unit.delta.others import (
    WITHOUT_LOCKS,
    enter,
    in_a_thread,
    is_locked,
    other,
    refused,
    said_by,
    until,
)

_HOLDER = """
    with holding("q", d):
        tell("held")
        hear()
"""


def test_an_interrupted_wait_leaves_nothing_locked(tmp_path: Path) -> None:
    """Whoever waits and gets SIGINT is out, with its threads and the gate."""
    program = """
        try:
            with holding("q", d):
                tell("in")
        except KeyboardInterrupt:
            tell("interrupted")
        hear()
        def enter():
            with holding("q", d, timeout=0):
                tell("entered")
        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
    """
    with other(tmp_path, program) as waiting:
        with holding("q", tmp_path):
            until(lambda: is_locked(tmp_path / "_writer.next"))
            waiting.process.send_signal(signal.SIGINT)
            assert waiting.hear() == "interrupted"
            assert not is_locked(tmp_path / "_writer.next")
        enter(tmp_path)
        waiting.tell()
        assert waiting.end() == ["entered"]


def test_an_interrupt_at_any_moment_leaves_nothing_locked(tmp_path: Path) -> None:
    """Coming in, inside or going out: whoever is interrupted has given everything up."""
    program = """
        class Stop(BaseException):
            pass

        def stop(number, frame):
            global is_armed
            if is_armed:
                is_armed = False
                raise Stop

        def enter():
            with holding("q", d, timeout=0):
                pass

        def enter_and_stop():
            global is_armed
            try:
                is_armed = True
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-6, 1e-4))
                enter()
            finally:
                is_armed = False
                signal.setitimer(signal.ITIMER_REAL, 0)

        signal.signal(signal.SIGALRM, stop)
        chance, is_armed, stopped = random.Random(7), False, 0
        for _ in range(3000):
            try:
                enter_and_stop()
            except Stop:
                stopped += 1
            assert not is_held(d)
            enter()
            assert not is_held(d)
        thread = threading.Thread(target=lambda: (enter(), tell("entered")))
        thread.start()
        thread.join()
        tell(stopped > 300)
    """
    assert said_by(tmp_path, program) == ["entered", "True"]


def test_whoever_waits_goes_in_by_the_file_that_is_there_now(tmp_path: Path) -> None:
    """A lock file that was replaced holds up nobody: who has locked the old one has nothing."""
    with other(tmp_path, _HOLDER) as held:
        assert held.hear() == "held"
        waiting = threading.Thread(target=enter, args=(tmp_path, 20))
        waiting.start()
        until(lambda: is_locked(tmp_path / "_writer.next"))
        (tmp_path / "_writer.lock").unlink()
        waiting.join(10)

        assert not waiting.is_alive()
        assert held.process.poll() is None
    assert holder(tmp_path) == os.getpid()


_DRIVER = """
    from spark_queue.log.disk import jvms
    from spark_queue.log.disk.write_lock import leave_behind

    with holding("q", d):
        leave_behind(d, lambda: jvms.trace(int(sys.argv[2])))
        tell("held")
        hear()
    tell("left")
    hear()
"""


def test_the_jvm_of_a_killed_driver_is_waited_for(tmp_path: Path) -> None:
    """Until it has ended nobody else writes: its commit would take the place of another's."""
    with other(tmp_path, "hear()") as jvm:
        with other(tmp_path, _DRIVER, str(jvm.pid)) as driver:
            assert driver.hear() == "held"
            driver.kill()
        with pytest.raises(WriterLockedError) as refusal:
            enter(tmp_path, timeout=0.05)
        assert refusal.value.pid == jvm.pid
        jvm.kill()
        enter(tmp_path)


def test_the_jvm_of_a_driver_that_was_done_is_not_waited_for(tmp_path: Path) -> None:
    """Whoever gives up its turn has nothing on the way, and what runs on concerns nobody."""
    with other(tmp_path, "hear()") as jvm, other(tmp_path, _DRIVER, str(jvm.pid)) as driver:
        assert driver.hear() == "held"
        driver.tell()
        assert driver.hear() == "left"
        driver.kill()
        enter(tmp_path)


def test_a_jvm_is_left_behind_only_by_who_writes(tmp_path: Path) -> None:
    """Without the turn nothing is noted; and a process of the same pid is another one."""
    write_lock.leave_behind(tmp_path, lambda: jvms.trace(os.getpid()))
    write_lock.leave_behind(None, lambda: jvms.trace(os.getpid()))
    assert list(tmp_path.iterdir()) == []
    mine = jvms.trace(os.getpid())
    assert jvms.still_running(mine) == os.getpid()
    assert jvms.still_running(b"%-20d%-20d" % (os.getpid(), 1)) is None
    assert jvms.still_running(jvms.NOBODY) is jvms.still_running(b"") is None
    assert jvms.trace(2**22 + 1) == jvms.NOBODY


def test_a_lock_file_that_is_removed_between_steps_is_made_again(tmp_path: Path) -> None:
    """The next step is as safe as the one before: another process finds the same file."""
    enter(tmp_path)
    for name in ("_writer.lock", "_writer.next"):
        (tmp_path / name).unlink()

    with holding("q", tmp_path):
        assert refused(tmp_path) == os.getpid()


def test_a_lock_file_that_is_removed_while_held_is_held_again_when_asked(tmp_path: Path) -> None:
    """Whoever finds that others cannot see its lock does not go on without one."""
    with holding("q", tmp_path):
        (tmp_path / "_writer.lock").unlink()
        assert not is_held(tmp_path)
        with holding("q", tmp_path):
            assert is_held(tmp_path)
            assert refused(tmp_path) == os.getpid()
    assert refused(tmp_path) is None


def test_a_directory_that_is_made_anew_is_another_table(tmp_path: Path) -> None:
    """A lock on what was removed is not one on what is there now."""
    directory = tmp_path / "status"
    directory.mkdir()
    with holding("q", directory):
        directory.rename(tmp_path / "old")
        directory.mkdir()
        assert not is_held(directory)
        assert in_a_thread(lambda: enter(directory)) is None


def test_a_directory_that_goes_while_one_waits_is_named(tmp_path: Path) -> None:
    """Nobody waits for a table that is not there, and nothing is made in its place."""
    directory = tmp_path / "status"
    directory.mkdir()

    def remove() -> None:
        until(lambda: is_locked(directory / "_writer.next"))
        directory.rename(tmp_path / "removed")

    with other(directory, _HOLDER) as held:
        assert held.hear() == "held"
        remover = threading.Thread(target=remove)
        remover.start()
        with pytest.raises(FileNotFoundError, match=r"status/_writer\.lock"):
            enter(directory, timeout=20)
        remover.join()
    with pytest.raises(FileNotFoundError, match="status"):
        enter(directory)
    assert not directory.exists()


def test_what_cannot_be_opened_is_named(tmp_path: Path) -> None:
    """Who finds something else in the place of a lock file learns where."""
    file = tmp_path / "status"
    file.touch()
    with pytest.raises(FileAccessError, match=r"status/_writer\.next"):
        enter(file)
    (tmp_path / "_writer.lock").mkdir()
    with pytest.raises(FileAccessError, match=r"_writer\.lock"):
        enter(tmp_path)
    assert not is_locked(tmp_path / "_writer.next")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    """Who may only read cannot hold a table."""
    tmp_path.chmod(0o500)
    with pytest.raises(FileAccessError, match=r"_writer\.next"):
        enter(tmp_path)


def test_a_full_disk_keeps_nobody_out(tmp_path: Path) -> None:
    """Where no pid can be written, the lock holds as well, and names nobody."""
    program = """
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        with holding("q", d):
            tell(is_held(d), holder(d))
    """
    assert said_by(tmp_path, program) == ["True None"]


def test_a_child_holds_nothing_of_its_parent(tmp_path: Path) -> None:
    """A fork in the middle of a step neither ends that step nor lives on it."""
    program = """
        with holding("q", d):
            if os.fork() > 0:
                time.sleep(60)
            try:
                with holding("q", d, timeout=0.05):
                    tell("in")
            except WriterLockedError as error:
                tell(is_held(d), error.pid == os.getppid())
        tell("out")
        hear()
    """
    with other(tmp_path, program) as parent:
        assert [parent.hear(), parent.hear()] == ["False True", "out"]
        assert refused(tmp_path) == parent.pid
        parent.kill()
        began = time.monotonic()
        enter(tmp_path, timeout=10)
        assert time.monotonic() - began < 0.5
        # Until now the child has waited to be told.
        parent.tell()


def test_a_child_that_knows_of_no_fork_holds_nobody_up(tmp_path: Path) -> None:
    """The end of a step is the end of its lock, though a copy of the file is open elsewhere."""
    program = """
        import ctypes

        with holding("q", d):
            if ctypes.CDLL(None).fork() == 0:
                hear()
                os._exit(0)
        tell("out")
        time.sleep(60)
    """
    with other(tmp_path, program) as parent:
        assert parent.hear() == "out"
        enter(tmp_path)


def test_a_child_is_free_of_what_threads_of_its_parent_held(tmp_path: Path) -> None:
    """What a thread held that is not in the child is not held there for ever."""
    program = """
        held, is_over = threading.Event(), threading.Event()

        def keep():
            with holding("q", d), holding("shared", None):
                held.set()
                is_over.wait()

        def enter():
            with holding("q", d, timeout=20):
                tell("local")

        threading.Thread(target=keep).start()
        held.wait()
        child = os.fork()
        if child == 0:
            with holding("shared", None, timeout=5):
                tell("shared")
            hear()
            thread = threading.Thread(target=enter)
            thread.start()
            thread.join(20)
            os._exit(0)
        is_over.set()
        os.waitpid(child, 0)
    """
    with other(tmp_path, program) as parent:
        assert parent.hear() == "shared"
        parent.tell()
        assert parent.end() == ["local"]


def test_without_locks_a_local_table_is_refused(tmp_path: Path) -> None:
    """Nobody goes on unlocked where the system has no flock; a shared store needs none."""
    program = """
        try:
            with holding("q", d):
                tell("in")
        except SetupError as error:
            tell(error)
        with holding("q", None):
            tell("shared")
    """
    refusal, shared = said_by(tmp_path, program, first=WITHOUT_LOCKS)

    assert str(tmp_path) in refusal
    assert "flock" in refusal
    assert shared == "shared"
