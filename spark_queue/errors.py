"""Every error of the library, split by what the caller should do next.

::

    SparkQueueError
    ├── InvalidConfigError       fix the configuration            (ValueError)
    ├── InvalidArgumentError     fix the call                     (ValueError)
    │   └── InvalidExpressionError  fix the SQL: Spark refuses it, too
    ├── QueueNotFoundError       create the queue, fix the name   (LookupError)
    ├── QueueExistsError         open it instead                  (ValueError)
    ├── FormatVersionError       upgrade the library, or make a new queue
    ├── SchemaMismatchError      fix the data                     (ValueError)
    ├── ResultMismatchError      fix what the handler returns     (ValueError)
    ├── OutputRefusedError       change the constraint of the output, or what the handler returns
    ├── DuplicateItemError       drop the duplicates, or skip them
    ├── BatchForgottenError      skip the batch, or give it another number or source
    ├── BatchMismatchError       give new rows a new number, or name another source
    ├── OldCheckpointError       put back the newest checkpoint, or begin with an empty one
    ├── OutcomesGoneError        read them before the retention   (LookupError)
    ├── WriterLockedError        try again, or close the front that holds the queue
    ├── UnsafeSessionError       change the session's settings
    ├── SetupError               install what the command needs
    │   └── PackageMissingError  install the extra that it names  (ModuleNotFoundError)
    ├── SparkNeededError         open the queue with a session of Spark
    ├── LeaseLostError           drop the work: someone else holds the items now
    ├── CannotUndoError          do what it says instead: this is not taken back
    ├── SettingsChangedError     look at the setting again, and decide once more
    ├── LogDamagedError          restore the tables of the queue
    ├── LogFileError             name another file, or restore it
    │   └── FileDamagedError     put back the file that it names   (OSError)
    │       └── FileGoneError    the same: it is not there         (FileNotFoundError)
    ├── FileAccessError          let the process use the file, and try again (OSError)
    ├── FencedError              drop the work: someone else has taken over
    ├── ReaderNotFoundError      add the reader, fix the name     (LookupError)
    ├── StepLostError            retry later: too many other writers
    ├── QueueFullError           wait, or take items first        (queue.Full)
    ├── ReaderFullError          wait, or work the reader off     (queue.Full)
    ├── QueueShutDownError       stop using the queue             (queue.ShutDown)
    │   └── JournalFailedError   open the queue again
    ├── AbortedError             stop: somebody asked for it
    ├── TaskExpiredError         it never ran: ask again          (TimeoutError)
    ├── DeadlockError            do not wait on yourself
    ├── Reject                   raised by a handler: dead-letter this item now
    └── RetryAfter               raised by a handler: have this item again later
"""

from __future__ import annotations

import queue
import sys
from collections.abc import Sequence
from datetime import timedelta

from spark_queue.log_errors import (
    BatchForgottenError as BatchForgottenError,
    BatchMismatchError as BatchMismatchError,
    DuplicateItemError as DuplicateItemError,
    FencedError as FencedError,
    FileAccessError as FileAccessError,
    FileDamagedError as FileDamagedError,
    FileGoneError as FileGoneError,
    FormatVersionError as FormatVersionError,
    LogDamagedError as LogDamagedError,
    LogFileError as LogFileError,
    OldCheckpointError as OldCheckpointError,
    OutcomesGoneError as OutcomesGoneError,
    SettingsChangedError as SettingsChangedError,
    SparkQueueError as SparkQueueError,
    StepLostError as StepLostError,
    UnsafeSessionError as UnsafeSessionError,
    WriterLockedError as WriterLockedError,
)
from spark_queue.wording import did_you_mean as did_you_mean, plural, shorten, some_of

if sys.version_info >= (3, 13):
    _ShutDown: type[Exception] = queue.ShutDown
else:
    _ShutDown = Exception


class InvalidConfigError(SparkQueueError, ValueError):
    """Raised when a configuration has an unknown name, or values that do not fit together."""


class InvalidArgumentError(SparkQueueError, ValueError):
    """Raised when an argument of a call is out of its range or of the wrong kind."""


class InvalidExpressionError(InvalidArgumentError):
    """Raised when SQL names a missing column, or is no condition where one is needed."""


