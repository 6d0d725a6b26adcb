"""Changes of a configuration, as texts, as plain data and as settings."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spark_queue.config import LIVE_SETTINGS, SETTINGS, QueueConfig, Setting
from spark_queue.errors import InvalidArgumentError, InvalidConfigError
from spark_queue.flow import Limit, Rate, merge_limits, rules_of
from spark_queue.flow_forms import FLOW, LIMITS, NONE, FlowForm, Plain
from spark_queue.wording import number as number_text, shorten

#: The number of a key that has none of its own.
_DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class FlowTexts:
    """Changes of bounds as they are typed: their meaning depends on those of a queue.

    Attributes
    ----------
    form : FlowForm
        What they are.
    numbers : sequence of str
        Such as ``BY=NUMBER`` or ``BY=none``: the number for keys without one of their own.
    overrides : sequence of str
        ``KEY=NUMBER`` or ``BY:KEY=NUMBER``; ``none`` for that of the rule, or ``unlimited``. A key
        may hold both signs itself.
    base : object
        The rules of a file, which are changed first, as plain data.
    """

    form: FlowForm
    numbers: Sequence[str] = ()
    overrides: Sequence[str] = ()
    base: object = ()

    def apply_to(self, config: QueueConfig) -> Any:
        """Return the rules of a queue that change, as they will be.

        Raises
        ------
        InvalidArgumentError
            When a text cannot be read, or does not tell of which rule a key is.
        InvalidConfigError
            When a number is out of its range.
        """
        form = self.form
        base = rules_of(form.setting, self.base)
        if not isinstance(base, tuple) or not all(isinstance(one, Limit | Rate) for one in base):
            # Their setting says what is wrong.
            return base
        found = {rule.by or "": rule for rule in (*getattr(config, form.setting), *base)}
        changed = [rule.by or "" for rule in base]
        named = []
        for text in self.numbers:
            by, rest = form.split(text)
            found[by] = form.change(found.get(by), by, text, rest)
            named.append(by)
        for text in self.overrides:
            by, key, number = self._place(text, [by for by in named if by], found, config)
            found[by] = _override(form, found.get(by), by, key, text, number)
            changed.append(by)
        return tuple(found[by] for by in dict.fromkeys((*changed, *named)))

    def _place(
        self, text: str, named: Sequence[str], found: Collection[str], config: QueueConfig
    ) -> tuple[str, str, str]:
        """Return by what a key has a rule, the key and its number."""
        word, known = self.form.word, [by for by in found if by]
        option = f"{word}-of"
        name, _, number = text.rpartition("=")
        number = number.strip().lower()
        if not name:
            raise self.form.refuse(option, text, f"give it as {self.form.like_key}")
        keys = [by for by in (config.fair_key, config.group_key) if by]
        if by := _prefix(name, {*known, *keys}):
            return by, name[len(by) + 1 :], number
        if len(only := named) == 1 or len(only := known) == 1:
            return only[0], name, number
        if config.fair_key is not None and config.fair_key in (known or keys):
            return config.fair_key, name, number
        if not known:
            example = self.form.like.partition(",")[0]
            why = f"the queue has no {word} by a key; give one as --{word} {example}"
            raise self.form.refuse(option, text, why)
        which = ", ".join(map(shorten, known))
        example = f"--{option} {shlex.quote(f'{known[0]}:{text}')}"
        why = f"there are {self.form.setting} by {which}; name the one, as in {example}"
        raise self.form.refuse(option, text, why)


def _override(form: FlowForm, rule: Any, by: str, key: str, text: str, number: str) -> Any:
    rule, most = form.begin(rule, by, text, number)
    others = {name: one for name, one in rule.overrides.items() if name != key}
    kept = others if number.partition("/")[0] == NONE else {**others, key: most}
    return replace(rule, overrides=kept)


def _prefix(name: str, known: Iterable[str]) -> str:
    """Return the longest known expression that a text begins with, before a colon."""
    return max((by for by in known if name.startswith(f"{by}:")), key=len, default="")


def pop_flow_options(values: dict[str, Any]) -> dict[str, FlowTexts | None]:
    """Take the rules out of options: ``limit`` and ``limit_of``; ``None`` where none is given."""
    found: dict[str, FlowTexts | None] = {}
    for name, form in FLOW.items():
        given = values.pop(form.word, None), values.pop(f"{form.word}_of", None)
        found[name] = FlowTexts(form, *(one or () for one in given)) if any(given) else None
    return found


def changed_words(form: FlowForm, typed: str, shown: str, now: str) -> tuple[list[str], bool]:
    """Return the words of a field that differ from those shown, and whether these were old.

    Raises
    ------
    InvalidArgumentError
        When a quote has no end.
    """
    want, was, current = (_words(form, text) for text in (typed, shown, now))
    changed = [name for name, word in want.items() if was.get(name) != word]
    is_old = any(was.get(name) != current.get(name) for name in changed)
    return [want[name] for name in changed], is_old


def _words(form: FlowForm, text: str) -> dict[str, str]:
    """Return the words of a text, which may be quoted as in a shell, by what has the number."""
    try:
        words = shlex.split(text)
    except ValueError as exc:
        why = str(exc).lower()
        raise InvalidArgumentError(f"{form.setting} is {shorten(text)}: it has {why}") from None
    return {form.split(word)[0] or (word if form is LIMITS else ""): word for word in words}


def join_words(words: Iterable[str]) -> str:
    """Return words as the text of a field."""
    return " ".join(map(shlex.quote, words))


def read_flow_words(form: FlowForm, words: Iterable[str], config: QueueConfig) -> FlowTexts:
    """Read the words of a field, as :func:`flow_text` writes them."""
    rules = getattr(config, form.setting)
    known = {one.by for one in rules} | {config.fair_key, config.group_key} - {None}
    numbers: list[str] = []
    overrides: list[str] = []
    for word in words:
        name = form.split(word)[0]
        is_key = name not in known and _prefix(name, filter(None, known))
        (overrides if is_key else numbers).append(word)
    return FlowTexts(form, numbers, overrides)


def flow_text(form: FlowForm, rules: Iterable[Plain]) -> str:
    """Return rules, as plain data, in a line: ``tenant=4 tenant:acme=20``.

    Keys with signs that a field cannot show are left out.
    """
    words = (word for rule in rules for word in form.words(rule))
    return join_words(word for word in words if word.isprintable())


_KINDS = {row.name: row.kind for row in SETTINGS}


def value_text(name: str, value: Any) -> str:
    """Return the value of a setting, as plain data, in words."""
    if name in FLOW:
        return flow_text(FLOW[name], value) or NONE
    if isinstance(value, Mapping):
        return " ".join(f"{key}={value_text('', one)}" for key, one in value.items()) or NONE
    if value is None or isinstance(value, bool | str):
        return NONE if value is None else str(value)
    said = number_text(value)
    return f"{said} s" if _KINDS.get(name) in {"duration", "scope"} else said


def each_change(before: Plain, after: Plain) -> Iterator[tuple[str, str, str]]:
    """Yield each setting that differs, with its values in words; rules number by number."""
    for name in {**before, **after}:
        was, now = before.get(name), after.get(name)
        if name in FLOW:
            yield from _rule_changes(FLOW[name], was or (), now or ())
        elif isinstance(was, Mapping) and isinstance(now, Mapping):
            yield from ((f"{name}.{part}", old, new) for part, old, new in each_change(was, now))
        elif was != now:
            yield name, value_text(name, was), value_text(name, now)


def undo_lines(before: Plain, after: Plain, verb: str = "is") -> list[str]:
    """Return a line for each setting, or number of a rule, that an undo put back."""
    return [f"{name} {verb} {now} again" for name, _, now in each_change(before, after)]


def _rule_changes(
    form: FlowForm, before: Iterable[Plain], after: Iterable[Plain]
) -> Iterator[tuple[str, str, str]]:
    was, now = ({rule["by"]: rule for rule in rules} for rules in (before, after))
    for by in {**was, **now}:
        both = [of.get(by) for of in (was, now)]
        old, new = (NONE if one is None else form.value(one) for one in both)
        if old != new:
            yield form.name(by), old, new
        keys = [form.key_values(one) if one else {} for one in both]
        for key in {**keys[0], **keys[1]}:
            old, new = (of.get(key, _DEFAULT) for of in keys)
            if old != new:
                yield f"{form.word} of {shlex.quote(key)} by {by}", old, new


def read_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given, as plain data: texts become what their setting takes.

    Raises
    ------
    InvalidConfigError
        When the text of a count or a duration is no number, and not ``none`` where that is a value.
    """
    rows = {row.name: row for row in SETTINGS}
    return {
        name: _read(rows[name], value) if isinstance(value, str) and name in rows else value
        for name, value in options.items()
        if value is not None
    }


