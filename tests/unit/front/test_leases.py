"""The leases of a front, over claims in memory."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from spark_queue.clock import ManualClock
from spark_queue.errors import LeaseLostError
from spark_queue.front.leases import Leases

LEASE = timedelta(seconds=30)


class Claims:
    """Makes claims whose renewals are counted, or fail as the test says."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.leases = Leases("q", self.clock)
        self.renewed: list[int] = []

    def hold(self, lease: int, seqs: list[int], *, fault: BaseException | None = None) -> None:
        """Hold a claim of items."""

        def renew(by: timedelta) -> None:
            assert by == LEASE
            self.renewed.append(lease)
            if fault is not None:
                raise fault

        now = self.clock.now()
        claim = SimpleNamespace(
            lease=lease, claimed_at=now, lease_expires_at=now + LEASE, renew=renew
        )
        self.leases.add(cast("Any", claim), seqs)

    def live(self, lease: int, *seqs: int) -> list[bool]:
        """Return which items are live."""
        return [self.leases.is_live(lease, seq) for seq in seqs]


@pytest.fixture
def claims() -> Claims:
    """Return what makes claims."""
    return Claims()


def test_what_was_settled_is_no_longer_live(claims: Claims) -> None:
    """An item counts as held until it is settled, the others of its claim go on."""
    claims.hold(1, [1, 2])
    claims.leases.close(1, [1])

    assert claims.live(1, 1, 2) == [False, True]


@pytest.mark.parametrize(
    ("fault", "live"),
    [
        (lambda: LeaseLostError([1]), [False, True]),
        (lambda: OSError("away"), [True, True]),
        (lambda: LeaseLostError(list(range(1, 1_001))), [False, False]),
    ],
)
def test_a_renewal_gives_up_what_is_lost(
    claims: Claims, fault: Callable[[], BaseException], live: list[bool]
) -> None:
    """Named items are given up, all of them where there may be more than an error names."""
    claims.hold(1, [1, 2_000], fault=fault())
    claims.clock.advance(LEASE / 2)
    claims.leases.renew()

    assert claims.live(1, 1, 2_000) == live


def test_a_renewal_that_fails_keeps_no_other_from_it(claims: Claims) -> None:
    """A claim that cannot be renewed is tried again, and the next one is renewed beside it."""
    claims.hold(1, [1], fault=OSError("away"))
    claims.hold(2, [2])
    claims.clock.advance(LEASE / 2)
    claims.leases.renew()

    assert claims.renewed == [1, 2]


@pytest.mark.parametrize(("part", "renewed"), [(0.3, []), (0.4, [1])])
def test_a_lease_is_renewed_after_a_third_of_it(
    claims: Claims, part: float, renewed: list[int]
) -> None:
    """There is time for two more tries when the first one fails."""
    claims.hold(1, [1])
    claims.clock.advance(LEASE * part)
    claims.leases.renew()

    assert claims.renewed == renewed
