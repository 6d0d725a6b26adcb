"""Data source ``spark_queue``: the class that Spark pickles, and sends to processes of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from pyspark import __version__
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from spark_queue.errors import InvalidArgumentError, SetupError

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows that are sent to Spark together.
_TOGETHER = 10_000


class QueueSource(DataSource):
    """A queue on a disk, local or shared by all executors, or on an object store.

    ``spark.read.format("spark_queue").option("view", "status").load(path)`` reads a view of it:
    ``status``, ``dead``, ``items``, ``history`` (of the item ``seq``), ``outcomes``
    (of the enqueue ``step``), or a panel of its report: ``overview``, ``depth``, ``tenants``,
    ``errors``, ``retries``, ``groups``, ``workers``, ``readers``, ``steps``. With ``reader`` it is
    as that reader sees it, and with ``asOf`` as of a step of the status log or an instant. With
    ``short`` a ``status`` has the columns of ``status(short=True)``.

    ``df.write.format("spark_queue").mode("append").save(path)`` adds rows in one step, and
    ``writeStream`` each micro-batch, exactly once: the step names the query, or the option
    ``source``, and the batch. A frame is added once with the options ``source`` and ``batch``.
    ``orderBy`` and ``onDuplicate`` are as for :meth:`~spark_queue.DeltaQueue.enqueue`.

    ``spark.readStream.format("spark_queue").load(path)`` claims: the user's columns, ``_seq``,
    ``_lease`` and ``_attempts``, each item at least once, and acked when its micro-batch is done.
    Options are ``maxItemsPerTrigger`` (1,000), ``lease`` (seconds; the queue's), ``reader``,
    ``numPartitions`` (1) and ``sourceId``, which names the claims instead of a random id.

    On an object store the keys are those of the environment of all processes, or options:
    ``storage.access_key_id``, and ``storage.client_options.timeout``, are
    ``storage={"access_key_id": ..., "client_options": {"timeout": ...}}`` of
    :meth:`~spark_queue.LocalQueue.open`.

    The processes that read and commit have no session: a queue of a catalog, or on HDFS, is one for
    :class:`~spark_queue.DeltaQueue`.
    """

    @classmethod
    def name(cls) -> str:
        """Return what ``format`` calls it."""
        return "spark_queue"

    def schema(self) -> StructType:
        """Return the columns of the view."""
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - where it is used

        from spark_queue.data_source import views  # noqa: PLC0415 - takes a while

        is_view = bool(self.options.get("view"))
        return from_arrow_schema((views.schema if is_view else views.claim_schema)(self.options))

    def reader(self, schema: StructType) -> ViewReader:
        """Return what reads the view."""
        del schema
        if not self.options.get("view"):
            raise InvalidArgumentError(
                "format('spark_queue') is read by a view: name one, as in option('view', 'status')"
            )
        return ViewReader(self.options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return what claims items."""
        del schema
        if self.options.get("view"):
            raise InvalidArgumentError(
                "a view is no stream: leave out the option, and the stream claims; "
                "DeltaQueue.read_stream has the items as a stream that claims nothing"
            )
        kind = _load("claiming", "a stream of claims", "4.2: use process_stream")
        reader: DataSourceStreamReader = kind.ClaimReader(self.options)
        return reader

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001
        """Return what adds the rows of a frame."""
        from spark_queue.data_source.writing import BatchWriter  # noqa: PLC0415 - where it is used

        del schema
        return BatchWriter(self.options, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802
        """Return what adds the rows of a stream."""
        del schema
        kind = _load("stream_writing", "a stream into a queue", "4.1: use enqueue_stream")
        writer: DataSourceStreamWriter = kind.StreamWriter(self.options, overwrite=overwrite)
        return writer


def _load(module: str, what: str, needs: str) -> ModuleType:
    """Import a module that older releases of Spark have no bases for."""
    try:
        return import_module(f"spark_queue.data_source.{module}")
    except ImportError as exc:
        raise SetupError(f"this is Spark {__version__}; {what} needs Spark {needs}") from exc


class ViewReader(DataSourceReader):
    """Reads a view as of one instant, in one task."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Return the one part that a view has."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows."""
        from spark_queue.data_source import views  # noqa: PLC0415 - takes a while

        del partition
        for part in views.read(self._options):
            yield from part.to_batches(max_chunksize=_TOGETHER)
