"""Reads the expression of a key, to know its type, and that it means the same in every session.

A key is computed again by every enqueue, in whatever session, and rows are told apart by its text.
So it is read here before Spark reads it: it may name columns, and use what
:mod:`spark_queue.delta.input.signatures` lists, on the types that are named there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from pyspark.sql.types import DataType, StructField, StructType

from spark_queue.delta.input import signatures
from spark_queue.errors import InvalidArgumentError

_T = TypeVar("_T")

_OPERATORS = ("and", "or", "not", "is", "in", "between", "like", "rlike", "div")
_WORDS = frozenset([*_OPERATORS, "when", "then", "else", "end", "as"])

_COMPARING = ("=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>")

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<text>[rR]'[^']*'|'(?:[^'\\])*')
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<number>\d+L?(?![\w.]))
    | (?P<name>[^\W\d]\w*)
    | (?P<sign><=>|\|\||<>|!=|==|<=|>=|[(),.=<>%-])
    | (?P<end>$)
    )""",
    re.VERBOSE,
)
_ISO_DATE = re.compile(r"'\d{4}-\d{2}-\d{2}'")

#: Why some of what people write is no token.
_WHY_NOT = {
    '"': "\"...\" is a text in one session and a column in another: write '...'",
    "'": "what a backslash in a text is depends on the session: write r'...'",
    "[": "what [...] gives beyond the end depends on the session: use split_part(...)",
    "/": "/ makes fractions, whose digits differ between machines: use div or floor(...)",
    "+": "what a sum gives that is too large depends on the session",
    "*": "what a product gives that is too large depends on the session",
}


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression as it was read: one value, or several that are told apart one by one."""

    text: str
    """Its SQL."""
    kind: DataType | None
    """Its type; ``None`` where it has parts."""
    parts: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def word(self) -> str:
        """The token as a keyword, a function or a sign, in which case does not matter."""
        return self.text.lower() if self.kind in ("name", "sign") else ""


@dataclass(frozen=True, slots=True)
class _Typed:
    letter: str
    kind: DataType


def read(text: str, schema: StructType) -> Expression:
    """Read an expression over some columns.

    Raises
    ------
    InvalidArgumentError
        When it may give another value in another session or at another time, or is no expression;
        it names what is not allowed.
    """
    return _Reader(text, schema).whole()


class _Reader:
    """Reads one expression, from left to right; each level of precedence is one method."""

    def __init__(self, text: str, schema: StructType) -> None:
        self._text = text
        self._schema = schema
        self._tokens = list(_tokens(text))
        self._at = 0

    def whole(self) -> Expression:
        expression = self._expression()
        if self._next.kind != "end":
            _refuse(f"{self._next.text!r} is not expected there")
        return expression

    def _expression(self) -> Expression:
        start, word = self._next.start, self._next.word
        if word in ("struct", "named_struct") and self._tokens[self._at + 1].word == "(":
            self._take()
            parts = self._parts(named=word == "named_struct")
            return Expression(self._since(start), None, parts)
        value = self._or()
        return Expression(self._since(start), value.kind)

    def _parts(self, *, named: bool) -> tuple[Expression, ...]:
        def part() -> Expression:
            if named:
                self._require("t", "the name of a field")
                self._expect(",")
            return self._expression()

        return tuple(self._listed(part))

    def _or(self) -> _Typed:
        return self._joined("or", self._and)

    def _and(self) -> _Typed:
        return self._joined("and", self._not)

    def _joined(self, word: str, operand: Callable[[], _Typed]) -> _Typed:
        value = operand()
        while self._taken(word):
            value = _common(word, value, operand(), of="b")
        return value

    def _not(self) -> _Typed:
        if self._taken("not"):
            return _common("not", self._not(), of="b")
        return self._predicate()

    def _predicate(self) -> _Typed:
        value = self._joint()
        while (word := self._next.word) in (
            *_COMPARING,
            "is",
            "not",
            "in",
            "between",
            "like",
            "rlike",
        ):
            self._take()
            if word == "not":
                word = self._take().word
            value = self._compared(word, value)
        return value

    def _compared(self, word: str, value: _Typed) -> _Typed:
        if word == "is":
            self._taken("not")
            self._expect("null")
        elif word in ("like", "rlike"):
            _common(word, value, self._joint(), of="t")
        elif word == "in":
            _common(word, value, *self._listed(self._joint))
        elif word == "between":
            low = self._joint()
            self._expect("and")
            _common(word, value, low, self._joint())
        elif word in _COMPARING:
            _common(word, value, self._joint())
        else:
            _refuse(f"{word!r} is not expected there")
        return _typed("b")

    def _joint(self) -> _Typed:
        value = self._divided()
        while self._taken("||"):
            value = _typed(_result("concat", [value, self._divided()], "||"))
        if self._next.text == "-":
            _refuse("what a difference gives that is too large depends on the session")
        return value

    def _divided(self) -> _Typed:
        value = self._primary()
        while (word := self._next.word) in ("%", "div"):
            self._take()
            value = _typed(_result("mod", [value, self._primary()], word))
        return value

    def _primary(self) -> _Typed:
        token = self._take()
        if token.kind == "text":
            return _typed("t")
        if token.kind == "number":
            return _typed(signatures.LITERAL if token.text.strip("0L") else "w")
        if token.text == "-" and self._next.kind == "number":
            self._take()
            return _typed("w")
        if token.text == "(":
            value = self._or()
            self._expect(")")
            return value
        if token.kind not in ("name", "quoted") or token.word in _WORDS:
            _refuse(f"{token.text!r} is not expected there" if token.text else "it ends too early")
        return self._named(token)

    def _named(self, token: _Token) -> _Typed:
        """Read what begins with a name: a constant, a call, or a column."""
        if token.word in ("true", "false", "null"):
            return _typed("n" if token.word == "null" else "b")
        if token.word == "case":
            return self._case()
        if token.word == "date" and self._next.kind == "text":
            return self._date()
        if self._next.text != "(":
            return self._column(token)
        if token.word in signatures.CASTS:
            return self._cast(token.word)
        if token.kind == "quoted" or not signatures.is_known(token.word):
            _refuse(
                f"{token.text}(...) is not among the functions whose result is the same everywhere"
            )
        return self._call(token.word)

    def _call(self, function: str) -> _Typed:
        arguments = self._listed(self._or)
        result = _result(function, arguments, f"{function}(...)")
        # What chooses from its arguments has their very type.
        same = [argument for argument in arguments if argument.letter == result]
        return same[-1] if same else _typed(result)

    def _cast(self, how: str) -> _Typed:
        self._expect("(")
        value = self._or()
        self._expect("as")
        target = self._take().word
        self._expect(")")
        signature = signatures.CASTS[how].get(target)
        result = signature and signatures.signed(signature, value.letter)
        if not result:
            _refuse(
                f"{how} of {value.kind.simpleString()} as {target} is not the same in every session"
            )
        return _typed(result)

    def _case(self) -> _Typed:
        subject = None if self._next.word == "when" else self._or()
        values: list[_Typed] = []
        while self._taken("when"):
            if subject is None:
                self._require("b", "when")
            else:
                _common("when", subject, self._or())
            self._expect("then")
            values.append(self._or())
        if self._taken("else"):
            values.append(self._or())
        self._expect("end")
        return _common("case", *values)

    def _date(self) -> _Typed:
        literal = self._take().text
        if not _ISO_DATE.fullmatch(literal):
            _refuse(f"date {literal} may be another day tomorrow: write date '2026-01-31'")
        return _typed("d")

    def _column(self, token: _Token) -> _Typed:
        path = [_name(token)]
        while self._taken("."):
            path.append(_name(self._take()))
        kind: DataType = self._schema
        for name in path:
            kind = _field(kind, name).dataType
        return _Typed(signatures.letter_of(kind), kind)

    def _listed(self, read: Callable[[], _T]) -> list[_T]:
        """Read what stands in brackets, with commas between."""
        self._expect("(")
        found = [read()]
        while self._taken(","):
            found.append(read())
        self._expect(")")
        return found

    def _require(self, letter: str, what: str) -> None:
        _common(what, self._or(), of=letter)

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        token = self._next
        self._at += token.kind != "end"
        return token

    def _taken(self, word: str) -> bool:
        """Take a token if it is the next one, and tell whether it was."""
        if self._next.word != word:
            return False
        self._at += 1
        return True

    def _expect(self, word: str) -> None:
        if not self._taken(word):
            _refuse(f"{word!r} is missing before {self._next.text or 'the end'!r}")

    def _since(self, start: int) -> str:
        return self._text[start : self._tokens[self._at - 1].end]


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while True:
        found = _TOKEN.match(text, at)
        if found is None:
            rest = text[at:].lstrip()
            why = _WHY_NOT.get(rest[0], f"{rest[:10]!r} is not among what may stand in it")
            raise InvalidArgumentError(why)
        kind = str(found.lastgroup)
        yield _Token(kind, found[kind], found.start(kind))
        if kind == "end":
            return
        at = found.end()


def _typed(letter: str) -> _Typed:
    return _Typed(letter, signatures.KINDS[letter])


def _result(function: str, arguments: list[_Typed], shown: str) -> str:
    """Return the letter of what a function, or the operator that is one, returns."""
    result = signatures.result_of(function, "".join(argument.letter for argument in arguments))
    if result is None:
        kinds = ", ".join(argument.kind.simpleString() for argument in arguments)
        _refuse(f"{shown} of {kinds} is not among what is known to be the same everywhere")
    return result


def _common(what: str, *values: _Typed, of: str = "") -> _Typed:
    """Return one of several values that must be of one type."""
    letter = signatures.common([value.letter for value in values])
    if letter is None or (of and letter not in (of, "n")):
        kinds = " and ".join(value.kind.simpleString() for value in values)
        _refuse(f"{what} of {kinds} is not the same in every session")
    return next(value for value in reversed(values) if value.letter in (letter, signatures.LITERAL))


def _name(token: _Token) -> str:
    if token.kind == "quoted":
        return token.text[1:-1].replace("``", "`")
    return token.text


def _field(kind: DataType, name: str) -> StructField:
    fields = kind.fields if isinstance(kind, StructType) else []
    found = [field for field in fields if field.name.lower() == name.lower()]
    if len(found) != 1:
        _refuse(f"{name} is no column" if not found else f"{name} may be any of several columns")
    return found[0]


def _refuse(why: str) -> NoReturn:
    raise InvalidArgumentError(why)
