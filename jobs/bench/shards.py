"""Play queues that are shards of one, and count what their rules still promise together.

No queue is made: a shard is its tenants in turns, a claim takes some items of one shard, and rates
are numbers. The draws are the same each time: ``docs/beyond-one-log.md`` has the last run.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from statistics import mean
from zlib import crc32

#: Tenants that wait all the time, items that a claim takes, and turns that each tenant is due.
TENANTS, CLAIM, TURNS = 1_000, 100, 200

#: Of a rate: how much it lets start in a minute, minutes that are played, and what comes of it.
LIMIT, MINUTES, DEMAND = 6_000, 60, 1.5

#: Who takes next: the number of a shard.
Choice = Callable[[Sequence["Shard"], int], int]


class Shard:
    """Tenants in turns, and the turn to which their order has come."""

    def __init__(self, tenants: Sequence[str]) -> None:
        self._line, self._served = deque(tenants), 0
        self.tenants = len(tenants)

    @property
    def turn(self) -> float:
        """How many turns each tenant has had."""
        return self._served / self.tenants if self.tenants else float("inf")

    def claim(self, count: int) -> Iterator[str]:
        """Serve the next tenants."""
        self._served += count
        for _ in range(count):
            yield self._line[0]
            self._line.rotate(-1)


def shard_of(key: str, shards: int) -> int:
    """Return the shard of a key."""
    return crc32(key.encode()) % shards


def attached(shards: Sequence[Shard], number: int) -> int:
    """Each worker has a shard of its own; one without tenants leaves its worker idle."""
    return number % len(shards)


def drawn(shards: Sequence[Shard], number: int) -> int:
    """Draw a shard, each as often as it has tenants."""
    draw = random.Random(number)  # noqa: S311 - the same in each run
    return draw.choices(range(len(shards)), [shard.tenants for shard in shards])[0]


def behind(shards: Sequence[Shard], number: int) -> int:
    """Take the shard whose order has come least far."""
    del number
    return min(range(len(shards)), key=lambda one: shards[one].turn)


def turns(count: int, tenants: int, choose: Choice) -> tuple[float, float]:
    """Return what the tenant served most got over the mean, and what part of the claims got any."""
    names = [f"tenant-{n}" for n in range(tenants)]
    shards = [
        Shard([name for name in names if shard_of(name, count) == number])
        for number in range(count)
    ]
    served: Counter[str] = Counter()
    claims = tenants * TURNS // CLAIM
    filled = 0
    for number in range(claims):
        shard = shards[choose(shards, number)]
        if shard.tenants:
            served.update(shard.claim(CLAIM))
            filled += 1
    return max(served.values()) / mean(served[name] for name in names), filled / claims


def _most(tenants: int, choose: Choice, count: int) -> float:
    return turns(count, tenants, choose)[0]


def _busy(count: int) -> float:
    return turns(count, 20, attached)[1]


def by_another_key(count: int) -> float:
    """Return what a tenant with items in all shards gets over one whose items are in one."""
    shards = [Shard(["big", f"small-{number}"]) for number in range(count)]
    served: Counter[str] = Counter()
    for _ in range(count * TURNS):
        served.update(shards[behind(shards, 0)].claim(2))
    return served["big"] / served["small-0"]


def rate(count: int, *, is_split_again: bool) -> float:
    """Return what starts of a rate over what it lets start.

    Of what comes, more than the rate lets start, half comes to one shard in eight. Each minute the
    parts may be split again, by what then waits in each shard.
    """
    draw, many = random.Random(count), max(1, count // 8)  # noqa: S311 - as above
    shares = [1 / many if number < many else 1 / (count - many) for number in range(count)]
    ends, waits = list(accumulate(shares)), [0] * count
    parts, started = [LIMIT / count] * count, []
    for _ in range(MINUTES):
        comes = Counter(draw.choices(range(count), cum_weights=ends, k=int(DEMAND * LIMIT)))
        waits = [there + comes[number] for number, there in enumerate(waits)]
        if is_split_again:
            parts = [LIMIT * there / sum(waits) for there in waits]
        taken = [min(there, int(part)) for there, part in zip(waits, parts, strict=True)]
        waits = [there - took for there, took in zip(waits, taken, strict=True)]
        started.append(sum(taken) / LIMIT)
    return mean(started)


def in_flight(most: int, count: int) -> float:
    """Return what may be in flight over a limit, where each shard has its part, rounded up."""
    return -(-most // count) * count / most


#: The numbers of shards that are played.
COUNTS = (4, 16, 64)

#: What is played, as the page says it, with the value for a number of shards.
ROWS: dict[str, Callable[[int], float]] = {
    f"{tenants:,} tenants: {words}": partial(_most, tenants, choose)
    for tenants in (TENANTS, 20)
    for words, choose in (
        ("each worker has a shard", attached),
        ("a worker draws a shard by its tenants", drawn),
        ("a worker takes the shard that is behind", behind),
    )
} | {
    "20 tenants, each worker has a shard: part of the workers that work": _busy,
    "shards by another key: a tenant in all of them over a tenant in one": by_another_key,
    "a rate, its parts fixed: what starts of it": partial(rate, is_split_again=False),
    "a rate, its parts split again each minute": partial(rate, is_split_again=True),
    "`max_in_flight=200`, its parts rounded up": partial(in_flight, 200),
}


def markdown() -> str:
    """Return the table of the page."""
    lines = ["| shards | " + " | ".join(map(str, COUNTS)) + " |", "|---|" + "---|" * len(COUNTS)]
    for words, value in ROWS.items():
        cells = " | ".join(f"{value(count):.2f}" for count in COUNTS)
        lines.append(f"| {words} | {cells} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(markdown())  # noqa: T201 - the table of the page
