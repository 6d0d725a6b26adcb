"""Copy of a table on an object store, in a directory of this process."""

from __future__ import annotations

import json
import os
import tempfile
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from spark_queue.errors import FileGoneError
from spark_queue.log.delta.commits import name_of, summed_up
from spark_queue.log.disk import scratch
from spark_queue.log.disk.leftover_files import Ages, named_files, replaced_files, sweep
from spark_queue.log.object.conditional_commits import files_of, text_of
from spark_queue.log.object.object_requests import Bucket

LOG = "_delta_log"
LAST = f"{LOG}/_last_checkpoint"

#: Seconds after which a table that nobody looked at may have lost its next commits to a clean-up;
#: and for which files stay that are not read any more.
OLD, _KEPT = 3_600.0, 600.0

#: Seconds for which a commit is kept that is summed up, as Delta's own default has it.
_LOG_KEPT = 30 * 86_400.0

#: Commits that are asked for at once, at most.
_WIDEST = 16


class TableCopy:
    """The commits of a table as far as this process has looked, and the files that it has read.

    What was committed never changes, so that the copy is right as far as it goes.

    Attributes
    ----------
    directory : Path
        Where the copy is; it is removed with the copy.
    version : int
        The newest version in it; -1 where the store has no table.
    is_contended : bool
        Whether others had committed at the last look.

    Parameters
    ----------
    bucket : Bucket
        Where the table is.
    """

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        place = scratch.begin()
        weakref.finalize(self, scratch.end, place, os.getpid())
        self.directory = Path(place)
        (self.directory / LOG).mkdir()
        self.version, self.is_contended = -1, False
        self._found = 0
        """Commits of others that the last look has found."""
        self._looked, self._changed = 0.0, time.monotonic()

    def age(self) -> float:
        """Return the seconds since the last look."""
        return abs(time.time() - self._looked)

    def idle(self) -> float:
        """Return the seconds since the last commit of anybody was seen."""
        return time.monotonic() - self._changed

    def pull(self) -> None:
        """Bring what others have committed since the last look."""
        self._looked = time.time()
        if self.version < 0:
            self._pull_checkpoint()
        known, width = self.version, self._found + 1
        # About as many are asked for at once as were there the last time.
        while self._pull_commits(min(width, _WIDEST)):
            width *= 2
        self._found = self.version - known
        self.is_contended = self._found > 0

    def is_behind(self) -> bool:
        """Tell whether commits may be gone that come next: a checkpoint has summed them up."""
        return self.age() >= OLD and 0 <= self.version < (self.summed_up() or 0)

    def summed_up(self) -> int | None:
        """Return the version of the newest checkpoint in the store."""
        last = self._bucket.get(LAST)
        return None if last is None else int(json.loads(last)["version"])

    def commit(
        self,
        version: int,
        actions: Sequence[Mapping[str, Any]],
        files: Iterable[str],
        *,
        repeats: bool = True,
    ) -> bool:
        """Commit a version to the store, then here; False where another one is there.

        Parameters
        ----------
        version : int
            The one after the newest.
        actions : sequence of mapping
            What the commit says.
        files : iterable of str
            Files of the copy that it names, and that the store has not.
        repeats : bool
            Whether the commit repeats what is in them, if they are small.
        """
        contents = {name: (self.directory / name).read_bytes() for name in files}
        self._bucket.at_once(lambda name: self._bucket.put(name, contents[name]), contents)
        text = text_of(actions, contents if repeats else {})
        found = self._bucket.create(commit_name(version), text)
        self.add_commit(version, found)
        return found == text

    def add_commit(self, version: int, text: bytes) -> None:
        """Add a commit that the store has."""
        for name, content in files_of(text):
            if not (self.directory / name).exists():
                self._keep(name, content)
        self._keep(commit_name(version), text)
        self.version, self._changed = max(self.version, version), time.monotonic()

    def bring_commit(self, version: int) -> None:
        """Bring a commit that may be older than the checkpoint by which the copy began."""
        name = commit_name(version)
        text = None if (self.directory / name).exists() else self._bucket.get(name)
        if text is not None:
            self._keep(name, text)

    def bring_summary(self, version: int) -> bool:
        """Bring a checkpoint; False where it is not there any more."""
        summary = self._bucket.get(summary_name(version))
        if summary is not None:
            self._keep(summary_name(version), summary)
            self._keep(LAST, json.dumps({"version": version, "size": 1}).encode())
        return summary is not None

    def catch_up(self) -> int:
        """Bring the newest checkpoint, and return its version; 0 where there is none."""
        known, newest = summed_up(self.directory) or 0, self.summed_up() or 0
        return newest if newest > known and self.bring_summary(newest) else known

    def put_summary(self) -> int:
        """Write the newest checkpoint of the copy to the store, and return its version."""
        version = summed_up(self.directory) or 0
        for name in (summary_name(version), LAST):
            self.put(name)
        return version

    def sweep(self, ages: Ages, begins: tuple[str, ...] = ("",)) -> int:
        """Remove from the store what no commit names, and commits that are summed up.

        Parameters
        ----------
        ages : Ages
            How old it has to be.
        begins : tuple of str
            How the names of objects begin that may go.
        """
        summed, named = self.summed_up(), named_files(self.directory)
        if ages.replaced:
            self.catch_up()
            gone = sorted(replaced_files(self.directory) or ())
            self._bucket.delete(gone)
            return sweep(self.directory, ages)
        if named is None or summed is None:
            return 0
        kept, now = {commit_name(0), *named}, datetime.now(timezone.utc)
        gone = [
            name
            for name, at in self._bucket.names().items()
            if name not in kept
            and name.startswith(begins)
            and may_go(name, (now - at).total_seconds(), summed, ages)
        ]
        self._bucket.delete(gone)
        return len(gone)

    def known_names(self) -> set[str]:
        """Return the names of the objects that the copy knows of, most of which are there."""
        last = self.summed_up()
        summaries = [] if last is None else [LAST, summary_name(last)]
        commits = map(commit_name, range(max(self.version, 0) + 1))
        return {*commits, *summaries, *(named_files(self.directory) or ())}

    def bring_files(self, names: Iterable[str]) -> None:
        """Bring files of rows.

        Raises
        ------
        FileGoneError
            When one is gone: somebody has put its rows elsewhere.
        """
        lacking = [name for name in names if not (self.directory / name).exists()]
        found = self._bucket.at_once(self._bucket.get, lacking)
        for name, content in zip(lacking, found, strict=True):
            if content is None:
                # What this process knows is too old to go by.
                self._looked = 0.0
                raise FileGoneError(f"{self._bucket.url}/{name}")
            self._keep(name, content)

    def put(self, name: str) -> None:
        """Write a file of the copy to the store, under a name that nobody else writes."""
        self._bucket.put(name, (self.directory / name).read_bytes())

    def shorten(self, version: int, live: Iterable[str]) -> None:
        """Remove commits that a checkpoint has summed up, and files that are not read any more.

        Parameters
        ----------
        version : int
            That of the checkpoint.
        live : iterable of str
            The files that are read.
        """
        kept = {self.directory / name for name in live}
        gone = [self.directory / commit_name(at) for at in range(1, version)]
        for path in [
            *gone,
            *(path for path in self.directory.glob("*.parquet") if path not in kept),
        ]:
            # One that is younger may be about to be committed.
            with suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > _KEPT:
                    path.unlink()

    def _pull_checkpoint(self) -> None:
        """Begin with what a checkpoint sums up, if there is one."""
        first = self._bucket.get(commit_name(0))
        if first is None:
            return
        self.add_commit(0, first)
        version = self.summed_up()
        if version is not None and self.bring_summary(version):
            self.version = version
            self.bring_commit(version)

    def _pull_commits(self, count: int) -> bool:
        """Bring so many commits, and tell whether all of them are there."""
        wanted = range(self.version + 1, self.version + 1 + count)
        found = self._bucket.at_once(self._bucket.get, map(commit_name, wanted))
        for version, text in zip(wanted, found, strict=True):
            if text is None:
                return False
            self.add_commit(version, text)
        return True

    def _keep(self, name: str, content: bytes) -> None:
        """Write an object into the copy, whole and at once."""
        file = self.directory / name
        file.parent.mkdir(exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, suffix=".tmp", delete=False) as draft:
            draft.write(content)
        Path(draft.name).replace(file)


def commit_name(version: int) -> str:
    """Return the object that a version of a table is, or will be."""
    return f"{LOG}/{name_of(version)}"


def summary_name(version: int) -> str:
    """Return the object of a checkpoint."""
    return f"{LOG}/{version:020}.checkpoint.parquet"


def may_go(name: str, age: float, summed: int, ages: Ages) -> bool:
    """Tell whether an object that no commit names is old enough to be nobody's.

    Parameters
    ----------
    summed : int
        The version of the newest checkpoint.
    """
    if not name.startswith(f"{LOG}/"):
        return age >= ages.others
    version = name.rpartition("/")[2][:20]
    return version.isdecimal() and int(version) < summed and age >= _LOG_KEPT
