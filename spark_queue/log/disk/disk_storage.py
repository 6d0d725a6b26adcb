"""Storage on this machine's disk, with fsync and fair locks."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from spark_queue.log import addresses
from spark_queue.log.delta import integrity
from spark_queue.log.delta.commits import commit_path, summed_up
from spark_queue.log.delta.integrity import seal
from spark_queue.log.disk import leftover_files, removal
from spark_queue.log.disk.fsync import (
    Birth,
    at_once,
    is_forced,
    note_forced,
    sync_commits,
    sync_directory,
    sync_file,
    sync_named,
)
from spark_queue.log.disk.leftover_files import Ages
from spark_queue.log.disk.redo_file import ENOUGH, RedoFile
from spark_queue.log.disk.table_place import TablePlace
from spark_queue.log.disk.write_lock import holding
from spark_queue.log.storage import WRITER
from spark_queue.log_errors import using
from spark_queue.overriding import override


class DiskStorage(TablePlace):
    """See :class:`TablePlace`: the files of a table on this machine's disk, used in place.

    Locks keep out all processes of this machine, in the order in which they come (ADR 22). What a
    step stands on is on the disk before it can be seen, and its name before it is told (ADR 21).

    Parameters
    ----------
    directory : Path
        Where the table is, or is to be.
    redoes : bool
        Whether small steps are forced by its redo file, which all who open the table know.
    """

    def __init__(self, directory: Path, *, redoes: bool = False) -> None:
        self.directory = directory
        self._redo = RedoFile(directory) if redoes else None
        if self._redo is not None:
            self._redo.restore()

    @override
    @property
    def url(self) -> str:
        return str(self.directory)

    def lock(self, name: str, timeout: float) -> AbstractContextManager[bool]:
        """See :meth:`TablePlace.lock`; the writers' lock raises at its timeout."""
        if name == WRITER:
            return _hold_writer(self.directory, timeout)
        return removal.resting(self.directory, timeout=timeout)

    @override
    def is_made(self) -> bool:
        return removal.is_made(self.directory)

    @override
    def has_version(self, version: int) -> bool:
        del version
        return addresses.has_log(self.directory)

    @override
    def commit(
        self,
        version: int,
        actions: Sequence[Mapping[str, Any]],
        *,
        files: Sequence[str] = (),
        is_synced: bool,
    ) -> bool:
        commit, content = commit_path(self.directory, version), seal(actions).encode()
        if not (is_synced and files and self._redo and self._redo.append(version, content, files)):
            named = map(self.directory.joinpath, files)
            return link_file(commit, content, tuple(named), is_synced=is_synced)
        is_ours = False
        try:
            is_ours = link_file(commit, content, is_synced=False)
        finally:
            if not is_ours:
                self._redo.take_back()
        return is_ours

    @override
    def publish(self, name: str) -> None:
        sync_named(self.directory / name)

    @override
    def discard(self, names: Iterable[str]) -> None:
        for name in names:
            with suppress(OSError):
                (self.directory / name).unlink()

    @override
    def secure(self, table: Birth, version: int, *, is_wanted: bool) -> bool:
        if is_wanted and not is_forced(table, version):
            self._sync(self._redo.commits() if self._redo else {})
        return is_forced(table, version)

    @override
    def force(self) -> None:
        self._sync({})
        if self._redo is not None:
            self._redo.empty()

    def _sync(self, known: Mapping[int, int]) -> None:
        with using(self.directory):
            sync_commits(self.directory, known)

    @override
    def make_room(self) -> None:
        if self._redo is not None:
            self._redo.empty(ENOUGH)

    @override
    def note(self, table: Birth, version: int, *, is_forced: bool) -> None:
        if is_forced:
            note_forced(table, version)
        integrity.note(self.directory, version, is_forced=is_forced)

    @override
    def summed_up(self) -> int:
        return summed_up(self.directory) or 0

    @override
    def sweep(self, ages: Ages | None) -> int:
        if self._redo is not None:
            # After a power cut it would make files again that are gone.
            self._redo.empty()
        return leftover_files.sweep(self.directory, ages)


# rule: order of forcing
def link_file(file: Path, content: bytes, others: Sequence[Path] = (), *, is_synced: bool) -> bool:
    """Make a file visible, whole and at once; False if one of its name is there.

    Before that its content is forced to the disk, and that of other files, each with its name.
    """
    new = file.with_name(f".{uuid.uuid4().hex}.tmp")
    try:
        with new.open("xb") as draft:
            draft.write(content)
        if is_synced:
            at_once([*(partial(sync_named, other) for other in others), partial(sync_file, new)])
        # A link, other than a rename, never replaces what is there.
        os.link(new, file)
    except FileExistsError:
        return False
    finally:
        new.unlink(missing_ok=True)
    if is_synced:
        sync_directory(file.parent)
    return True


@contextmanager
def _hold_writer(directory: Path, timeout: float) -> Iterator[bool]:
    with holding(str(directory), directory, timeout=timeout):
        yield True
