"""Grammar of expressions: their tokens, and functions that mean the same in every session."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from spark_queue.columns.kinds import Field, Kind
from spark_queue.errors import InvalidArgumentError, InvalidExpressionError
from spark_queue.wording import did_you_mean

_T = TypeVar("_T")

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


class TokenReader:
    """Tokens, read from left to right."""

    def __init__(self, tokens: Iterable[Token]) -> None:
        self._tokens = list(tokens)
        self._at = 0

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._next
        self._at += token.kind != "end"
        return token

    def _accept(self, word: str) -> bool:
        """Take a token if it is the next one, and tell whether it was."""
        if self._next.word != word:
            return False
        self._at += 1
        return True

    def _expect(self, word: str) -> None:
        if not self._accept(word):
            refuse(f"{word!r} is missing before {self._next.text or 'the end'!r}")

    def _require_end(self) -> None:
        if self._next.kind != "end":
            refuse(f"{self._next.text!r} is not expected there")

    def _chain(self, sign: str, read: Callable[[], _T]) -> list[_T]:
        """Read operands of one sign, in a loop: a long chain is no deeper than a short one."""
        found = [read()]
        while self._accept(sign):
            found.append(read())
        return found

    def _list(self, read: Callable[[], _T]) -> list[_T]:
        """Read what stands in brackets, with commas between."""
        self._expect("(")
        found = self._chain(",", read)
        self._expect(")")
        return found


def refuse(why: str) -> NoReturn:
    """Say why a text is not what it should be."""
    raise InvalidArgumentError(why)


def tokens(text: str) -> Iterator[Token]:
    """Return the tokens of an expression.

    Raises
    ------
    InvalidArgumentError
        When something in it begins no token; it says why.
    InvalidExpressionError
        When a text or a name in quotes has no end.
    """
    if "${" in text:
        raise InvalidArgumentError("${...} is replaced by a setting of the session")

    def refuse_rest(rest: str) -> NoReturn:
        # Within a comment, which is Spark's to read, a quote is none.
        if rest[0] in _QUOTES and rest[0] not in rest[1:] and "--" not in text:
            raise InvalidExpressionError(f"{rest[:10]} has no {rest[0]} at its end")
        refuse(_WHY_NOT.get(rest[0], f"{rest[:10]!r} is not among what may stand in it"))

    return cut(_TOKEN, text, refuse_rest)


def cut(
    pattern: re.Pattern[str], text: str, refuse_rest: Callable[[str], NoReturn]
) -> Iterator[Token]:
    """Cut a text into tokens; each group of the pattern is a kind, and ``end`` the last."""
    at, kind = 0, ""
    while kind != "end":
        found = pattern.match(text, at)
        if found is None:
            refuse_rest(text[at:].lstrip(" \t\r\n"))
        kind = str(found.lastgroup)
        yield Token(kind, found[kind], found.start(kind))
        at = found.end()


def may_be_of_spark(token: Token, after: Token) -> bool:
    """Whether a name that is no column, followed by another token, may mean more to Spark.

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


#: The letter of each type that something here takes; decimals have digits behind their name.
_LETTERS = {
    **dict.fromkeys(["tinyint", "smallint", "int", "bigint"], "w"),
    **dict.fromkeys(["float", "double"], "f"),
    "string": "t",
    "boolean": "b",
    "date": "d",
    "timestamp_ntz": "z",
    "timestamp": "i",
    "decimal": "c",
    "binary": "y",
    "void": "n",
}

#: A whole number that is written out and not 0, where any whole number may stand, too.
LITERAL = "k"

#: The types of what a function returns.
KINDS = {
    "t": Kind("string"),
    "w": Kind("bigint"),
    LITERAL: Kind("bigint"),
    "b": Kind("boolean"),
    "d": Kind("date"),
    "n": Kind("void"),
}

