"""Read errors of files, told as errors of this library."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from spark_queue.errors import FileAccessError, FileDamagedError, FileGoneError, SparkQueueError

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
