"""Keys of a configuration, with one text each in every session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spark_queue.columns import expressions
from spark_queue.columns.expressions import Expression
from spark_queue.columns.kinds import Field, Kind
from spark_queue.config import QueueConfig
from spark_queue.errors import (
    FormatVersionError,
    InvalidArgumentError,
    InvalidConfigError,
    InvalidExpressionError,
)
from spark_queue.flow import setting_of, stored_texts
from spark_queue.log.schema import FORMAT_VERSION, ONE_TEXT
from spark_queue.log.settings import Settings
from spark_queue.wording import shorten

#: Options of the configuration whose values are told apart by their text, and their columns.
KEYS = {"dedup_key": "_dedup_key", "fair_key": "_fair_key", "group_key": "_group_key"}

#: Types whose cast to a text depends on nothing.
PLAIN = ("tinyint", "smallint", "int", "bigint", "boolean", "date", "timestamp_ntz")

#: The types that have one text, beside decimals and what is made of these.
_WITH_TEXT = (*PLAIN, "string", "binary", "timestamp")

#: Up to so many digits behind the point, a small decimal is not written with an exponent.
PLAIN_SCALE = 6


def of(config: QueueConfig) -> Iterator[tuple[str, str]]:
    """Return the keys that a configuration has: the option, and its expression."""
    for option in KEYS:
        text = getattr(config, option)
        if text is not None:
            yield option, text
    yield from stored_of(config)


def stored_of(config: QueueConfig) -> list[tuple[str, str]]:
    """Return the other keys that are stored with an item: the option, and the expression."""
    return [(setting_of(text, config), text) for text in stored_texts(config)]


def require_same_everywhere(columns: Sequence[Field], config: QueueConfig) -> None:
    """Check that every key of a configuration has one text, in every session and at any time.

    Raises
    ------
    InvalidConfigError
        When one has not; it names the option, what is in the way, and what to write instead.
    """
    for option, text in of(config):
        _require_same(option, text, columns)


def _require_same(option: str, text: str, columns: Sequence[Field]) -> None:
    try:
        require_text(expressions.read(text, columns))
    except InvalidExpressionError as exc:
        raise InvalidConfigError(f"{option} is {shorten(text)}: {exc}") from exc
    except InvalidArgumentError as exc:
        raise InvalidConfigError(
            f"{option} is {shorten(text)}, which may be another text in another session: {exc}; "
            "compute "
            "it in the frames that are enqueued, as a column of the queue, and name that column"
        ) from exc


def require_text(expression: Expression) -> None:
    """Check that a key has a text.

    Raises
    ------
    InvalidArgumentError
        When it is of a type that has none, or that has several; it names the type.
    """
    for part in expression.parts:
        require_text(part)
    if expression.kind is not None:
        _require_text(expression.text, expression.kind)


def _require_text(what: str, kind: Kind) -> None:
    if kind.form == "struct":
        for field in kind.inner:
            _require_text(f"{what}.{field.name}", field.kind)
    elif kind.form == "array":
        _require_text(f"an element of {what}", kind.inner[0].kind)
    elif kind.form not in _WITH_TEXT and not kind.digits:
        raise InvalidArgumentError(
            f"{what} is {kind.simple}, which has no text that is the same everywhere"
        )


def require_same_texts(name: str, settings: Settings, columns: Sequence[Field]) -> None:
    """Check that keys have the texts which a queue of an older format has stored.

    Parameters
    ----------
    name : str
        The queue's name, for the error.
    settings : Settings
        Its settings.
    columns : sequence of Field
        The user's columns.

    Raises
    ------
    FormatVersionError
        When one has another text now, so that its duplicates would not be found.
    """
    if settings.format >= ONE_TEXT:
        return
    for option, text in of(settings.config):
        if not has_old_text(text, columns):
            raise FormatVersionError(
                name, settings.format, FORMAT_VERSION, f"{option} {shorten(text)}"
            )


def has_old_text(text: str, columns: Sequence[Field]) -> bool:
    """Whether Spark's own cast, which made the keys of format 1, gives the same text."""
    try:
        kind = expressions.read(text, columns).kind
    except InvalidArgumentError:
        return False
    return kind is not None and is_as_cast(kind)


def is_as_cast(kind: Kind) -> bool:
    """Whether Spark's own cast gives a type the same text."""
    if kind.digits:
        return kind.digits[1] <= PLAIN_SCALE
    return kind.form == "string" or kind.form in PLAIN
