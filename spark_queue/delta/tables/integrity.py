"""Checksums of commits, and read errors of files as errors of this library."""

from __future__ import annotations

import errno
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_queue.errors import FileAccessError, FileDamagedError, FileGoneError, SparkQueueError

#: The first line of a commit that has a checksum: of all its text, with zeros in its place.
_SEALED = re.compile(r'\{"commitInfo":\{"checksum":"([0-9a-f]{8})"')

_ZEROS = "00000000"


def seal(actions: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of a commit, with a checksum where it says of itself what it is."""
    first, *others = actions
    if "commitInfo" in first:
        first = {"commitInfo": {"checksum": _ZEROS, **first["commitInfo"]}}
    lines = (json.dumps(action, separators=(",", ":")) + "\n" for action in (first, *others))
    text = "".join(lines)
    return text if "commitInfo" not in first else text.replace(_ZEROS, _checksum(text), 1)


def require_seal(text: str) -> None:
    """Check the text of a commit by its checksum, if it has one.

    Raises
    ------
    ValueError
        When it is not what was written.
    """
    found = _SEALED.match(text)
    if found is None:
        return
    bare = text[: found.start(1)] + _ZEROS + text[found.end(1) :]
    if _checksum(bare) != found[1]:
        raise ValueError("its checksum is that of another text")


def read_actions(text: str) -> list[Any]:
    """Return the actions of a commit from its text.

    Only a line feed ends a line: Spark and deltalake write U+2028 and the like as they are.
    """
    return [json.loads(line) for line in text.split("\n") if line]


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


#: What the system says of a file that is not what it was.
_DAMAGE = (errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.EINVAL)

#: What a reader of bytes raises that are not those that were written.
_NOT_WHOLE = (ValueError, LookupError, TypeError, AttributeError, MemoryError, pa.ArrowException)

_WAYS_OUT = {
    errno.EMFILE: "raise the limit of open files (ulimit -n) or close some",
    errno.ENFILE: "close files, or raise the limit of the system (fs.file-max)",
    errno.ENOMEM: "give the process more memory",
    errno.EACCES: "let the user of this process read and write it",
    errno.EISDIR: "move that directory away",
    errno.ENOTDIR: "move the file away that is in the place of its directory",
    errno.EPERM: "let the user of this process read and write it",
}

#: Letters of an error that are worth a look.
_LONGEST = 300


@contextmanager
def naming(file: Path | str) -> Iterator[None]:
    """Name a file in the errors that a read of it raises.

    Raises
    ------
    FileGoneError
        When it is not there.
    FileDamagedError
        When it is not what was written.
    FileAccessError
        When the system does not let this process read it.
    """
    try:
        yield
    except SparkQueueError:
        raise
    except (OSError, *_NOT_WHOLE) as exc:
        raise error_of(file, exc) from exc


@contextmanager
def using(file: Path | str) -> Iterator[None]:
    """Name a file that the system refuses; that it is there, or not, is passed on.

    Parameters
    ----------
    file : Path or str
        The file, or the directory of those that are used, where the system names none.

    Raises
    ------
    FileAccessError
        When this process may not use it, or it is of another kind.
    """
    try:
        yield
    except (FileNotFoundError, FileExistsError, SparkQueueError):
        raise
    except OSError as exc:
        if exc.errno is None:
            raise
        raise access_error(exc.filename or file, exc.errno) from exc


def error_of(file: Path | str, exc: BaseException) -> SparkQueueError:
    """Return what to raise where a read of a file has raised something."""
    number = exc.errno if isinstance(exc, OSError) else None
    if number == errno.ENOENT:
        return FileGoneError(file)
    if number is not None and number not in _DAMAGE:
        return access_error(file, number)
    if Path(file).is_dir():
        return FileDamagedError(file, "is a directory")
    return FileDamagedError(file, f"is not what was written there ({_message(exc)})")


def access_error(file: Path | str, number: int) -> FileAccessError:
    """Return what to raise where the system refuses a file, by the number of its error."""
    return FileAccessError(file, number, _WAYS_OUT.get(number, "see the log of the system"))


def _message(exc: BaseException) -> str:
    said = f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__
    return " ".join(said.split())[:_LONGEST]
