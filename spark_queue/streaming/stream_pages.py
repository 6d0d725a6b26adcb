"""Pages of what a bucket knows of its keys, which split as they grow. See ADR 46."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple, Protocol, TypeAlias

#: How much is in a page, on average: an entry counts 2, and each of its rows 1.
PAGE = 256

#: A stored page: its text, and the numbers of its rows.
Stored: TypeAlias = tuple[str, Sequence[int]]

to_text = json.JSONEncoder(separators=(",", ":")).encode


def _value_text(value: Any) -> str:
    """Return a value as JSON; of numbers, which most are, without an encoder."""
    is_plain = type(value) in (int, float) and math.isfinite(value)
    return repr(value) if is_plain else to_text(value)


class PageStore(Protocol):
    """Where pages are; a dict is one."""

    def get(self, number: int, /) -> Stored | None:
        """Return a page."""

    def __setitem__(self, number: int, page: Stored, /) -> None: ...

    def pop(self, number: int, /) -> Any:
        """Take a page out that is there."""


class PageEntry(NamedTuple):
    """The entry of one key."""

    value: str
    """As JSON: most entries of a page are only copied."""
    due: float | None
    """From when on it must be looked at, if nothing comes for it."""
    rows: Sequence[int]
    """The numbers of its rows."""


Page: TypeAlias = dict[str, PageEntry]


class Pages:
    """Entries by name. A micro-batch reads and writes the pages of the names that it asks for.

    The pages are those of linear hashing: for each :data:`PAGE` that comes in one page is split,
    and for what goes out one is merged, so that no batch pays for all of them.

    Parameters
    ----------
    store : PageStore
        Has the pages, by number from 0 on.
    plain : mapping
        What :meth:`close` has returned.
    size : int
        How much is in a page, on average.
    """

    def __init__(self, store: PageStore, plain: Mapping[str, Any], size: int = PAGE) -> None:
        self.store = store
        self._size = size
        self._pages: int = plain.get("pages", 1)
        self._weight: int = plain.get("weight", 0)
        self._due: dict[int, float] = dict(plain.get("due", ()))
        self._lapsing = self._by_due()
        self._loaded: dict[int, Page] = {}
        self._stored: set[int] = set()
        self._changed: set[int] = set()

    def find(self, name: str | None) -> tuple[Any, Sequence[int]] | None:
        """Return the value and the rows of an entry."""
        text, _, page = self._at(name)
        entry = page.get(text)
        return None if entry is None else (json.loads(entry.value), entry.rows)

    def put(
        self, name: str | None, value: Any, rows: Sequence[int] = (), due: float | None = None
    ) -> None:
        """Enter a value with its rows, or replace the present one."""
        text, number, page = self._at(name)
        known = page.get(text)
        if known is not None:
            self._weight -= 2 + len(known.rows)
        page[text] = PageEntry(_value_text(value), due, rows)
        self._changed.add(number)
        self._weight += 2 + len(rows)

    def drop(self, name: str | None) -> None:
        """Forget an entry, if there is one."""
        text, number, page = self._at(name)
        entry = page.pop(text, None)
        if entry is not None:
            self._changed.add(number)
            self._weight -= 2 + len(entry.rows)

    def due(self, now: float, most: float = math.inf) -> Iterator[Any]:
        """Yield the names whose time has come, once each, from a number of pages at most."""
        while self._lapsing and self._lapsing[0][0] <= now and most > 0:
            most -= 1
            number = heappop(self._lapsing)[1]
            entries = self._page(number).items()
            later = [entry.due for _, entry in entries if entry.due is not None and entry.due > now]
            if later:
                heappush(self._lapsing, (min(later), number))
            yield from _names_due(now, self._page(number))

    def due_here(self, now: float) -> Iterator[Any]:
        """Yield the names whose time has come in the pages that were read."""
        for page in self._loaded.values():
            yield from _names_due(now, page)

    def close(self) -> dict[str, Any]:
        """Write the changed pages, and return the facts of all pages."""
        while self._weight > self._pages * self._size:
            self._split()
        while self._pages > 1 and self._weight * 4 < self._pages * self._size:
            self._merge()
        for number in sorted(self._changed):
            self._write(number)
        self._changed.clear()
        self._lapsing = self._by_due()
        return {"pages": self._pages, "weight": self._weight, "due": list(self._due.items())}

    def _by_due(self) -> list[tuple[float, int]]:
        found = [(due, page) for page, due in self._due.items()]
        heapify(found)
        return found

    def _at(self, name: str | None) -> tuple[str, int, Page]:
        text = to_text(name)
        number = self._place(text)
        return text, number, self._loaded.get(number) or self._page(number)

    def _place(self, text: str) -> int:
        """Return the page of a name: by as many bits of its hash as tell the pages apart."""
        mask: int = (1 << self._pages.bit_length()) - 1
        number = zlib.crc32(text.encode()) & mask
        while number >= self._pages:
            mask >>= 1
            number &= mask
        return number

    def _split(self) -> None:
        self._pages += 1
        new, page = self._pages - 1, self._page(_parent(self._pages - 1))
        self._loaded[new] = {
            text: page.pop(text) for text in list(page) if self._place(text) == new
        }
        self._changed |= {new, _parent(new)}

    def _merge(self) -> None:
        last = self._pages - 1
        page = self._page(last)
        self._page(_parent(last)).update(page)
        page.clear()
        self._pages -= 1
        self._changed |= {last, _parent(last)}

    def _page(self, number: int) -> Page:
        page = self._loaded.get(number)
        if page is None:
            stored = self.store.get(number)
            if stored is not None:
                self._stored.add(number)
            page = self._loaded[number] = {} if stored is None else _parse(*stored)
        return page

    def _write(self, number: int) -> None:
        page = self._loaded[number]
        dues = [entry.due for entry in page.values() if entry.due is not None]
        self._due.pop(number, None)
        if dues:
            self._due[number] = min(dues)
        if page:
            lines = []
            for text, entry in page.items():
                due = "" if entry.due is None else entry.due
                lines.append(f"{text}\t{due}\t{len(entry.rows)}\t{entry.value}")
            self.store[number] = (
                "\n".join(lines),
                [row for entry in page.values() for row in entry.rows],
            )
            self._stored.add(number)
        elif number in self._stored:
            self.store.pop(number)
            self._stored.discard(number)


def _parent(number: int) -> int:
    """Return the page from which a page was split: its number without the highest bit."""
    return number - (1 << number.bit_length() - 1)


def lines_of(text: str) -> Iterator[tuple[str, str, int, str]]:
    """Yield the name, the due time, the number of rows, and the value of each entry of a page."""
    for line in text.split("\n"):
        name, due, count, value = line.split("\t")
        yield name, due, int(count), value


def _parse(text: str, rows: Sequence[int]) -> Page:
    page, start = {}, 0
    for name, due, count, value in lines_of(text):
        end = start + count
        page[name] = PageEntry(value, float(due) if due else None, rows[start:end])
        start = end
    return page


def _names_due(now: float, page: Page) -> list[Any]:
    due = [text for text, entry in page.items() if entry.due is not None and entry.due <= now]
    return [json.loads(text) for text in due]


#: How many rows wait in the entry of a group, before they are put away as a piece.
NEAR = 128


class GroupTail:
    """What waits in a group, in the order in which it came.

    The last rows are in the entry of the group; those before them in pieces that are written once,
    read when their turn comes, and known by their bounds until then.

    Parameters
    ----------
    store : PageStore
        Has the pieces, by number from -1 down.
    plain : sequence
        What :meth:`plain` has returned: the pieces as number, length, lowest and highest of it; how
        many are gone of the first one; and the sequences of the last rows.
    rows : sequence of int
        The numbers of the last rows.
    near : int
        How many rows there are at most in the entry.
    """

    def __init__(
        self, store: PageStore, plain: Sequence[Any], rows: Sequence[int], near: int = NEAR
    ) -> None:
        self._store = store
        self._pieces: list[list[int]] = list(plain[0])
        self._gone: int = plain[1]
        self._last: dict[int, int] = dict(zip(plain[2], rows, strict=True))
        self._near = near
        self._highest = max((piece[3] for piece in self._pieces), default=-math.inf)
        self._read: dict[int, dict[int, int]] = {}

    def __len__(self) -> int:
        return sum(piece[1] for piece in self._pieces) - self._gone + len(self._last)

    def __bool__(self) -> bool:
        return bool(self._pieces or self._last)

    def __contains__(self, order: int) -> bool:
        if order in self._last:
            return True
        return order <= self._highest and any(
            low <= order <= high and order in self._piece(number)
            for number, _, low, high in self._pieces
        )

    def append(self, order: int, row: int) -> None:
        """Put a row at the end."""
        self._last[order] = row

    def pop(self) -> tuple[int, int]:
        """Take the first row: its sequence, and its number."""
        if not self._pieces:
            order = next(iter(self._last))
            return order, self._last.pop(order)
        number, length, _, _ = self._pieces[0]
        piece = self._piece(number)
        order = next(iter(piece))
        self._gone += 1
        row = piece.pop(order)
        if self._gone == length:
            self._store.pop(number)
            del self._pieces[0]
            self._gone = 0
        return order, row

    def plain(self, number: int) -> tuple[list[Any], list[int], int]:
        """Return this as plain data, its last rows, and the number of the next piece.

        What exceeds an entry is put away.
        """
        while len(self._last) > self._near:
            piece = list(self._last.items())[: 4 * self._near]
            orders = [order for order, _ in piece]
            self._store[number] = (to_text(orders), [row for _, row in piece])
            self._pieces.append([number, len(orders), min(orders), max(orders)])
            self._highest = max(self._highest, self._pieces[-1][3])
            for order in orders:
                del self._last[order]
            number -= 1
        return [self._pieces, self._gone, list(self._last)], list(self._last.values()), number

    def _piece(self, number: int) -> dict[int, int]:
        piece = self._read.get(number)
        if piece is None:
            stored = self._store.get(number)
            assert stored is not None  # noqa: S101 - for the type checker: it was put away
            text, rows = stored
            piece = dict(zip(json.loads(text), rows, strict=True))
            if number == self._pieces[0][0]:
                piece = dict(list(piece.items())[self._gone :])
            self._read[number] = piece
        return piece