#: For each function the pattern of its arguments, and the letter of its result. No time becomes a
#: text or a date here, and no fraction a text: that would depend on the session's zone, or on the
#: JDK. Nothing is divided by what may be 0, which is an error in one session and NULL in another.
_FUNCTIONS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(["lower", "lcase", "upper", "ucase", "reverse"], ("t", "t")),
    **dict.fromkeys(["trim", "ltrim", "rtrim"], ("t", "t")),
    **dict.fromkeys(["length", "len", "char_length", "character_length"], ("t", "w")),
    **dict.fromkeys(["substring", "substr"], ("tww?", "t")),
    **dict.fromkeys(["left", "right", "repeat"], ("tw", "t")),
    **dict.fromkeys(["lpad", "rpad"], ("twt?", "t")),
    **dict.fromkeys(["startswith", "endswith", "contains"], ("tt", "b")),
    **dict.fromkeys(["split_part", "substring_index"], ("ttw", "t")),
    **dict.fromkeys(["regexp_replace", "replace", "translate"], ("ttt", "t")),
    **dict.fromkeys(["md5", "sha", "sha1"], ("[ty]", "t")),
    **dict.fromkeys(["hash", "xxhash64"], ("[twbdziy]+", "w")),
    **dict.fromkeys(["isnull", "isnotnull"], (".", "b")),
    **dict.fromkeys(["pmod", "mod"], ("[wk]k", "w")),
    **dict.fromkeys(["floor", "ceil", "ceiling"], ("[wf]", "w")),
    **dict.fromkeys(["unix_micros", "unix_millis", "unix_seconds"], ("i", "w")),
    **dict.fromkeys(["year", "quarter", "month", "weekofyear", "dayofyear"], ("d", "w")),
    **dict.fromkeys(["day", "dayofmonth", "dayofweek", "weekday", "unix_date"], ("d", "w")),
    **dict.fromkeys(["date_add", "date_sub"], ("dw", "d")),
    "base64": ("y", "t"),
    "btrim": ("tt?", "t"),
    "concat": ("[twbdz]+", "t"),
    "concat_ws": ("t[twbdz]*", "t"),
    "crc32": ("[ty]", "w"),
    "date_from_unix_date": ("w", "d"),
    "datediff": ("dd", "w"),
    "hex": ("[twy]", "t"),
    "instr": ("tt", "w"),
    "last_day": ("d", "d"),
    "locate": ("ttw?", "w"),
    "regexp_extract": ("ttw?", "t"),
    "regexp_substr": ("tt", "t"),
    "sha2": ("[ty]w", "t"),
    "string": ("[twbdz]", "t"),
    "trunc": ("dt", "d"),
}

#: Functions that return one of their arguments, from this one on; those are of one type.
_CHOOSING = {"coalesce": 0, "greatest": 0, "if": 1, "ifnull": 0, "least": 0, "nullif": 0, "nvl": 0}

#: What can be chosen from, and compared.
COMPARABLE = "twkbdziyn"

#: From which types a value may be cast to which. A cast that may fail is an error in one session
#: and NULL in another; a tried one is NULL in all.
_CASTS: dict[str, tuple[str, str]] = {
    "string": ("[twbdz]", "t"),
    "bigint": ("[wb]", "w"),
    "long": ("[wb]", "w"),
}
_TRIED: dict[str, tuple[str, str]] = {
    "string": ("[twbdz]", "t"),
    **dict.fromkeys(["bigint", "long", "int", "integer", "smallint", "tinyint"], ("[twb]", "w")),
    "date": ("t", "d"),
    "boolean": ("t", "b"),
}
CASTS = {"cast": _CASTS, "try_cast": _TRIED}


def letter_of(kind: Kind) -> str:
    """Return the letter of a type; ``o`` if no function here takes it."""
    return _LETTERS.get("decimal" if kind.digits else kind.form, "o")


def is_known(function: str) -> bool:
    """Whether a function may be called, with some arguments."""
    return function in _FUNCTIONS or function in _CHOOSING


def result_of(function: str, letters: str) -> str | None:
    """Return the letter of what a known function returns; ``None`` where it does not take that."""
    if function not in _CHOOSING:
        return result_letter(_FUNCTIONS[function], letters)
    chosen = letters[_CHOOSING[function] :]
    if function == "if" and (len(letters) != len("bxy") or letters[0] != "b"):
        return None
    return common(chosen) if len(chosen) > 1 or function == "coalesce" else None


def result_letter(signature: tuple[str, str], letters: str) -> str | None:
    """Return the letter of the result where a signature fits the arguments."""
    pattern, result = signature
    words = (letters, letters.replace(LITERAL, "w"))
    return result if any(re.fullmatch(pattern, word) for word in words) else None


def common(letters: Sequence[str]) -> str | None:
    """Return the one letter of values that are compared, or chosen from; NULL is of any type."""
    kinds = {"w" if letter == LITERAL else letter for letter in letters}
    if len(kinds) > 1:
        kinds.discard("n")
    only = kinds.pop() if len(kinds) == 1 else ""
    return only if only and only in COMPARABLE else None
