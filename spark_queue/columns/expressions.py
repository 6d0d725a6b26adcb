"""Reads the expression of a key, to know its type, and that it means the same in every session.

A key is computed again by every enqueue, in any session, and rows are told apart by its text.
So it is read here before Spark reads it, or instead: it may name columns, and use what
:mod:`spark_queue.columns.grammar` lists, on the types that are named there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from spark_queue.columns import grammar, kinds
from spark_queue.columns.grammar import (
    Token,
    TokenReader,
    field_of,
    may_be_of_spark,
    refuse,
    tokens,
)
from spark_queue.columns.kinds import Field, Kind
from spark_queue.errors import InvalidExpressionError

Value = str | int | bool | None

#: How many values may be made, each of the one before.
_DEEPEST = 200

#: What a node is if it is no call.
COLUMN = "column"
LITERAL = "literal"

_OPERATORS = ("and", "or", "not", "is", "in", "between", "like", "rlike", "div")

#: Words that are no names of columns, unless quoted.
_WORDS = frozenset([*_OPERATORS, "when", "then", "else", "end", "as"])

_COMPARING = ("=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>")
_PREDICATES = (*_COMPARING, "is", "not", "in", "between", "like", "rlike")

#: Words that are values, with the letters of their types.
_CONSTANTS: dict[str, tuple[str, Value]] = {
    "true": ("b", True),
    "false": ("b", False),
    "null": ("n", None),
}

_DAY, _CLOCK = r"\d{4}-\d{2}-\d{2}", r"\d{2}:\d{2}:\d{2}(\.\d{3}|\.\d{6})?"

#: How a time is written, and why another text is refused.
_TIMES = {
    "date": (f"'{_DAY}'", "may be another day tomorrow: write date '2026-01-31'"),
    "timestamp": (
        rf"'{_DAY}[T ]{_CLOCK}(Z|[+-]\d{{2}}:\d{{2}})'",
        "is another instant in another zone: write timestamp '2026-01-31T12:00:00Z'",
    ),
}


@dataclass(frozen=True, slots=True)
class Node:
    """A value in an expression, and how it comes about."""

    letter: str
    """Its type, as :mod:`grammar` names it."""
    kind: Kind
    what: str
    """``column`` or ``literal``; else the function, the operator or the keyword that makes it."""
    of: tuple[Node, ...] = ()
    """What it is made of; nothing is told of what a CASE depends on."""
    value: Value = None
    """Of a literal its value, of a column its name, of a cast the type as it was written."""
    depth: int = field(init=False, compare=False)
    """How many values it is made of, one of the other."""

    def __post_init__(self) -> None:
        """Refuse a value that is nested too deeply to be computed by recursion."""
        depth = 1 + max((node.depth for node in self.of), default=0)
        if depth > _DEEPEST:
            refuse(f"it has more than {_DEEPEST} operators, one on the result of the other")
        object.__setattr__(self, "depth", depth)


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression that was read: one value, or a struct of several."""

    text: str
    """Its SQL."""
    node: Node | None
    """How it comes about; ``None`` where it has parts."""
    parts: tuple[Expression, ...] = ()

    @property
    def kind(self) -> Kind | None:
        """Its type; ``None`` where it has parts."""
        return None if self.node is None else self.node.kind


def read(text: str, columns: Sequence[Field]) -> Expression:
    """Read an expression over some columns.

    Raises
    ------
    InvalidArgumentError
        When it may give another value in another session or at another time, or is no expression;
        it names what is not allowed.
    """
    return _ExpressionParser(text, columns).whole()


def read_condition(text: str, columns: Sequence[Field]) -> Node:
    """Read a condition over some columns: which rows are meant.

    It may name instants, each with its offset: ``timestamp '2026-01-31T12:00:00Z'``.

    Raises
    ------
    InvalidArgumentError
        As for :func:`read`, or when it is a value that is not true or false.
    """
    node = _ExpressionParser(text, columns, has_instants=True).whole().node
    if node is None or node.letter == "n":
        refuse("it is no condition")
    if node.letter != "b":
        raise InvalidExpressionError(f"it is no condition, but a value of type {node.kind.simple}")
    return node


