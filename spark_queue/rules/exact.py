"""Numbers of which every engine has the same sum, in any order. See ADR 40.

What a step adds up is rounded first, to a whole number of :data:`UNIT`. That is a power of two, so
a float has such a number as it is, and adds two of them without rounding: up to 2 ** 33 in all.
What the sum is behind, where a line stood before the step, is added to it once.
"""

from __future__ import annotations

#: What costs and increments are whole numbers of: a little less than a millionth of a turn.
UNIT = 2.0**-20

#: A number that has no digits behind the unit: what is added to it loses its own.
ROUNDER = 1.5 * 2.0**32


def rounded(number: float) -> float:
    """Return the whole number of units that is nearest; of two, the even one.

    Examples
    --------
    >>> rounded(0.1) == 104858 * UNIT
    True
    """
    return (number + ROUNDER) - ROUNDER


def share(amount: float) -> float:
    """Return what an amount above 0 counts: at least a unit, so that what it moves does move."""
    return max(UNIT, rounded(amount))
