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
from spark_queue.log.log_kinds import TableSource
from spark_queue.log.object.object_log import ObjectLog
from spark_queue.log.object.object_requests import Bucket
from spark_queue.log.session_options import PlainSession, Session
from spark_queue.overriding import override
from spark_queue.wording import shorten

if TYPE_CHECKING:
    from spark_queue.log.output.outputs import ResultTable

#: Options of ``obstore.store.from_url``, or a store of ``obstore``.
Storage: TypeAlias = "Mapping[str, Any] | object"


def tables_at(path: object, storage: Storage | None) -> ObjectTables | None:
    """Return the tables of an object store, where a path or its options say that it is on one."""
    is_there = storage is not None or is_on_object_store(path)
    return ObjectTables(storage) if is_there else None


class ObjectTables(TableSource):
    """The tables of queues on an object store.

    Parameters
    ----------
    storage : mapping or ObjectStore, optional
        Options of ``obstore.store.from_url``, or a store of ``obstore``, of a whole bucket.
    """

    kept = "disk"

    def __init__(self, storage: Storage | None = None) -> None:
        self._storage = {} if storage is None else storage
        asked = ("put", "get", "delete", "list")
        if not isinstance(storage, Mapping | None) and not all(hasattr(storage, n) for n in asked):
            raise InvalidArgumentError(
                f"storage is {shorten(storage)}: give options of the store as a mapping, or a "
                "store of obstore"
            )
        self._stores: dict[str, Any] = {}
        self._only: str | None = None
        """The bucket whose store was given."""

    def log(self, session: Session, address: TableAddress, parse: Callable[[str], Any]) -> Log[Any]:
        """Return the table at an address as a log, whether or not it is there."""
        kind = ObjectLog
        if not isinstance(session, PlainSession):
            kind = import_module("spark_queue.log.spark.spark_object_log").SparkObjectLog
        made: Log[Any] = kind(session, address, parse, self._bucket(address.target))
        return made

    @override
    def results(self, url: str, what: str, source: str) -> ResultTable:
        from spark_queue.log.object.object_outputs import ObjectResultTable  # noqa: PLC0415 - few write results

        return ObjectResultTable(self._bucket(url.rstrip("/")), what=what, source=source)

    def _require_bucket(self, name: str) -> None:
        if self._only is None:
            self._only = name
        # A path without a bucket is one of that store.
        if name not in ("", self._only):
            raise InvalidArgumentError(
                f"bucket {name!r} is not that of the store which was given for the queue, "
                f"{self._only!r}: use a place there, or give options of the store as storage"
            )

    def _bucket(self, url: str) -> Bucket:
        _require_plain(url)
        parts = urlsplit(url)
        if not isinstance(self._storage, Mapping):
            self._require_bucket(parts.netloc)
            return Bucket(self._storage, url, parts.path.strip("/"))
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
        return Bucket(self._stores[queue], url, table)


#: What ends the path of a URL, or stands for something else in it: clients of stores differ.
_MISTAKEN = "#?%"


def _require_plain(url: str) -> None:
    """Raise where a client of a store takes another place than the one that is written."""
    require_nobody(url)
    found = next((sign for sign in _MISTAKEN if sign in url), None)
    if found is not None:
        raise InvalidArgumentError(
            f"the place {shorten(url)} has {found!r}, behind which clients of stores read another "
            "place: use another name"
        )
