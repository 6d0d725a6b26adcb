"""The draw that spreads retries: a hash, so that every engine computes the same number."""

from __future__ import annotations

from zlib import crc32


# rule: delay of a retry
def retry_draw(seq: int, attempts: int) -> float:
    """Return the draw of an item's retry, from 0 up to but not including 1.

    It is the CRC-32 (the one of zlib and of Spark SQL's ``crc32``) of the ASCII text
    ``"<seq>:<attempts>"`` in decimal, divided by ``2 ** 32``. In Spark SQL:
    ``crc32(concat(seq, ':', attempts)) / 4294967296D``.

    Parameters
    ----------
    seq : int
        The item's sequence number.
    attempts : int
        Its failed attempts so far, 1 after the first failure.

    Examples
    --------
    >>> round(retry_draw(7, 1), 6)
    0.664352
    """
    return crc32(f"{seq}:{attempts}".encode("ascii")) / 2**32