class _ExpressionParser(TokenReader):
    """Reads one expression, from left to right; each level of precedence is one method."""

    def __init__(self, text: str, columns: Sequence[Field], *, has_instants: bool = False) -> None:
        super().__init__(tokens(text))
        self._text = text
        self._times = ("date", "timestamp") if has_instants else ("date",)
        self._columns = kinds.struct(columns)

    def whole(self) -> Expression:
        expression = self._expression()
        self._require_end()
        return expression

    def _expression(self) -> Expression:
        start, word = self._next.start, self._next.word
        if word in ("struct", "named_struct") and self._tokens[self._at + 1].word == "(":
            self._take()
            parts = self._parts(named=word == "named_struct")
            return Expression(self._since(start), None, parts)
        value = self._or()
        return Expression(self._since(start), value)

    def _parts(self, *, named: bool) -> tuple[Expression, ...]:
        def part() -> Expression:
            if named:
                self._require("t", "the name of a field")
                self._expect(",")
            return self._expression()

        return tuple(self._list(part))

    def _or(self) -> Node:
        return self._logical("or", self._and)

    def _and(self) -> Node:
        return self._logical("and", self._not)

    def _logical(self, word: str, operand: Callable[[], Node]) -> Node:
        values = self._chain(word, operand)
        return _common(word, *values, of="b") if len(values) > 1 else values[0]

    def _not(self) -> Node:
        if self._accept("not"):
            return _negate(self._not())
        return self._predicate()

    def _predicate(self) -> Node:
        value = self._joint()
        while (word := self._next.word) in _PREDICATES:
            self._take()
            is_not = word == "not" or (word == "is" and self._accept("not"))
            if word == "not":
                word = self._take().word
            value = self._comparison(word, value)
            value = _negate(value) if is_not else value
        return value

    def _comparison(self, word: str, value: Node) -> Node:
        others: list[Node] = []
        if word == "is":
            self._expect("null")
        elif word == "in":
            others = self._list(self._joint)
        elif word == "between":
            others = [self._joint()]
            self._expect("and")
            others.append(self._joint())
        elif word in (*_COMPARING, "like", "rlike"):
            others = [self._joint()]
        else:
            refuse(f"{word!r} is not expected there")
        if others:
            _common(word, value, *others, of="t" if word in ("like", "rlike") else "")
        return replace(_make("b", word), of=(value, *others))

    def _joint(self) -> Node:
        values = self._chain("||", self._modulo)
        value = _call("concat", values, "||") if len(values) > 1 else values[0]
        if self._next.text == "-":
            refuse("what a difference gives that is too large depends on the session")
        return value

    def _modulo(self) -> Node:
        value = self._cast_value()
        while (word := self._next.word) in ("%", "div"):
            self._take()
            value = replace(_call("mod", [value, self._cast_value()], word), what=word)
        return value

    def _cast_value(self) -> Node:
        """Read a value, and what it is cast to by ``::``."""
        value = self._primary()
        while self._accept("::"):
            value = _cast("cast", value, self._take().word)
        return value

    def _primary(self) -> Node:
        token = self._take()
        if token.kind == "text":
            return _make("t", LITERAL, token.literal())
        if token.kind == "number":
            return _number(token)
        if token.text == "-" and self._next.kind == "number":
            return _number(self._take(), sign=-1)
        if token.text == "(":
            value = self._or()
            self._expect(")")
            return value
        if token.kind not in ("name", "quoted") or token.word in _WORDS:
            refuse(f"{token.text!r} is not expected there" if token.text else "it ends too early")
        return self._name(token)

    def _name(self, token: Token) -> Node:
        """Read what begins with a name: a constant, a call, or a column."""
        if token.word in _CONSTANTS:
            letter, value = _CONSTANTS[token.word]
            return _make(letter, LITERAL, value)
        if token.word == "case":
            return self._case()
        if token.word in self._times and self._next.kind == "text":
            return self._time(token.word)
        if self._next.text != "(":
            return self._column(token)
        if token.word in grammar.CASTS:
            return self._cast(token.word)
        if token.kind == "quoted" or not grammar.is_known(token.word):
            refuse(
                f"{token.text}(...) is not among the functions whose result is the same everywhere"
            )
        return _call(token.word, self._list(self._or), f"{token.word}(...)")

    def _cast(self, how: str) -> Node:
        self._expect("(")
        value = self._or()
        self._expect("as")
        target = self._take().word
        self._expect(")")
        return _cast(how, value, target)

    def _case(self) -> Node:
        subject = None if self._next.word == "when" else self._or()
        values: list[Node] = []
        while self._accept("when"):
            if subject is None:
                self._require("b", "when")
            else:
                _common("when", subject, self._or())
            self._expect("then")
            values.append(self._or())
        if self._accept("else"):
            values.append(self._or())
        self._expect("end")
        return replace(_common("case", *values), of=())

    def _time(self, word: str) -> Node:
        literal, (written, why) = self._take(), _TIMES[word]
        if not re.fullmatch(written, literal.text, re.ASCII):
            refuse(f"{word} {literal.text} {why}")
        kind = Kind(word)
        return Node(grammar.letter_of(kind), kind, LITERAL, value=literal.literal())

    def _column(self, token: Token) -> Node:
        is_of_spark = may_be_of_spark(token, self._next)
        field = field_of(self._columns, token.name(), may_be_of_spark=is_of_spark)
        what = COLUMN
        while self._accept("."):
            field = field_of(field.kind, self._take().name())
            what = "a field of a struct"
        return Node(grammar.letter_of(field.kind), field.kind, what, value=field.name)

    def _require(self, letter: str, what: str) -> None:
        _common(what, self._or(), of=letter)

    def _since(self, start: int) -> str:
        return self._text[start : self._tokens[self._at - 1].end]