def _read(row: Setting, text: str) -> object:
    if row.kind == "scope":
        return text if text in {"live", "forever"} else _number(row, text)
    if row.kind not in {"count", "duration"}:
        return text
    return None if row.is_optional and text.lower() == "none" else _number(row, text)


def _number(row: Setting, text: str) -> object:
    try:
        return int(text) if row.kind == "count" else float(text)
    except ValueError:
        kind = "a whole number" if row.kind == "count" else "a number of seconds"
        words = f"{kind} or none" if row.is_optional else kind
        words = f"live, forever or {kind}" if row.kind == "scope" else words
        raise InvalidConfigError(f"{row.name} is {text[:80]!r}: it must be {words}") from None


def read_weights(texts: Sequence[str] | None) -> dict[str, float] | None:
    """Read weights of keys; ``None`` where none is given.

    Raises
    ------
    InvalidArgumentError
        When one is not ``KEY=WEIGHT``; a key may hold a ``=`` itself.
    """
    if not texts:
        return None
    weights = {}
    for text in texts:
        key, _, number = text.rpartition("=")
        try:
            weights[key] = float(number)
        except ValueError:
            key = ""
        if not key:
            raise InvalidArgumentError(f"weight is {text!r}: give it as KEY=WEIGHT")
    return weights


