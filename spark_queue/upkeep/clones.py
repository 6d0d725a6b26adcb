"""Clone of a queue, to try changes on it and leave the original alone.

The clone has the items, states, positions and settings of a queue as of one instant, and shares its
files as long as neither rewrites them; from then on the two know nothing of each other. Nothing of
a clone may reach what belongs to the original: so in its first steps, before it can be seen,
all claims are given back (to settle a claim of a dead holder asks the output of the
claim, and shuts the holder out there), no front holds it, and no reader sends items on.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from spark_queue.commands import admin, readers
from spark_queue.errors import InvalidArgumentError, QueueExistsError, SparkNeededError
from spark_queue.log import addresses, maintenance
from spark_queue.log.addresses import TableAddress
from spark_queue.log.delta.log import Log
from spark_queue.log.disk import log_copy
from spark_queue.log.disk.fsync import make_directory, sync_directory
from spark_queue.log.heads import Hold, QueueHead, Registered, StatusHead, following
from spark_queue.log.session_options import PlainSession, promises_disk
from spark_queue.log.step_events import logger
from spark_queue.state import existence
from spark_queue.state.steps import Answer, Step, on_items, until_done
from spark_queue.state.store import Store
from spark_queue.upkeep.purge_items import standstill

_ACTION = "clone"

#: Where a reader sends what it does not keep.
_TARGETS = ("expire_to", "punt_to", "punt_many_to")


def clone(store: Store, to: str) -> Store:
    """Make a queue with all that another one has, and return it.

    Parameters
    ----------
    store : Store
        The queue. Others wait with their steps until then, but not drivers on other machines.
    to : str
        The name or path of the clone.

    Raises
    ------
    QueueExistsError
        When there is something in its place.
    InvalidArgumentError
        When the queue's tables are such as cannot be had twice.
    SparkNeededError
        When they are not on this machine's disk, or would not be, and there is no session.
    StepLostError
        When drivers on other machines enqueue all the time.
    """
    begun = existence.beside(store, to)
    if existence.exists(begun) or begun.queue.exists():
        raise QueueExistsError(begun.name)
    source, target = _home(store), _home(begun)
    # Logs that were looked at before they existed are looked at again.
    made = existence.beside(store, to)
    if source is not None and target is not None:
        _on_disk(store, source, target)
        return made
    if isinstance(store.session, PlainSession):
        raise SparkNeededError(f"to clone {store.name!r}", "a table is not on this machine's disk")
    if store.handle.tables is not None:
        raise InvalidArgumentError(
            f"a clone of {store.name!r} would be a shallow one, and Delta does not write beside "
            "tables whose commits are conditional PUTs: enqueue its items into a new queue"
        )
    if (source is None) != (target is None):
        raise InvalidArgumentError(
            f"a clone of {store.name!r} in {made.name!r} would be on another store: a shallow "
            "clone is beside its files"
        )
    _beside(store, made)
    return made


def _home(store: Store) -> Path | None:
    """Return the directory on this machine's disk of a queue by path."""
    status = addresses.directory_of(store.session, store.handle.address.status)
    return None if status is None else status.parent


def _on_disk(store: Store, source: Path, target: Path) -> None:
    if target == source or source in target.parents:
        raise InvalidArgumentError(f"the clone {str(target)!r} would be inside of the queue")
    if target.exists() and any(target.iterdir()):
        raise QueueExistsError(str(target), "the directory is there, and not empty")
    make_directory(target.parent)
    # It cannot be found before it is whole.
    begun = target.with_name(f".clone-{uuid.uuid4().hex}")
    begun.mkdir()
    try:
        with standstill(store):
            _copy(store, begun)
        made = existence.beside(store, str(begun))
        _begin(made)
        _leave(made)
        begun.rename(target)
        sync_directory(target.parent)
    except BaseException:
        shutil.rmtree(begun, ignore_errors=True)
        raise


