"""Spark's ``xxhash64``: XXH64 with the seed 42, one argument after another."""

from __future__ import annotations

import struct
from collections.abc import Iterable

_SEED = 42
_ALL = 2**64 - 1
_SIGN = 2**63

_P1 = 0x9E3779B185EBCA87
_P2 = 0xC2B2AE3D27D4EB4F
_P3 = 0x165667B19E3779F9
_P4 = 0x85EBCA77C2B2AE63
_P5 = 0x27D4EB2F165667C5

#: Bytes that four lanes read at once, one of them, and half of that.
_STRIPE = 32
_LANE = 8
_HALF = 4


def xxhash64(values: Iterable[bytes | None]) -> int:
    """Return what Spark's ``xxhash64`` gives for values as bytes; nulls are passed over.

    Texts are their UTF-8; whole numbers four bytes, or eight where they are ``bigint``.
    """
    seed = _SEED
    for value in values:
        if value is not None:
            seed = xxh64(value, seed)
    return seed - 2**64 if seed & _SIGN else seed


def xxh64(data: bytes, seed: int) -> int:
    """Return XXH64 of some bytes, as a number without a sign.

    Every row with a key comes by here: turns of 64 bits are written out where they are counted.
    """
    size = len(data)
    lanes = size // _STRIPE * (_STRIPE // _LANE)
    words = struct.unpack_from(f"<{size // _LANE}Q", data)
    total = (_of_lanes(words[:lanes], seed) if lanes else seed + _P5) + size & _ALL
    for word in words[lanes:]:
        turned = word * _P2 & _ALL
        total ^= (turned << 31 | turned >> 33) * _P1 & _ALL
        total = (total << 27 | total >> 37) * _P1 + _P4 & _ALL
    rest = data[len(words) * _LANE :]
    if len(rest) >= _HALF:
        total ^= int.from_bytes(rest[:_HALF], "little") * _P1 & _ALL
        total = (total << 23 | total >> 41) * _P2 + _P3 & _ALL
        rest = rest[_HALF:]
    for byte in rest:
        total ^= byte * _P5 & _ALL
        total = (total << 11 | total >> 53) * _P1 & _ALL
    total = (total ^ total >> 33) * _P2 & _ALL
    total = (total ^ total >> 29) * _P3 & _ALL
    return total ^ total >> 32


def _of_lanes(words: tuple[int, ...], seed: int) -> int:
    lanes = [seed + _P1 + _P2, seed + _P2, seed, seed - _P1]
    for at, word in enumerate(words):
        lanes[at & 3] = _read(lanes[at & 3], word)
    turns = zip(lanes, (1, 7, 12, 18), strict=True)
    total = sum(lane << bits | lane >> (64 - bits) for lane, bits in turns)
    for lane in lanes:
        total = ((total & _ALL) ^ _read(0, lane)) * _P1 + _P4
    return total


def _read(lane: int, word: int) -> int:
    turned = lane + word * _P2 & _ALL
    return (turned << 31 | turned >> 33) * _P1 & _ALL
