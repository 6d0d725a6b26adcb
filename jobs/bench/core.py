"""Measure the queues in memory: in ratio to the standard library's, to themselves, and in bytes.

Prints one JSON line for each figure and a table at the end. Contenders take turns, round by round,
in one process, and a figure is the median of the ratios of each round, so that other work on the
machine disturbs both sides of it. A missed target is printed and is no failure; ``--strict`` exits
with 1 for one.
"""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import typer

from ends import (
    Ends,
    blocking,
    churn,
    distinct,
    drain,
    fair,
    fill,
    fill_and_drain,
    items,
    put_then_get,
    scheduler,
    standard,
)
from report import (
    Figure,
    at_least,
    at_most,
    measure,
    median_figure,
    ratio_figure,
    rounds,
    seconds,
)
from spark_queue.inprocess import QueueBroker, SingularUpdateQueue


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured."""

    rounds: int = 15
    operations: int = 20_000
    deep: int = 1_000_000
    tasks: int = 20_000
    most_tasks: int = 100_000

    @classmethod
    def quick(cls) -> Size:
        """Return a size that ends in seconds and still shows what is far off."""
        return cls(rounds=5, operations=4_000, deep=50_000, tasks=4_000, most_tasks=20_000)


def one_thread(size: Size) -> Iterator[Figure]:
    """Put and get on one thread, against the standard queue: over a backlog, and one by one."""
    work = items(size.operations, keys=100)
    makers = {"standard": standard, "fair": fair, "distinct": distinct, "blocking": blocking}
    for shape, run in (("backlog", fill_and_drain), ("singly", put_then_get)):
        timed = rounds(
            {name: partial(_timed, run, make, work) for name, make in makers.items()}, size.rounds
        )
        for name in ("fair", "distinct", "blocking"):
            yield ratio_figure(
                f"one_thread.{shape}.{name}",
                timed["standard"],
                timed[name],
                at_least(1.0) if name != "blocking" else None,
                f"speed over that of queue.Queue: {len(work):,} items, 100 keys",
            )


def two_threads(size: Size) -> Iterator[Figure]:
    """Hand items from one thread to another, against the standard queue."""
    work = items(size.operations, keys=100)
    makers = {"standard": standard, "fair": fair, "distinct": distinct, "blocking": blocking}
    for shape, run, share in (("stream", _stream, 1), ("there_and_back", _there_and_back, 5)):
        part = work[::share]
        timed = rounds(
            {name: partial(run, make, part) for name, make in makers.items()}, size.rounds
        )
        for name in ("fair", "distinct", "blocking"):
            yield ratio_figure(
                f"two_threads.{shape}.{name}",
                timed["standard"],
                timed[name],
                at_least(1.0) if name != "blocking" else None,
                f"speed over that of queue.Queue: {len(part):,} items, 100 keys",
            )


def _timed(run: Callable[[Ends, Any], object], make: Callable[[], Ends], work: Any) -> float:
    ends = make()
    return seconds(lambda: run(ends, work))


def _stream(make: Callable[[], Ends], work: list[Any]) -> float:
    """One thread puts as fast as it can while another gets."""
    ends = make()
    taker = threading.Thread(target=drain, args=(ends, len(work)))

    def run() -> None:
        taker.start()
        fill(ends, work)
        taker.join()

    return seconds(run)


def _there_and_back(make: Callable[[], Ends], work: list[Any]) -> float:
    """Every item goes to the other thread and back before the next one does."""
    there, back = make(), make()
    echo = threading.Thread(target=lambda: [back.put(there.get()) for _ in work])

    def run() -> None:
        echo.start()
        for item in work:
            there.put(item)
            back.get()
        echo.join()

    return seconds(run)


def depth(size: Size) -> Iterator[Figure]:
    """Compare an operation on a deep queue of many keys with one on a shallow queue of few."""
    count = size.operations
    deep_keys = size.deep // 10
    for name, make in (("fair", fair), ("distinct", distinct), ("scheduler", scheduler)):
        shallow, deep = make(), make()
        fill(shallow, items(1_000, keys=10))
        fill(deep, items(size.deep, deep_keys))
        contenders = {
            "shallow": partial(_churned, shallow, count),
            "deep": partial(_churned, deep, count),
        }
        timed = rounds(contenders, size.rounds)
        yield ratio_figure(
            f"depth.{name}",
            timed["deep"],
            timed["shallow"],
            at_most(1.5) if name != "scheduler" else None,
            f"a get and a put with {size.deep:,} items of {deep_keys:,} keys, over 1,000 of 10",
        )


def _churned(ends: Ends, count: int) -> float:
    return seconds(lambda: churn(ends, count))


def bounds(size: Size) -> Iterator[Figure]:
    """Compare a put into a bounded queue with one into an unbounded queue."""
    work = items(size.operations, keys=100)
    for name, make in (("fair", fair), ("blocking", blocking)):
        contenders = {
            "bounded": partial(_timed, fill, partial(make, len(work)), work),
            "unbounded": partial(_timed, fill, make, work),
        }
        timed = rounds(contenders, size.rounds)
        yield ratio_figure(
            f"bounds.{name}",
            timed["bounded"],
            timed["unbounded"],
            at_most(1.1),
            f"time of {len(work):,} puts with a limit, over that without",
        )


def broker(size: Size) -> Iterator[Figure]:
    """Compare tasks of one busy group with ungrouped ones, and many tasks with few."""
    few, some, many = 1_000, size.tasks, size.most_tasks
    contenders = {
        f"{kind}.{count}": partial(_per_task, count, group)
        for kind, group in (("grouped", "hot"), ("ungrouped", None))
        for count in (few, some, many)
    }
    timed = rounds(contenders, max(3, size.rounds // 2))
    yield ratio_figure(
        "broker.hot_group",
        timed[f"grouped.{some}"],
        timed[f"ungrouped.{some}"],
        at_most(1.3),
        f"time of each of {some:,} tasks in one group, over that of as many without one; 1 slot",
    )
    for kind in ("grouped", "ungrouped"):
        yield ratio_figure(
            f"broker.flat.{kind}",
            timed[f"{kind}.{many}"],
            timed[f"{kind}.{few}"],
            at_most(1.5),
            f"time of each of {many:,} tasks, over that of each of {few:,}",
        )
    yield median_figure(
        "broker.task",
        [1e6 * each for each in timed[f"grouped.{some}"]],
        None,
        f"from enqueue to end, each of {some:,} tasks in one group",
        "us",
    )


def _per_task(count: int, group: str | None) -> float:
    """Enqueue tasks while the only slot is taken, then let all of them run."""
    line, gate = QueueBroker(max_active=1), threading.Event()
    futures: list[Future[Any]] = [line.enqueue(lambda _: gate.wait(), group)]

    def run() -> None:
        futures.extend(line.enqueue(_nothing, group) for _ in range(count))
        gate.set()
        line.wait_for_idle()

    taken = seconds(run)
    line.stop()
    return taken / count


def _nothing(_: object) -> None:
    return None


def singular(size: Size) -> Iterator[Figure]:
    """Send requests of four threads to one worker, against an executor with one thread."""
    for shape, run, share in (("pipelined", _pipelined, 1), ("one_by_one", _one_by_one, 5)):
        count = size.operations // share
        contenders = {
            "queue": partial(_with_queue, run, count),
            "executor": partial(_with_executor, run, count),
        }
        timed = rounds(contenders, size.rounds)
        yield ratio_figure(
            f"singular.{shape}",
            timed["executor"],
            timed["queue"],
            at_least(1.0),
            f"requests a second over ThreadPoolExecutor(1)'s: 4 producers, {count:,} requests",
        )
        yield median_figure(
            f"singular.{shape}.rate",
            [count / each for each in timed["queue"]],
            None,
            "replies of the queue",
            "1/s",
        )


Submit = Callable[[Any], "Future[Any]"]


def _with_queue(run: Callable[[Submit, int], None], count: int) -> float:
    with SingularUpdateQueue[Any, Any](_itself) as line:
        return seconds(lambda: run(line.submit, count))


def _with_executor(run: Callable[[Submit, int], None], count: int) -> float:
    with ThreadPoolExecutor(max_workers=1) as pool:
        return seconds(lambda: run(lambda item: pool.submit(_itself, item), count))


def _itself(item: Any) -> Any:
    return item


def _pipelined(submit: Submit, count: int) -> None:
    """Every producer submits all of its requests, then waits for all replies."""

    def produce() -> None:
        replies = [submit(number) for number in range(count // 4)]
        for reply in replies:
            reply.result()

    _in_four_threads(produce)


def _one_by_one(submit: Submit, count: int) -> None:
    """Every producer waits for each reply before its next request."""

    def produce() -> None:
        for number in range(count // 4):
            submit(number).result()

    _in_four_threads(produce)


def _in_four_threads(work: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def memory(size: Size) -> Iterator[Figure]:
    """Count the bytes that a queue takes for each item, above what the item itself takes."""
    count = size.deep // 10
    for name, make, keys in (
        ("standard", standard, 100),
        ("fair", fair, 100),
        ("fair", fair, count // 10),
        ("distinct", distinct, 100),
        ("blocking", blocking, 100),
        ("singular", _unstarted, 100),
        ("scheduler", scheduler, 100),
    ):
        yield Figure(
            f"memory.{name}.{keys}_keys",
            _bytes_each(make(), items(count, keys)),
            at_most(250) if name not in ("standard", "scheduler") else None,
            "bytes",
            f"tracemalloc's growth by {count:,} puts of items that were there before",
        )
    with _busy_broker() as ends:
        yield Figure(
            "memory.broker.100_keys",
            _bytes_each(ends, items(count, 100)),
            None,
            "bytes",
            f"the same by {count:,} tasks that wait, their futures included",
        )


def _bytes_each(ends: Ends, work: list[Any]) -> float:
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        fill(ends, work)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return (after - before) / len(work)


def _unstarted() -> Ends:
    line: SingularUpdateQueue[Any, Any] = SingularUpdateQueue(_itself, capacity=None)
    return Ends(line.submit, _no_get)


@contextmanager
def _busy_broker() -> Iterator[Ends]:
    line, gate = QueueBroker(max_active=1), threading.Event()
    line.enqueue(lambda _: gate.wait())
    try:
        yield Ends(lambda item: line.enqueue(_nothing, item[0]), _no_get)
    finally:
        gate.set()
        line.stop()


def _no_get() -> Any:
    raise NotImplementedError


SECTIONS: dict[str, Callable[[Size], Iterator[Figure]]] = {
    "one_thread": one_thread,
    "two_threads": two_threads,
    "depth": depth,
    "bounds": bounds,
    "broker": broker,
    "singular": singular,
    "memory": memory,
}


def main(
    only: Annotated[
        list[str] | None, typer.Option(help=f"Measure this: {', '.join(SECTIONS)}; repeatable.")
    ] = None,
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Seconds instead of minutes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print no table.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 on a missed target.")] = False,
) -> None:
    """Measure the queues in memory against their targets."""
    size = Size.quick() if quick else Size()
    sections = {name: partial(section, size) for name, section in SECTIONS.items()}
    raise typer.Exit(measure(sections, only, as_json=as_json, strict=strict))


if __name__ == "__main__":
    typer.run(main)
