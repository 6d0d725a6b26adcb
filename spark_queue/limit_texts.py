"""Limits by key as texts: options, a field of a form, and answers."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spark_queue.config import QueueConfig
from spark_queue.errors import InvalidArgumentError
from spark_queue.flow import Limit, limits_of
from spark_queue.wording import shorten

_NONE, _UNLIMITED, _DEFAULT = "none", "unlimited", "default"


@dataclass(frozen=True, slots=True)
class LimitTexts:
    """Changes of limits as they are typed: what they mean depends on the limits of a queue.

    Attributes
    ----------
    numbers : sequence of str
        ``BY=NUMBER`` or ``BY=none``: the number of a limit for keys without one of their own.
    overrides : sequence of str
        ``KEY=NUMBER`` or ``BY:KEY=NUMBER``; ``none`` for that of the limit, or ``unlimited``. A key
        may hold both signs itself.
    base : object
        The limits of a file, which are changed first, as plain data.
    """

    numbers: Sequence[str] = ()
    overrides: Sequence[str] = ()
    base: object = ()

    def apply_to(self, config: QueueConfig) -> Any:
        """Return the limits of a queue that change, as they will be.

        Raises
        ------
        InvalidArgumentError
            When a text cannot be read, or does not tell of which limit a key is.
        InvalidConfigError
            When a number is out of its range.
        """
        base = limits_of("limits", self.base)
        if not isinstance(base, tuple) or not all(isinstance(one, Limit) for one in base):
            # Their setting says what is wrong.
            return base
        found = {limit.by: limit for limit in (*config.limits, *base)}
        changed = [limit.by for limit in base]
        named = []
        for text in self.numbers:
            by, number = _parts("limit", text)
            limit = found.get(by) or Limit(by=by)
            found[by] = replace(limit, default=_number("limit", text, number))
            named.append(by)
        for text in self.overrides:
            name, number = _parts("limit-of", text)
            by, key = _place(text, name, named, found, config)
            found[by] = _override(found.get(by) or Limit(by=by), key, text, number)
            changed.append(by)
        return tuple(found[by] for by in dict.fromkeys((*changed, *named)))


def _parts(option: str, text: str) -> tuple[str, str]:
    """Part a text at its last sign of equality."""
    name, _, number = text.rpartition("=")
    if not name:
        what = "BY=NUMBER, or BY=none" if option == "limit" else "KEY=NUMBER, or KEY=none"
        raise InvalidArgumentError(f"{option} is {shorten(text)}: give it as {what}")
    return name, number.strip().lower()


def _number(option: str, text: str, number: str) -> int | None:
    if number in {_NONE, _UNLIMITED}:
        return None
    try:
        return int(number)
    except ValueError:
        raise InvalidArgumentError(
            f"{option} is {shorten(text)}: it must end with a whole number or none"
        ) from None


def _override(limit: Limit, key: str, text: str, number: str) -> Limit:
    others = {name: most for name, most in limit.overrides.items() if name != key}
    if number == _NONE:
        return replace(limit, overrides=others)
    return replace(limit, overrides={**others, key: _number("limit-of", text, number)})


def _place(
    text: str, name: str, named: Sequence[str], known: Collection[str], config: QueueConfig
) -> tuple[str, str]:
    """Return by what a key is limited, and the key."""
    keys = [by for by in (config.fair_key, config.group_key) if by is not None]
    if by := _prefix(name, {*known, *keys}):
        return by, name[len(by) + 1 :]
    if len(only := named) == 1 or len(only := list(known)) == 1:
        return only[0], name
    if config.fair_key is not None and (config.fair_key in known or not known):
        return config.fair_key, name
    if not known:
        raise InvalidArgumentError(
            f"limit-of is {shorten(text)}: the queue has no limit by a key; give one as "
            "--limit BY=NUMBER"
        )
    which = ", ".join(map(shorten, known))
    example = f"--limit-of {shlex.quote(f'{next(iter(known))}:{text}')}"
    raise InvalidArgumentError(
        f"limit-of is {shorten(text)}: there are limits by {which}; name the one, as in {example}"
    )


def _prefix(name: str, known: Iterable[str]) -> str:
    """Return the longest known expression that a text begins with, before a colon."""
    return max((by for by in known if name.startswith(f"{by}:")), key=len, default="")


def read_limit_options(
    numbers: Sequence[str] | None, overrides: Sequence[str] | None
) -> LimitTexts | None:
    """Return limits as two options have them; ``None`` where none is given."""
    return LimitTexts(numbers or (), overrides or ()) if numbers or overrides else None


def changed_words(typed: str, shown: str, now: str) -> tuple[list[str], bool]:
    """Return the words of a field that differ from those shown, and whether these were old.

    Raises
    ------
    InvalidArgumentError
        When a quote has no end.
    """
    want, was, current = map(_words, (typed, shown, now))
    changed = [name for name, word in want.items() if was.get(name) != word]
    is_old = any(was.get(name) != current.get(name) for name in changed)
    return [want[name] for name in changed], is_old


def _words(text: str) -> dict[str, str]:
    """Return the words of a text, which may be quoted as in a shell, by what has the number."""
    try:
        return {word.rpartition("=")[0] or word: word for word in shlex.split(text)}
    except ValueError as exc:
        why = str(exc).lower()
        raise InvalidArgumentError(f"limits is {shorten(text)}: it has {why}") from None


def join_words(words: Iterable[str]) -> str:
    """Return words as the text of a field."""
    return " ".join(map(shlex.quote, words))


def read_limit_words(words: Iterable[str], config: QueueConfig) -> LimitTexts:
    """Read the words of a field, as :func:`limit_text` writes them."""
    known = {one.by for one in config.limits} | {config.fair_key, config.group_key} - {None}
    numbers: list[str] = []
    overrides: list[str] = []
    for word in words:
        name = word.rpartition("=")[0]
        is_key = name not in known and _prefix(name, filter(None, known))
        (overrides if is_key else numbers).append(word)
    return LimitTexts(numbers, overrides)


def limit_text(limits: Iterable[Mapping[str, Any]]) -> str:
    """Return limits, as plain data, in a line: ``tenant=4 tenant:acme=20``.

    Keys with signs that a field cannot show are left out.
    """
    words = [
        word
        for limit in limits
        for word in (
            f"{limit['by']}={_number_text(limit['default'], _NONE)}",
            *(
                f"{limit['by']}:{key}={_number_text(n)}"
                for key, n in dict(limit["overrides"]).items()
            ),
        )
    ]
    return join_words(word for word in words if word.isprintable())


def _number_text(number: int | None, absent: str = _UNLIMITED) -> str:
    return absent if number is None else str(number)


def value_text(name: str, value: Any) -> str:
    """Return the value of a setting, as plain data, in a line."""
    return limit_text(value) or _NONE if name == "limits" else str(value)


def each_change(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    """Yield each setting with its values, as plain data; limits number by number."""
    for name, value in after.items():
        if name == "limits":
            yield from limit_changes(before[name], value)
        else:
            yield name, before[name], value


def limit_changes(
    before: Iterable[Mapping[str, Any]], after: Iterable[Mapping[str, Any]]
) -> Iterator[tuple[str, str, str]]:
    """Yield each number of some limits that is not what it was, with what it was."""
    was, now = ({limit["by"]: limit for limit in limits} for limits in (before, after))
    for by in {**was, **now}:
        old, new = (of.get(by) or {"default": None, "overrides": {}} for of in (was, now))
        if old["default"] != new["default"]:
            yield (
                f"limit by {by}",
                _number_text(old["default"], _NONE),
                _number_text(new["default"], _NONE),
            )
        olds, news = dict(old["overrides"]), dict(new["overrides"])
        for key in {**olds, **news}:
            said = [_number_text(of[key]) if key in of else _DEFAULT for of in (olds, news)]
            if said[0] != said[1]:
                yield f"limit of {shlex.quote(key)} by {by}", said[0], said[1]