class QueueNotFoundError(SparkQueueError, LookupError):
    """Raised when a queue is opened that is not there.

    Attributes
    ----------
    name : str
        The name or path that was asked for.
    """

    def __init__(self, name: str, why: str = "there is no such queue") -> None:
        super().__init__(f"cannot open queue {name!r}: {why}; make it with create()")
        self.name = name


class QueueExistsError(SparkQueueError, ValueError):
    """Raised when a queue is created under a name that is taken.

    Attributes
    ----------
    name : str
        The name or path that was asked for.
    """

    def __init__(self, name: str, why: str = "") -> None:
        exists = f"queue {name!r} exists already; open it, or drop it first"
        super().__init__(f"queue {name!r} cannot be made: {why}" if why else exists)
        self.name = name


class SchemaMismatchError(SparkQueueError, ValueError):
    """Raised when a frame lacks a column of the queue, or has it with another type.

    Attributes
    ----------
    column : str
        The column that does not fit.
    """

    def __init__(self, column: str, problem: str) -> None:
        super().__init__(f"column {shorten(column)}: {problem}")
        self.column = column


class ResultMismatchError(SparkQueueError, ValueError):
    """The failure of an item whose handler's result does not fit ``returns``.

    Attributes
    ----------
    seq : int or None
        The item; ``None`` where it is about a whole table of results.
    """

    def __init__(self, seq: int | None, problem: str) -> None:
        of = "" if seq is None else f" for seq {seq}"
        super().__init__(f"the handler's result{of} does not fit returns: {problem}")
        self.seq = seq


class OutputRefusedError(SparkQueueError):
    """Raised when an output refuses rows of a claim, and no single row explains it.

    Attributes
    ----------
    output : str
        The table, as the call named it.
    """

    def __init__(self, output: str, claim_id: str, said: str) -> None:
        super().__init__(
            f"output {output!r} refuses rows of claim {claim_id}: {said}; nothing was written, and "
            "the items are ready again: change the constraint, or what the handler returns"
        )
        self.output = output


class SetupError(SparkQueueError):
    """Raised when something that a command needs is not installed."""


class PackageMissingError(SetupError, ModuleNotFoundError):
    """Raised when a package of an extra is needed and not installed.

    Attributes
    ----------
    extra : str
        The extra that brings it.
    """

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(
            f"{what} needs {package}, which is not installed: pip install 'spark-queue[{extra}]'"
        )
        self.name = package
        self.extra = extra


class SparkNeededError(SparkQueueError):
    """Raised when a queue without a session needs Spark for an operation.

    Attributes
    ----------
    what : str
        What was asked for.
    why : str
        Why it needs Spark.
    """

    def __init__(self, what: str, why: str) -> None:
        super().__init__(
            f"{what} needs a session of Spark: {why}; open the queue with DeltaQueue.open(spark, "
            "...), or leave it to a process that has one"
        )
        self.what = what
        self.why = why


class LeaseLostError(SparkQueueError):
    """Raised when items were settled or renewed by someone who no longer holds them.

    What the late holder wrote for these items has no effect.

    Attributes
    ----------
    seqs : tuple of int
        The items that were lost; empty where the claim had settled all of its items before.
    """

    def __init__(
        self, seqs: Sequence[int], why: str = "settled before, or a later claim or cancel took them"
    ) -> None:
        which = plural(len(seqs), "item is", "items are") if seqs else "the items of the claim are"
        named = f": seq {some_of(seqs)}" if seqs else ""
        super().__init__(f"{which} no longer held ({why}){named}")
        self.seqs = tuple(seqs)


class CannotUndoError(SparkQueueError):
    """Raised when a step cannot be undone; nothing was written.

    Attributes
    ----------
    queue : str
        The queue.
    step : int
        The step of its status log.
    what : str
        What it was.
    """

    def __init__(self, queue: str, step: int, what: str, why: str) -> None:
        super().__init__(f"step {step} of queue {queue!r} {what}: {why}")
        self.queue = queue
        self.step = step
        self.what = what


class ReaderNotFoundError(SparkQueueError, LookupError):
    """Raised when a queue has no reader of a name.

    Attributes
    ----------
    reader : str
        The name that was asked for; empty for the default reader.
    """

    def __init__(self, queue: str, reader: str, known: Sequence[str]) -> None:
        asked = f"reader {shorten(reader)}" if reader else "default reader, since it has named ones"
        hint = did_you_mean(reader, known) if known else "; it has none"
        super().__init__(f"queue {queue!r} has no {asked}{hint}")
        self.reader = reader


