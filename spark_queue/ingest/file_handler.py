"""Facts of a file that was read. Plain Python: it runs on executors."""

from __future__ import annotations

import ast
import codecs
import gc
import hashlib
import io
import mimetypes
import os
import stat
import tokenize
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from spark_queue.checks import require_kind
from spark_queue.errors import InvalidArgumentError, Reject
from spark_queue.ingest.tree import locate, micros, modified_micros
from spark_queue.wording import shorten

_SUFFIXES = (".py", ".pyi", ".pyw")

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

#: Where nodes keep statements. Nothing is defined inside an expression, and a tree is mostly those.
_BLOCKS = frozenset({"body", "handlers", "cases", "orelse", "finalbody"})

_KINDS: tuple[type[ast.AST], ...] = (
    ast.Module,
    ast.ExceptHandler,
    ast.match_case,
    *ast.stmt.__subclasses__(),
)

#: The blocks of each kind of node that has any, the last first.
_BLOCKS_OF = {
    kind: blocks
    for kind in _KINDS
    if (blocks := tuple(field for field in reversed(kind._fields) if field in _BLOCKS))
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Definitions:
    """The definitions of a source, or why there are none to see."""

    functions: tuple[str, ...] = ()
    """Functions and methods in the order of the text, with what encloses them: ``Queue.put``."""
    classes: tuple[str, ...] = ()
    """Classes, likewise."""
    error: str | None = None
    """Why the source does not parse."""


def is_python(path: str) -> bool:
    """Tell by its name whether a file is a Python source."""
    return path.endswith(_SUFFIXES)


def declared_encoding(source: bytes) -> str | None:
    """Return the encoding that a source has by PEP 263; ``None`` where what it says is wrong."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        # Neither a codec that is none of text, nor one of two bytes a sign, is that of a source.
        b"#".decode(encoding)
    except (SyntaxError, LookupError, UnicodeError):
        return None
    return encoding


def names(source: bytes) -> Definitions:
    """Parse a source and name what it defines. The source is not run."""
    try:
        with _without_collections(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _find_definitions(ast.parse(source))
    except SyntaxError as exc:
        place = f"line {exc.lineno}: " if exc.lineno else ""
        return Definitions(error=_printable(f"{place}{exc.msg}"))
    except (ValueError, RecursionError, MemoryError) as exc:
        return Definitions(error=_printable(f"{type(exc).__name__}: {exc}"))


@contextmanager
def _without_collections() -> Iterator[None]:
    """Keep the garbage collector from looking through a tree while it grows: it has no cycles."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _find_definitions(module: ast.Module) -> Definitions:
    functions: list[str] = []
    classes: list[str] = []
    # A stack of our own: sources may be nested deeper than Python's.
    waiting: list[tuple[ast.AST, str]] = [(module, "")]
    while waiting:
        node, prefix = waiting.pop()
        if isinstance(node, _Definition):
            named = classes if isinstance(node, ast.ClassDef) else functions
            named.append(prefix + node.name)
            prefix = f"{prefix}{node.name}."
        for block in _BLOCKS_OF[type(node)]:
            inner = reversed(getattr(node, block))
            waiting.extend((child, prefix) for child in inner if type(child) in _BLOCKS_OF)
    return Definitions(functions=tuple(functions), classes=tuple(classes))


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


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


#: The columns of the output, one row a file.
FACTS_SCHEMA = (
    "path string, tenant string, size bigint, sha256 string, "
    "media_type string, encoding string, lines bigint, functions array<string>, "
    "classes array<string>, parse_error string"
)

_CHUNK = 1 << 20

#: A longer Python source is data; its syntax tree would need a hundred times its size.
_LONGEST_SOURCE = 16 << 20

_COMPRESSED = {
    "gzip": "application/gzip",
    "bzip2": "application/x-bzip2",
    "xz": "application/x-xz",
    "compress": "application/x-compress",
    "br": "application/x-brotli",
}


def file_facts(item: Mapping[str, Any]) -> dict[str, Any]:
    """Read the file of an item.

    Parameters
    ----------
    item : mapping
        A file as :func:`spark_queue.ingest.discover` finds it.

    Returns
    -------
    dict
        The columns of ``FACTS_SCHEMA``. Encoding and lines are ``None`` for a binary file;
        functions and classes for other files than Python source that parses.

    Raises
    ------
    Reject
        When the file cannot be read, is no regular file, or is not the version that was found.
    """
    require_kind("item", item, Mapping)
    if not isinstance(item.get("path"), str):
        raise InvalidArgumentError(f"item is {shorten(item)}: it has no path")
    try:
        with _open_regular(locate(item["path"])) as file:
            read = _read(file, item)
    except OSError as exc:
        raise Reject(f"cannot be read: {type(exc).__name__}: {exc.strerror or exc}") from exc
    kept = {name: item[name] for name in ("path", "tenant", "size")}
    return {**kept, "media_type": media_type(item["path"]), **read}


def media_type(path: str) -> str | None:
    """Guess a media type from a file's name."""
    kind, compression = mimetypes.guess_type(Path(path).name, strict=False)
    return kind if compression is None else _COMPRESSED.get(compression)


def _open_regular(path: str) -> IO[bytes]:
    # Opening a pipe would wait for a writer that may never come.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        _require_regular(os.fstat(descriptor))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _read(file: IO[bytes], item: Mapping[str, Any]) -> dict[str, Any]:
    _require_same(file, item)
    # No more than its size: files of /proc have none, may never end, and lose data that is read.
    left = item["size"]
    chunk = file.read(min(left, _CHUNK))
    source = chunk if is_python(item["path"]) else None
    scan = TextScan(chunk, None if source is None else declared_encoding(source))
    digest = hashlib.sha256()
    while chunk:
        digest.update(chunk)
        scan.feed(chunk)
        left -= len(chunk)
        chunk = file.read(min(left, _CHUNK))
        if source is not None and len(source) <= _LONGEST_SOURCE:
            source += chunk
    scan.feed(b"", final=True)
    # Again: a write in between would have changed the version that was read.
    _require_same(file, item)
    return {
        "sha256": digest.hexdigest(),
        "encoding": scan.encoding,
        "lines": scan.lines,
        **_read_definitions(source),
    }


def _read_definitions(source: bytes | None) -> dict[str, Any]:
    if source is None:
        return {"functions": None, "classes": None, "parse_error": None}
    if len(source) > _LONGEST_SOURCE:
        found = Definitions(error=f"longer than {_LONGEST_SOURCE >> 20} MiB")
    else:
        found = names(source)
    parsed = found.error is None
    return {
        "functions": list(found.functions) if parsed else None,
        "classes": list(found.classes) if parsed else None,
        "parse_error": found.error,
    }


def _require_regular(facts: os.stat_result) -> None:
    if stat.S_ISDIR(facts.st_mode):
        raise Reject("cannot be read: a directory that could not be listed")
    if not stat.S_ISREG(facts.st_mode):
        raise Reject("cannot be read: not a regular file")


def _require_same(file: IO[bytes], item: Mapping[str, Any]) -> None:
    facts = os.fstat(file.fileno())
    if (facts.st_size, modified_micros(facts)) != (item["size"], micros(item["modified_at"])):
        raise Reject("changed since it was found; the next run takes it as it is then")
