"""Draw what a random history of a queue is about: settings, rows, and what is said of items."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from spark_queue import Limit, QueueConfig, Rate, RetryPolicy
from spark_queue.saying import Said

COLUMNS = "id string, tenant string, grp string, prio int, host string, size double"
LEASE = timedelta(seconds=30)
#: The keys that limits go by.
_LIMITED = ((), ("host",), ("host", "tenant"), ("grp", "tenant"))
#: The keys that rates go by.
_RATED = ((), (), ("host",), (None,), ("tenant", None), ("grp", "host"))
_VERBS = ("ack", "ack", "ack", "nack", "defer", "release", "dead")
_EXACT = {"costs": (0.5, 1.0, 1.0, 2.5), "weights": (0.5, 1.0, 2.0, 4.0)}
_ANY = {"costs": (0.1, 1 / 3, 0.7, 1.0), "weights": (0.3, 1.0, 3.0, 7.0)}


def _replacing(draw: random.Random) -> dict[str, Any]:
    """Return settings of what becomes of rows whose key an item has."""
    if draw.random() < 0.4:  # noqa: PLR2004
        return {"on_duplicate": "skip", "debounce": None, "at_most": None}
    some = (None, timedelta(seconds=3)) if draw.random() < 0.5 else (None,)  # noqa: PLR2004
    waits = draw.choice(some)
    most = None if waits is None else timedelta(seconds=8)
    return {"on_duplicate": "replace", "debounce": waits, "at_most": most}


class Drawn:
    """Settings, rows and outcomes, as a source of random numbers says.

    Parameters
    ----------
    draw : random.Random
        The source, from which others may draw between two calls.
    """

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._values = draw.choice((_EXACT, _EXACT, _ANY))
        self._items = 0

    def config(self) -> QueueConfig:
        """Return the settings of a queue."""
        draw = self._draw
        fair, grouped = draw.random() < 0.8, draw.random() < 0.75  # noqa: PLR2004
        return QueueConfig(
            dedup_key="id",
            dedup_scope=draw.choice(("live", "live", "forever", timedelta(seconds=40))),
            **_replacing(draw),
            fair_key="tenant" if fair else None,
            group_key="grp" if grouped else None,
            priority=draw.choice((None, "prio")),
            weights=self.weights() if fair else {},
            group_limit=draw.choice((1, 1, 2, 3)) if grouped else 1,
            on_failure=draw.choice(("block", "skip")),
            max_in_flight=draw.choice((None, None, 1, 3, 6)),
            limits=self._limits(draw.choice(_LIMITED)),
            rates=self._rates(draw.choice(_RATED), draw.choice((None, "size"))),
            max_attempts=draw.choice((None, 2)),
            max_losses=draw.choice((None, 1, 2, 3)),
            max_deferrals=draw.choice((None, 1, 2, 3)),
            lease=LEASE,
            retry=RetryPolicy(
                delay=timedelta(seconds=draw.choice((0, 10))), jitter=draw.choice((0.0, 0.5))
            ),
        )

    def settings(self, config: QueueConfig) -> dict[str, Any]:
        """Return other settings of a queue, of which some are to be changed."""
        draw, rates = self._draw, config.rates
        return {
            "max_in_flight": draw.choice((None, 2, 5)),
            **_replacing(draw),
            "limits": self._limits([one.by for one in config.limits]),
            "weights": self.weights() if config.fair_key is not None else {},
            "rates": self._rates([r.by for r in rates], rates[0].units if rates else None),
        }

    def _limits(self, texts: Iterable[str]) -> tuple[Limit, ...]:
        numbers = (None, 0, 1, 1, 2, 3)
        return tuple(
            Limit(
                by=text,
                default=self._draw.choice(numbers),
                overrides={"a": self._draw.choice(numbers), "x": self._draw.choice(numbers)},
            )
            for text in texts
        )

    def _rates(self, texts: Iterable[str | None], units: str | None) -> tuple[Rate, ...]:
        speeds = (0.5, 1, 3, 10, None)
        return tuple(
            Rate(
                by=text,
                limit=self._draw.choice(speeds),
                per=timedelta(seconds=7),
                burst=self._draw.choice((2, 3.5, 6)),
                units=units,
                overrides={} if text is None else {"a": self._draw.choice(speeds)},
            )
            for text in texts
        )

    def weights(self) -> dict[str, float]:
        """Return weights of some fair keys."""
        draw, weights = self._draw, self._values["weights"]
        return {key: draw.choice(weights) for key in "abc" if draw.random() < 0.4}  # noqa: PLR2004

    def row(self, now: datetime) -> dict[str, Any]:
        """Return a row, whose key another one may have had."""
        draw = self._draw
        later, ends = (timedelta(seconds=draw.choice(some)) for some in ((5, 25), (8, 40, 90)))
        self._items += 1
        return {
            # Some come again, at once or later.
            "id": None if draw.random() < 0.1 else str(draw.randint(1, self._items)),  # noqa: PLR2004
            "tenant": draw.choice(("a", "b", "c", "d", None)),
            "grp": draw.choice(("g", "h", "i", None)),
            "prio": draw.choice((0, 0, 1, 2)),
            "host": draw.choice(("x", "x", "y", None)),
            "size": draw.choice((1.0, 1.0, 0.1, 2.0)),
            "cost": draw.choice(self._values["costs"]),
            "available_at": now + later if draw.random() < 0.15 else None,  # noqa: PLR2004
            "expires_at": now + ends if draw.random() < 0.1 else None,  # noqa: PLR2004
            "max_attempts": draw.choice((None, None, 1, 3)),
        }

    def said(self) -> Said:
        """Return what a holder says of an item."""
        draw = self._draw
        verb, error, wait = draw.choice(_VERBS), draw.choice((None, "why")), draw.choice((0, 7.25))
        is_given = verb == "defer" or (verb == "nack" and draw.random() < 0.5)  # noqa: PLR2004
        is_begun = verb != "release" or draw.random() < 0.5  # noqa: PLR2004
        after = timedelta(seconds=wait) if is_given else None
        return Said(verb, error, after, is_begun=is_begun)
