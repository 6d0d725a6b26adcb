"""Tables on object stores, for a session without Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from spark_queue.delta.tables.address import TableAddress
from spark_queue.delta.tables.log import Log
from spark_queue.delta.tables.object_log import ObjectLog
from spark_queue.delta.tables.object_requests import Bucket
from spark_queue.delta.tables.wishes import PlainSession
from spark_queue.extras import load


class ObjectTables:
    """The tables of queues on an object store.

    Parameters
    ----------
    storage : mapping or ObjectStore, optional
        Options of ``obstore.store.from_url``, or a store of ``obstore``, of a whole bucket.
    """

    kept = "disk"

    def __init__(self, storage: Mapping[str, Any] | object | None = None) -> None:
        self._storage = {} if storage is None else storage
        self._stores: dict[str, Any] = {}

    def log(
        self, session: PlainSession, address: TableAddress, parse: Callable[[str], Any]
    ) -> Log[Any]:
        """Return the table at an address as a log, whether or not it is there."""
        return ObjectLog(session, address, parse, self._bucket(address.target))

    def _bucket(self, url: str) -> Bucket:
        parts = urlsplit(url)
        if not isinstance(self._storage, Mapping):
            return Bucket(self._storage, url, parts.path.strip("/"))
        # What of the path names a bucket is the store's to say, which takes the rest for a prefix.
        queue, _, table = url.rpartition("/")
        if queue not in self._stores:
            stores = load("obstore.store", f"a queue at {queue}")
            self._stores[queue] = stores.from_url(queue, **self._storage)
        return Bucket(self._stores[queue], url, table)