def _copy(store: Store, to: Path) -> None:
    is_synced = promises_disk(store.session)
    seen = [store.of_reader(number) for number in _numbers(store, store.queue_head())]
    logs: list[tuple[Log[Any], QueueHead | StatusHead]] = [(store.queue, store.queue_head())]
    logs += [(reader.status, reader.status_head()) for reader in seen]
    for log, head in logs:
        directory = store.handle.place.directory_of(log)
        if directory is not None:
            log_copy.copy(directory, to / directory.name, head, is_synced=is_synced)


def _beside(store: Store, made: Store) -> None:
    """Make a clone of tables that share the files of others, wherever those are."""
    tables = import_module("spark_queue.upkeep.spark_upkeep")
    begun: list[Log[Any]] = []
    try:
        with standstill(store):
            for number, version in _at_one_instant(store, tables.version_of):
                old, new = (_log_of(one, number) for one in (store, made))
                # A clone is read by itself: a power cut may not take what its files share.
                old.force()
                tables.shallow(store, new.address, old.address, version)
                begun.append(new)
        _begin(made)
    except BaseException:
        made.forget()
        for log in reversed(begun):
            _remove(made, log)
        raise


#: Tells the newest version of a table.
_VersionOf = Callable[[Store, TableAddress], int]


def _at_one_instant(store: Store, version_of: _VersionOf) -> list[tuple[int | None, int]]:
    """Return a version of each log, by its reader, the item log's first: all of one instant.

    The item log comes first. Drivers on other machines go on. A status log may name any item that
    is enqueued by then, so its version is read between two reads of the item log's, which must be
    the same. Readers are independent: their versions need not be of one instant.
    """

    def look() -> list[tuple[int | None, int]] | None:
        first = version_of(store, store.queue.address)
        numbers = _numbers(store, store.queue.head() or QueueHead())
        found = [(n, version_of(store, _log_of(store, n).address)) for n in numbers]
        is_one = version_of(store, store.queue.address) == first
        return [(None, first), *found] if is_one else None

    return until_done(_ACTION, look, patience=0)


def _log_of(store: Store, number: int | None) -> Log[Any]:
    """Return the status log of a reader; the item log for none."""
    return store.queue if number is None else store.of_reader(number).status


def _remove(made: Store, log: Log[Any]) -> None:
    """Remove a table of a clone that failed."""
    try:
        log.drop()
    except InvalidArgumentError as exc:
        logger.warning("%s: a table is left of a clone that failed: %s", made.name, exc)


def _numbers(store: Store, head: QueueHead) -> list[int]:
    """Return the readers that have a log; the first has the queue's configuration."""
    named = sorted({0, *head.readers}, reverse=True)
    return [number for number in named if store.of_reader(number).status.exists()]


def _leave(made: Store) -> None:
    """Have nothing more done, in this process, where a clone is made."""
    for log in (_log_of(made, number) for number in (None, *_numbers(made, made.queue_head()))):
        directory = made.handle.place.directory_of(log)
        if directory is not None:
            maintenance.leave(directory)
    made.forget()


def _begin(made: Store) -> None:
    """Make a clone an independent queue, by its first steps."""
    # Steps of the front that held the original are no foreign steps here.
    made.handle.holder = made.queue_head().hold.by
    on_items(made, _ACTION, lambda at: _free(at.queue))
    made.handle.holder = ""
    for reader in readers.every(made):
        admin.give_back(reader, _ACTION)


def _free(before: QueueHead) -> Answer[None]:
    kept = {number: _sends_nothing(facts) for number, facts in before.readers.items()}
    # A query goes on filling the original: here its checkpoint would leave batches out.
    freed = following(before, hold=Hold(), readers=kept, streams={})
    return Step(head=freed, counts={}, answer=None)


def _sends_nothing(facts: Registered) -> Registered:
    kept = {name: value for name, value in facts.config.items() if name not in _TARGETS}
    return replace(facts, config=kept)