def _make(letter: str, what: str, value: Value = None) -> Node:
    return Node(letter, grammar.KINDS[letter], what, value=value)


def _number(token: Token, sign: int = 1) -> Node:
    number = int(token.literal()) * sign
    return _make(grammar.LITERAL if number > 0 else "w", LITERAL, number)


def _call(function: str, arguments: list[Node], shown: str) -> Node:
    """Return what a function, or the operator that is one, makes of its arguments."""
    letters = "".join(argument.letter for argument in arguments)
    letter = grammar.result_of(function, letters)
    if letter is None:
        given = ", ".join(argument.kind.simple for argument in arguments)
        refuse(f"{shown} of {given} is not among what is known to be the same everywhere")
    # What chooses from its arguments has their very type.
    same = [argument.kind for argument in arguments if argument.letter == letter]
    kind = same[-1] if same else grammar.KINDS[letter]
    return Node(letter, kind, function, tuple(arguments))


def _cast(how: str, value: Node, target: str) -> Node:
    signature = grammar.CASTS[how].get(target)
    letter = signature and grammar.result_letter(signature, value.letter)
    if not letter:
        refuse(f"{how} of {value.kind.simple} as {target} is not the same in every session")
    return Node(letter, grammar.KINDS[letter], how, (value,), target)


def _common(what: str, *values: Node, of: str = "") -> Node:
    """Return a value of the one type that several must have, of which nothing more is known."""
    letter = grammar.common([value.letter for value in values])
    if letter is None or (of and letter not in (of, "n")):
        given = " and ".join(value.kind.simple for value in values)
        refuse(f"{what} of {given} is not the same in every session")
    like = next(v for v in reversed(values) if v.letter in (letter, grammar.LITERAL))
    return Node(like.letter, like.kind, what, values)


def _negate(value: Node) -> Node:
    return _common("not", value, of="b")