def with_options(file: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a file with those of options, which win; rules number by number."""
    typed = {
        name: replace(texts, base=file.get(name, ()))
        for name, texts in options.items()
        if isinstance(texts, FlowTexts)
    }
    return {**file, **options, **typed}


def new_config(asked: Mapping[str, Any]) -> QueueConfig:
    """Return the configuration of a new queue, from plain data and rules as they are typed.

    Raises
    ------
    InvalidConfigError, InvalidArgumentError
        When a name is unknown or a value is wrong.
    """
    others = {name: value for name, value in asked.items() if not isinstance(value, FlowTexts)}
    made = QueueConfig.from_dict(others)
    return made if len(others) == len(asked) else QueueConfig.from_dict(_read_typed(asked, made))


def _read_typed(asked: Mapping[str, Any], before: QueueConfig) -> dict[str, Any]:
    """Return settings of which rules are typed with these rules, as they will be."""
    return {
        name: value.apply_to(before) if isinstance(value, FlowTexts) else value
        for name, value in asked.items()
    }


def changes(before: QueueConfig, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the requested settings; fixed ones only where their values differ.

    Weights and bounds are changed key by key: the others keep theirs.

    Raises
    ------
    InvalidConfigError
        When a name is unknown or a value is wrong.
    """
    asked, weights = _read_typed(asked, before), asked.get("weights")
    plain = {**before.to_dict(), **asked}
    if isinstance(weights, Mapping):
        plain["weights"] = {**before.weights, **weights}
    after = QueueConfig.from_dict(plain)
    found = {
        name: getattr(after, name)
        for name in asked
        if name in LIVE_SETTINGS or getattr(after, name) != getattr(before, name)
    }
    if isinstance(weights, Mapping):
        found["weights"] = {key: after.weights[key] for key in weights}
    return found


def merge(before: QueueConfig, settings: Mapping[str, Any]) -> QueueConfig:
    """Return a configuration with live settings changed, weights and bounds key by key.

    Raises
    ------
    InvalidConfigError
        As for :meth:`QueueConfig.changed`.
    """
    for name in settings:
        if not isinstance(name, str):
            raise InvalidConfigError(f"unknown setting {shorten(name)}: settings have names")
    for name in FLOW.keys() & settings.keys():
        if isinstance(rules := settings[name], tuple):
            next(row for row in SETTINGS if row.name == name).check(rules)
            settings = {**settings, name: merge_limits(getattr(before, name), rules)}
    weights = settings.get("weights")
    if not isinstance(weights, Mapping):
        return before.changed(**settings)
    kept = {**before.weights, **weights}
    left = {key: weight for key, weight in kept.items() if weight is not None}
    return before.changed(**{**settings, "weights": left})


def plain_of(config: QueueConfig, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return some settings of a configuration as plain data; of weights and rules, those named."""
    plain = config.to_dict()
    found = {name: plain[name] for name in settings}
    if isinstance(settings.get("weights"), Mapping):
        found["weights"] = {key: config.weights.get(key, 1.0) for key in settings["weights"]}
    for name in FLOW.keys() & settings.keys():
        asked = {rule.by for rule in settings[name]}
        found[name] = [one for one in plain[name] if one["by"] in asked]
    return found


def rules_before(config: QueueConfig, name: str, settings: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what the bounds of a setting were that some settings change."""
    changed = {rule.by for rule in settings.get(name, ())}
    return tuple(rule for rule in getattr(config, name) if rule.by in changed)
