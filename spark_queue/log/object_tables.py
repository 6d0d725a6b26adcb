"""Tables on object stores whose commits are conditional PUTs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from spark_queue.errors import InvalidArgumentError
from spark_queue.extras import load
from spark_queue.log.addresses import TableAddress, is_on_object_store, require_nobody
from spark_queue.log.delta.log import Log
from spark_queue.log.delta_log import DeltaLog
from spark_queue.log.log_kinds import TableSource
from spark_queue.log.object.object_storage import FileSystemStorage, ObjectStorage, is_file_system
from spark_queue.log.object.remote_storage import RemoteStorage
from spark_queue.log.object.table_copy import TableCopy
from spark_queue.log.session_options import PlainSession, Session
from spark_queue.overriding import override
from spark_queue.wording import shorten

if TYPE_CHECKING:
    from spark_queue.log.output.outputs import ResultTable

#: Options of ``obstore.store.from_url``, a store of ``obstore``, or a file system of ``fsspec``.
StorageOptions: TypeAlias = "Mapping[str, Any] | object"


def tables_at(path: object, storage: StorageOptions | None) -> ObjectTables | None:
    """Return the tables of an object store, where a path or its options say that it is on one."""
    is_there = storage is not None or is_on_object_store(path)
    return ObjectTables(storage) if is_there else None


#: What a store of obstore is asked.
_ASKED = ("put", "get", "delete", "list")


class ObjectTables(TableSource):
    """The tables of queues on an object store.

    Parameters
    ----------
    storage : mapping, ObjectStore or AbstractFileSystem, optional
        Options of ``obstore.store.from_url``, a store of ``obstore`` of a whole bucket, or a file
        system of ``fsspec``.
    """

    kept = "disk"

    def __init__(self, storage: StorageOptions | None = None) -> None:
        self._storage = {} if storage is None else storage
        is_known = isinstance(storage, Mapping | None) or is_file_system(storage)
        if not is_known and not all(hasattr(storage, name) for name in _ASKED):
            raise InvalidArgumentError(
                f"storage is {shorten(storage)}: give options of the store as a mapping, or a "
                "store of obstore, or a file system of fsspec"
            )
        self._stores: dict[str, Any] = {}
        self._only: str | None = None
        """The bucket whose store was given."""

    def log(self, session: Session, address: TableAddress, parse: Callable[[str], Any]) -> Log[Any]:
        """Return the table at an address as a log, whether or not it is there."""
        kind = DeltaLog
        if not isinstance(session, PlainSession):
            kind = import_module("spark_queue.log.spark.spark_object_log").SparkObjectLog
        made: Log[Any] = kind(session, address, parse, self._bucket(address.target))
        return made

    @override
    def tables_beside(self, address: TableAddress) -> set[str]:
        return self._bucket(address.target).tables_beside()

    def results(self, url: str, what: str, source: str) -> ResultTable:
        """See :class:`TableSource`: a table that only this library writes."""
        from spark_queue.log.output.outputs import ResultTable  # noqa: PLC0415 - few write results

        place = TableCopy(self._bucket(url.rstrip("/")), is_log=False)
        return ResultTable(place, is_synced=False, what=what, source=source)

    def _require_bucket(self, name: str) -> None:
        if self._only is None:
            self._only = name
        # A path without a bucket is one of that store.
        if name not in ("", self._only):
            raise InvalidArgumentError(
                f"bucket {name!r} is not that of the store which was given for the queue, "
                f"{self._only!r}: use a place there, or give options of the store as storage"
            )

    def _bucket(self, url: str) -> RemoteStorage:
        _require_plain(url)
        if is_file_system(self._storage):
            return FileSystemStorage(self._storage, url)
        parts = urlsplit(url)
        if not isinstance(self._storage, Mapping):
            self._require_bucket(parts.netloc)
            return ObjectStorage(self._storage, url, parts.path.strip("/"))
        # What of the path names a bucket is the store's to say, which takes the rest for a prefix.
        queue, _, table = url.rpartition("/")
        if queue not in self._stores:
            stores = load("obstore.store", f"{queue}")
            # What is unclear is asked again here.
            options = {"retry_config": {"max_retries": 0}, **self._storage}
            try:
                self._stores[queue] = stores.from_url(queue, **options)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as exc:  # a panic of the client is no Exception
                why = f"{type(exc).__name__}: {exc}"
                raise InvalidArgumentError(
                    f"storage of {queue!r} is no options of its store ({why}); what is of "
                    "the HTTP client, as allow_http or timeout, is a mapping: client_options"
                ) from exc
        return ObjectStorage(self._stores[queue], url, table)


#: What ends the path of a URL, or stands for something else in it: clients of stores differ.
_MISTAKEN = "#?%"


def _require_plain(url: str) -> None:
    """Raise if a client of a store would read the place as another."""
    require_nobody(url)
    found = next((sign for sign in _MISTAKEN if sign in url), None)
    if found is not None:
        raise InvalidArgumentError(
            f"the place {shorten(url)} has {found!r}, behind which clients of stores read another "
            "place: use another name"
        )
