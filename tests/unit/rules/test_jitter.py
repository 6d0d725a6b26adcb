from __future__ import annotations

from spark_queue.rules.outcomes import retry_draw


# rule: delay of a retry
def test_draw_is_the_documented_hash() -> None:
    """The draw is the CRC-32 of "seq:attempts" over 2 ** 32, so other engines can repeat it."""
    assert retry_draw(123456789, 2) * 2**32 == 0x307C5DDE


def test_draw_differs_between_items_and_attempts() -> None:
    """Draws spread over the whole of 0 to 1."""
    draws = {retry_draw(seq, attempts) for seq in range(100) for attempts in (1, 2, 3)}
    assert len(draws) == 300
    assert min(draws) < 0.05
    assert 0.95 < max(draws) < 1
