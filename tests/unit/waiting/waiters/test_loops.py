from __future__ import annotations

import asyncio
import gc
import weakref

from spark_queue.memory.waiting.aio import LoopEnd, end_of


async def this_end() -> LoopEnd:
    """Return the end of the running loop."""
    return end_of(asyncio.get_running_loop())


def test_a_closed_loop_makes_each_call_once() -> None:
    """Calls are made when the loop is closed, those that were taken out are not, nor any twice."""
    loop, made = asyncio.new_event_loop(), list[str]()
    end = loop.run_until_complete(this_end())
    assert loop.run_until_complete(this_end()) is end
    for name in ("a", "b", "c"):
        end.calls[name] = made.append
    del end.calls["b"]
    loop.run_until_complete(asyncio.sleep(0))
    assert made == []
    loop.close()
    assert made == ["a", "c"]
    loop.close()
    end.ring()
    assert made == ["a", "c"]


def test_a_call_that_fails_harms_no_other() -> None:
    """What one call raises, be it an exit, is logged, and the others are made."""
    loop, made = asyncio.new_event_loop(), list[str]()

    def fails(_: str) -> None:
        raise SystemExit

    calls = loop.run_until_complete(this_end()).calls
    calls["a"], calls["b"] = fails, made.append
    loop.close()
    assert made == ["b"]


def test_a_loop_whose_time_is_moved_goes_on() -> None:
    """A loop that is sent into a far future has not ended, and still tells when it does."""
    loop, made = asyncio.SelectorEventLoop(), list[str]()
    now = loop.time()
    calls = loop.run_until_complete(this_end()).calls
    calls["a"] = made.append
    loop.time = lambda: now + 10**12  # type: ignore[method-assign]
    loop.run_until_complete(asyncio.sleep(0))
    loop.run_until_complete(asyncio.sleep(0))
    assert made == []
    loop.close()
    assert made == ["a"]


def test_nothing_of_a_loop_stays() -> None:
    """A loop that is dropped goes, though it is among what is to be called at its end."""
    loop = asyncio.new_event_loop()
    end = loop.run_until_complete(this_end())
    loop.close()
    end.calls[loop] = loop.set_exception_handler
    gone = weakref.ref(loop), weakref.ref(end)
    del loop, end
    gc.collect()
    assert [each() for each in gone] == [None, None]
