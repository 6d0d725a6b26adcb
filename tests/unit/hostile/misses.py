"""Parameters for which the table finds a fault that is known, each with the reason why it stays."""

from __future__ import annotations

_PEEK = "an array has no truth of its own; a check would cost each read of a journal"

MISSES: dict[str, str] = {
    "AioJournalReader.get(peek)": _PEEK,
    "JournalReader.get(peek)": _PEEK,
}
