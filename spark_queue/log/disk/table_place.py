"""Place where a process reads the files of a table, and from where it commits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar

from spark_queue.log.disk.fsync import Birth
from spark_queue.log.disk.leftover_files import Ages


# A disk needs nothing of what is empty here.
class TablePlace(ABC):
    """Files of a table in a directory of this machine.

    They are the table itself (:class:`DiskStorage`), as it is written here; or a copy of what any
    other storage has (:class:`TableCopy`), which is right as far as it goes.

    Attributes
    ----------
    is_remote : bool
        Whether each look is a request.
    feature : str, optional
        The one feature that writers of the table have to know.
    directory : Path
        Where the files are.
    """

    is_remote: ClassVar[bool] = False
    feature: ClassVar[str | None] = None
    directory: Path

    @property
    @abstractmethod
    def url(self) -> str:
        """The table, for messages."""

    @abstractmethod
    def is_made(self) -> bool:
        """Return whether the table is there, and was not cut while it was made."""

    @abstractmethod
    def has_version(self, version: int) -> bool:
        """Return whether the table is there, at that version or a later one."""

    def refresh(self) -> None:  # noqa: B027
        """Bring the newest commits, unless the calling thread keeps the table still."""

    def bring_commit(self, version: int) -> None:  # noqa: B027
        """Bring a commit into the directory."""

    def bring(self, names: Iterable[str]) -> None:  # noqa: B027
        """Bring files of rows into the directory.

        Raises
        ------
        FileGoneError
            A file is gone: its rows were merged into another.
        """

    @abstractmethod
    def commit(
        self,
        version: int,
        actions: Sequence[Mapping[str, Any]],
        *,
        files: Sequence[str] = (),
        is_synced: bool,
    ) -> bool:
        """Make a version of new files in the directory; False if the version is taken.

        Parameters
        ----------
        version : int
            The one after the newest.
        actions : sequence of mapping
            The content of the commit.
        files : sequence of str
            New files of the directory that it names.
        is_synced : bool
            Whether all of it is on the disk when this returns.
        """

    @abstractmethod
    def publish(self, name: str) -> None:
        """Make a new file of the directory as safe as a step."""

    @abstractmethod
    def discard(self, names: Iterable[str]) -> None:
        """Remove files that no commit names."""

    def secure(self, table: Birth, version: int, *, is_wanted: bool) -> bool:  # noqa: ARG002
        """Return whether a version is on the disk; if that is wanted, force it there first."""
        return False

    def force(self) -> None:  # noqa: B027
        """Force all commits to the disk, with the files that they name."""

    def make_room(self) -> None:  # noqa: B027
        """Empty a large redo file: force its steps to their places on the disk."""

    def note(self, table: Birth, version: int, *, is_forced: bool) -> None:  # noqa: B027
        """Remember a commit of this process."""

    @abstractmethod
    def summed_up(self) -> int:
        """Return the version of the newest checkpoint; 0 for none."""

    def put_summary(self, live: Callable[[], Collection[str]]) -> None:  # noqa: B027
        """Publish the newest checkpoint of the directory, whose live files stay."""

    @abstractmethod
    def sweep(self, ages: Ages | None) -> int:
        """Remove leftovers, and return how many."""

    @abstractmethod
    def lock(self, name: str, timeout: float) -> AbstractContextManager[bool]:
        """Hold a lock for a block; yields False if another holder keeps it beyond the timeout."""
