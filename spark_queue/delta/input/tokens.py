"""Tokens of an expression (names, texts, numbers, signs), and the columns that names mean."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from spark_queue.delta.input.kinds import Field, Kind
from spark_queue.errors import InvalidArgumentError, InvalidExpressionError
from spark_queue.wording import did_you_mean

_TOKEN = re.compile(
    r"""[ \t\r\n]*(?:
      (?P<text>[rR]'[^']*'|'(?:[^'\\])*')
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<number>\d{1,40}L?(?![\w.]))
    | (?P<name>[A-Za-z_]\w*)
    | (?P<sign><=>|\|\||::|<>|!=|==|<=|>=|[(),.=<>%-])
    | (?P<end>\Z)
    )""",
    re.VERBOSE | re.ASCII,
)

#: Why some of what people write is no token.
_WHY_NOT = {
    '"': "\"...\" is a text in one session and a column in another: write '...'",
    "'": "what a backslash in a text is depends on the session: write r'...'",
    "[": "what [...] gives beyond the end depends on the session: use split_part(...)",
    "/": "/ makes fractions, whose digits differ between machines: use div or floor(...)",
    "+": "what a sum gives that is too large depends on the session",
    "*": "what a product gives that is too large depends on the session",
}


#: What ends as it begins, in Spark, too.
_QUOTES = frozenset("'\"`")

#: Names that Spark takes for something else, where there is no such column.
_OF_SPARK = (
    *("current_catalog", "current_database", "current_date", "current_path", "current_schema"),
    *("current_time", "current_timestamp", "current_user", "localtime", "localtimestamp"),
    *("all", "any", "default", "distinct", "interval", "select", "session_user", "some", "user"),
)


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of an expression."""

    kind: str
    """``text``, ``quoted``, ``number``, ``name``, ``sign`` or ``end``."""
    text: str
    """As it is written."""
    start: int

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.start + len(self.text)

    @property
    def word(self) -> str:
        """The token as a keyword, a function or a sign, in which case does not matter."""
        return self.text.lower() if self.kind in ("name", "sign") else ""

    def name(self) -> str:
        """Return the column that it names."""
        if self.kind == "quoted":
            return self.text[1:-1].replace("``", "`")
        return self.text

    def literal(self) -> str | int:
        """Return the text or the number that it is."""
        if self.kind == "number":
            return int(self.text.rstrip("L"))
        return self.text.lstrip("rR")[1:-1]


def tokens(text: str) -> Iterator[Token]:
    """Cut an expression into what it is written with.

    Raises
    ------
    InvalidArgumentError
        When something in it is nothing of that; it says why.
    InvalidExpressionError
        When a text or a name in quotes has no end.
    """
    if "${" in text:
        raise InvalidArgumentError("${...} is replaced by a setting of the session")
    at = 0
    while True:
        found = _TOKEN.match(text, at)
        if found is None:
            rest = text[at:].lstrip(" \t\r\n")
            # Within a comment, which is Spark's to read, a quote is none.
            if rest[0] in _QUOTES and rest[0] not in rest[1:] and "--" not in text:
                raise InvalidExpressionError(f"{rest[:10]} has no {rest[0]} at its end")
            why = _WHY_NOT.get(rest[0], f"{rest[:10]!r} is not among what may stand in it")
            raise InvalidArgumentError(why)
        kind = str(found.lastgroup)
        yield Token(kind, found[kind], found.start(kind))
        if kind == "end":
            return
        at = found.end()


def may_be_of_spark(token: Token, after: Token) -> bool:
    """Tell whether a name that is no column, followed by another token, may mean more to Spark.

    Views of Spark have more columns of their own, which begin with a low line.
    """
    if token.name().startswith("_"):
        return True
    return token.kind != "quoted" and (token.word in _OF_SPARK or after.kind == "text")


def field_of(kind: Kind, name: str, *, may_be_of_spark: bool = False) -> Field:
    """Return the field of a struct, or the column among columns, of a name.

    Raises
    ------
    InvalidExpressionError
        When there is none.
    InvalidArgumentError
        When there is none and it may be something else to Spark, or when there are several.
    """
    fields = kind.inner if kind.form == "struct" else ()
    shown = f"{name:.100}"
    found = [field for field in fields if field.name.lower() == name.lower()]
    if len(found) == 1:
        return found[0]
    if found:
        raise InvalidArgumentError(f"{shown} may be any of several columns")
    if may_be_of_spark:
        raise InvalidArgumentError(f"{shown} is no column")
    hint = did_you_mean(name, [field.name for field in fields]) if fields else ""
    raise InvalidExpressionError(f"{shown} is no column{hint}; a text has quotes: '{shown}'")