class QueueFullError(SparkQueueError, queue.Full):
    """Raised when an item does not fit into a bounded queue.

    Attributes
    ----------
    item : object
        The item that was refused.
    size : int
        How many items the queue held.
    """

    def __init__(self, item: object, size: int) -> None:
        super().__init__(f"Queue overflow: {plural(size, 'item')} queued, {shorten(item)} refused")
        self.item = item
        self.size = size


class ReaderFullError(SparkQueueError, queue.Full):
    """Raised when a reader of a queue has no room for a frame; nothing was enqueued.

    Attributes
    ----------
    reader : str
        The reader that is full.
    rows : int
        How many rows the frame has.
    """

    def __init__(self, queue: str, reader: str, rows: int) -> None:
        who = f"reader {shorten(reader)}" if reader else "the reader"
        super().__init__(
            f"{who} of queue {queue!r} has no room for {plural(rows, 'row')}; try later, raise its "
            "limit, or take what fits with on_full='partial'"
        )
        self.reader = reader
        self.rows = rows


class QueueShutDownError(SparkQueueError, _ShutDown):
    """Raised when a queue is used after its shutdown; a ``queue.ShutDown`` where Python has it."""


class JournalFailedError(QueueShutDownError):
    """Raised when a journal could not be written: open the queue again, which recovers.

    What memory says is not what the journal holds then, so that the queue neither takes nor
    delivers anything more. The cause is the error of the journal.
    """


class AbortedError(SparkQueueError):
    """Raised when work was aborted without an error of the caller's own."""


class TaskExpiredError(SparkQueueError, TimeoutError):
    """Raised when a task was not started within the maximum waiting time; it never ran."""


class DeadlockError(SparkQueueError):
    """Raised when a caller would wait for itself."""


class Reject(SparkQueueError):  # noqa: N818 - a verb, raised by users' handlers
    """Raised by a handler to send its item to the dead letters at once, without a retry."""


class RetryAfter(SparkQueueError):  # noqa: N818 - a wish, raised by users' handlers
    """Raised by a handler to have its item again later, in its old place and without a charge.

    No attempt is counted, but a deferral: after ``max_deferrals`` of them the item is dead.

    Attributes
    ----------
    after : timedelta
        How long from the settle on the item waits at least.
    pause : str or None
        By which key of the item no other one starts for as long: the text of a key expression, or
        ``""`` for the fair key, which ``pause=True`` means.
    charge : bool
        Whether it is a failure all the same, with this wait in the place of the policy's.

    Raises
    ------
    InvalidArgumentError
        When the wait is not from 0 seconds to 100 years, or the charge no truth value.
    """

    def __init__(
        self,
        after: float | timedelta,
        message: str | None = None,
        *,
        pause: bool | str = False,
        charge: bool = False,
    ) -> None:
        self.after = require_after("after", after)
        self.pause = pause_of(pause)
        if not isinstance(charge, bool):
            raise InvalidArgumentError(f"charge is {shorten(charge)}: it must be True or False")
        self.charge = charge
        super().__init__(message or f"again in {self.after.total_seconds():g} s")


def pause_of(pause: object, *, has_end: bool = True) -> str | None:
    """Return by which key is to be paused, ``""`` for the fair key; raise where it is none."""
    if pause is False:
        return None
    if not has_end:
        raise InvalidArgumentError(
            f"pause is {shorten(pause)}, and after is not given: say for how long the key is paused"
        )
    if pause is True:
        return ""
    if not isinstance(pause, str) or not pause:
        raise InvalidArgumentError(
            f"pause is {shorten(pause)}: it must be True, for the fair key, or the text of a key"
        )
    return pause


#: The longest wait of an item: beyond it an instant may have no year.
LONGEST_WAIT = timedelta(days=36_525)


def require_after(name: str, after: object) -> timedelta:
    """Return a wait, given in seconds or as a duration; raise where it is none."""
    found = after
    if isinstance(after, int | float) and not isinstance(after, bool):
        is_one = 0 <= after <= LONGEST_WAIT.total_seconds()
        found = timedelta(seconds=after) if is_one else None
    if not isinstance(found, timedelta) or not timedelta(0) <= found <= LONGEST_WAIT:
        raise InvalidArgumentError(
            f"{name} is {shorten(after)}: it must be seconds or a timedelta, from 0 to 100 years"
        )
    return found
