"""A queue in a session, with several readers."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from spark_queue.delta.commands import readers
from spark_queue.delta.commands.readers import Start
from spark_queue.delta.input.columns import of_spark
from spark_queue.delta.input.ddl import parse_columns
from spark_queue.delta.input.kinds import Field
from spark_queue.delta.store.store import Store
from spark_queue.maintaining import Maintaining
from spark_queue.opened import ReaderRegistry
from spark_queue.reader import Reader, Working
from spark_queue.reader_config import require_reader


class Registering(Working, Maintaining, ReaderRegistry[Reader]):
    """A queue for which readers may be registered."""

    def read_stream(self, reader: str, *, start: Start = "tail") -> DataFrame:
        """Return the items as a plain stream, for a query with a checkpoint of its own.

        The reader is registered, so that its items are kept: say with :meth:`Reader.advance`, from
        ``foreachBatch`` or from time to time, up to which step the query is done.

        Parameters
        ----------
        reader : str
            Its name. A reader either claims or streams.
        start
            As for :meth:`reader`.

        Returns
        -------
        DataFrame
            A stream with the user's columns, ``_seq`` and ``_step``, each item once.
        """
        require_reader(reader, start)
        self._reader = None
        return Reader(readers.register(self._main, reader, None, start, streams=True)).stream()

    def _columns_of(self, schema: StructType | str) -> tuple[Field, ...]:
        return of_spark(parse_columns(schema))

    def _make_reader(self, reader: Store) -> Reader:
        return Reader(reader)
