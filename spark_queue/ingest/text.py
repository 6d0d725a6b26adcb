"""Is it text, in which encoding, and how many lines: decided on the way through a file."""

from __future__ import annotations

import codecs
import io

#: Byte order marks, longest first: that of UTF-32 starts with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

#: Bytes that no text holds: control signs other than those that move a cursor, bell and escape.
_CONTROLS = bytes(set(range(32)) - set(b"\a\b\t\n\v\f\r\x1b"))


class TextScan:
    """Decides the encoding of a file and counts its lines, chunk by chunk.

    A byte order mark decides; without one, a file with control bytes is binary, one that decodes
    as UTF-8 is that, and any other is taken for Latin-1, which every sequence of bytes fits.

    Parameters
    ----------
    start : bytes
        The first bytes of the file; four are enough.
    declared : str, optional
        What the file itself says: the only encoding to try.
    """

    def __init__(self, start: bytes, declared: str | None = None) -> None:
        marked = next((encoding for mark, encoding in _MARKS if start.startswith(mark)), None)
        sure = declared or marked
        self._may_be_binary = sure is None
        self._candidates = [_Lines(name) for name in ([sure] if sure else ["utf-8", "iso-8859-1"])]

    def feed(self, chunk: bytes, *, final: bool = False) -> None:
        """Take the next bytes, or with ``final`` the end of the file."""
        if self._may_be_binary and len(chunk.translate(None, _CONTROLS)) < len(chunk):
            self._candidates = []
        self._candidates = [lines for lines in self._candidates if lines.feed(chunk, final=final)]

    @property
    def encoding(self) -> str | None:
        """The encoding, ``None`` for a binary file."""
        return self._candidates[0].encoding if self._candidates else None

    @property
    def lines(self) -> int | None:
        """How many lines the file has, ``None`` for a binary file.

        A line ends with LF, CR LF or CR; a last line without an end counts.
        """
        return self._candidates[0].count() if self._candidates else None


class _Lines:
    """Counts lines as long as the bytes fit an encoding."""

    def __init__(self, encoding: str) -> None:
        self.encoding = encoding
        decoder = codecs.getincrementaldecoder(encoding)()
        self._decoder = io.IncrementalNewlineDecoder(decoder, translate=True)
        self._ends = 0
        self._last = "\n"

    def feed(self, chunk: bytes, *, final: bool) -> bool:
        try:
            text = self._decoder.decode(chunk, final=final)
        except UnicodeError:
            return False
        self._ends += text.count("\n")
        self._last = text[-1:] or self._last
        return True

    def count(self) -> int:
        return self._ends + (self._last != "\n")
