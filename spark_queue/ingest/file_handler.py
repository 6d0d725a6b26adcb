"""Facts of a file that was read. Plain Python: it runs on executors."""

from __future__ import annotations

import hashlib
import mimetypes
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from spark_queue.checks import require_kind
from spark_queue.errors import InvalidArgumentError, Reject
from spark_queue.ingest.source import Definitions, declared_encoding, is_python, names
from spark_queue.ingest.text import TextScan
from spark_queue.ingest.tree import locate, micros, modified_micros
from spark_queue.wording import shorten

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
        functions and classes for what is no Python source, or does not parse.

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
    # No more than its size: files of /proc have none, may never end, and lose what is read of them.
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
    # Again: what was read is that version only if nobody wrote meanwhile.
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
