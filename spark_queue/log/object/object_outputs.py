"""Tables of results on an object store, whose commits are conditional PUTs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_queue.errors import SparkNeededError
from spark_queue.log.delta.claim_record import ClaimRecord, find_record
from spark_queue.log.disk.append_files import OURS
from spark_queue.log.disk.delta_rs import write_checkpoint
from spark_queue.log.disk.leftover_files import Ages
from spark_queue.log.object.conditional_commits import FEATURE, first_text
from spark_queue.log.object.object_copy import LOG, TableCopy, commit_name
from spark_queue.log.object.object_requests import Bucket
from spark_queue.log.output.outputs import KEPT, OFTEN, AppendName, ResultTable, require_plain_types
from spark_queue.overriding import override

if TYPE_CHECKING:
    from deltalake import DeltaTable


class ObjectResultTable(ResultTable):
    """Table of results in the objects below a prefix; only this library writes it.

    Parameters
    ----------
    bucket : Bucket
        Where it is, or is to be.
    what, source : str
        As for a table on the disk.
    """

    def __init__(self, bucket: Bucket, *, what: str = "output", source: str = "returns") -> None:
        self._bucket, self._copy = bucket, TableCopy(bucket)
        super().__init__(self._copy.directory, is_synced=False, what=what, source=source)
        self._name = f"the {what} {bucket.url!r}"

    @property
    def directory(self) -> Path:
        """Where its copy is."""
        return self._copy.directory

    @property
    @override
    def location(self) -> str:
        return self._bucket.url

    @override
    def exists(self) -> bool:
        # Who has made it may have cleaned up the first commit, but then not the last checkpoint.
        return self._first() is not None or self._copy.summed_up() is not None

    @override
    def is_conditional(self) -> bool:
        return FEATURE.encode() in (self._first() or b"")

    def _first(self) -> bytes | None:
        return self._bucket.get(commit_name(0))

    @override
    def make(self, columns: pa.Schema) -> None:
        from deltalake import Schema  # noqa: PLC0415 - takes a while

        require_plain_types(self._name, columns)
        text = first_text(Schema.from_arrow(columns).to_json(), KEPT)
        if self._bucket.create(commit_name(0), text) == text:
            self._bucket.require_refusal(commit_name(0), text)

    @override
    def record(self, name: str) -> ClaimRecord | None:
        return find_record(self.directory, name, self._copy.bring_commit)

    @contextmanager
    def _hold(self) -> Iterator[DeltaTable]:
        """See the table as it is now: of two who write at once the store refuses one."""
        yield self._opened()

    def _opened(self) -> DeltaTable:
        if self._copy.is_behind():
            self._copy = TableCopy(self._bucket)
        if self._copy.version < 0 and not self.is_conditional():
            why = "it was made by others, whose commits would be written over"
            raise SparkNeededError(f"to write to {self._name}", why)
        self._copy.pull()
        return super()._opened()

    def _why_spark(self, table: DeltaTable) -> str | None:
        features = table.protocol().writer_features
        return None if features == [FEATURE] else f"it asks its writers for {features}"

    def _commit(
        self,
        table: DeltaTable,
        rows: pa.Table | None,
        transaction: AppendName,
        metadata: str | None,
    ) -> bool:
        return self._append(table, rows, transaction, metadata, self._put_commit)

    def _put_commit(
        self,
        log: Path,
        version: int,
        actions: Sequence[Mapping[str, Any]],
        *,
        files: Sequence[Path] = (),
        is_synced: bool,
    ) -> bool:
        del is_synced
        names = [str(file.relative_to(log.parent)) for file in files]
        if self._copy.commit(version, actions, names, repeats=False):
            return True
        self._bucket.delete(names)
        return False

    def _write_summary(self, table: DeltaTable, *, cleans_up: bool) -> None:
        if table.version() + 1 - self._copy.catch_up() < OFTEN:
            # Somebody else has written one.
            return
        write_checkpoint(self.directory)
        version = self._copy.put_summary()
        if cleans_up:
            self._copy.sweep(Ages(), (f"{LOG}/", OURS))
        self._copy.shorten(version, ())

    def _bring(self, names: Iterable[str]) -> None:
        self._copy.bring_files(names)
