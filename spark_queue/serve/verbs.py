"""Verbs of an operator, with a preview before they are confirmed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from spark_queue.config import SETTINGS, QueueConfig, Setting
from spark_queue.config_changes import (
    FlowTexts,
    changed_words,
    changes,
    each_change,
    flow_text,
    join_words,
    merge,
    plain_of,
    read_flow_words,
    read_options,
    read_weights as _weights,
    rules_before,
    undo_lines,
)
from spark_queue.errors import InvalidArgumentError
from spark_queue.flow_forms import FLOW, FlowForm, expression_of, read_span, require_no_key
from spark_queue.results import Affected, Undone
from spark_queue.serve.watching import FOR_A_REFRESH, WatchedQueue
from spark_queue.wording import number, plural

if TYPE_CHECKING:
    from spark_queue.operating import Operating


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The effect of an action, before it is done."""

    items: int
    """How many items it is about."""
    text: str
    """What becomes of them."""
    do: Callable[[Operating], str]
    """Does it, and returns the message."""
    sample: Sequence[Mapping[str, Any]] = ()
    """The first of the items."""
    is_bounded: bool = False
    """Whether it is limited to the items that were told: it ends them, or begins them again."""
    is_stale: bool = False
    """Whether what the form has shown is so no more."""
    asked: Mapping[str, str] = field(default_factory=dict)
    """What the confirmation sends, where it is not what the form has sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """A field of a form."""

    name: str
    label: str
    value: str = ""
    is_hidden: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """An action: the fields of its form, and its preview."""

    what: str
    fields: Callable[[QueueConfig], Sequence[FormField]] = field(default=lambda _config: ())
    planned: Callable[[WatchedQueue, Mapping[str, str]], Preview]


def _pause(seat: WatchedQueue, asked: Mapping[str, str]) -> Preview:
    if _field(asked, "key"):
        return _of_key("paused", seat, asked)
    require_no_key("pause", by=_field(asked, "by"), for_=_field(asked, "for"))
    seen = seat.report(FOR_A_REFRESH).overview
    waits = plural(seen.ready, "item")
    text = f"{waits} that wait will not be given out until it is resumed; {seen.claimed:,} go on"
    return Preview(items=seen.ready, text=text, do=lambda at: f"paused from step {at.pause()} on")


def _field(asked: Mapping[str, str], name: str) -> str | None:
    return asked.get(name, "").strip() or None


def _of_key(word: str, seat: WatchedQueue, asked: Mapping[str, str]) -> Preview:
    """Return what comes of pausing or resuming a key."""
    key, by, span = (_field(asked, name) for name in ("key", "by", "for"))
    by = expression_of(seat.open().operate.config, by)
    length = None if span is None else read_span(span)
    ends = (
        ""
        if word == "resumed"
        else f" until {'it is resumed' if span is None else span + ' from now'}"
    )

    def do(queue: Operating) -> str:
        if word == "paused":
            step = queue.pause(key=key, by=by, for_=length)
        else:
            step = queue.resume(key=key, by=by)
        return f"{by} {key} is {word} from step {step} on"

    text = f"{by} {key} is {word}{ends}; what is claimed goes on"
    return Preview(items=1, text=text, do=do)


def _resume(seat: WatchedQueue, asked: Mapping[str, str]) -> Preview:
    if _field(asked, "key"):
        return _of_key("resumed", seat, asked)
    require_no_key("resume", by=_field(asked, "by"))
    seen = seat.report(FOR_A_REFRESH).overview
    text = f"{plural(seen.ready, 'item')} that wait may be given out again"
    return Preview(items=seen.ready, text=text, do=lambda at: f"resumed from step {at.resume()} on")


def _cancel(seat: WatchedQueue, asked: Mapping[str, str]) -> Preview:
    where = _where(asked)
    found = seat.open().operate.cancel(where, dry_run=True)

    def do(queue: Operating) -> str:
        done = queue.cancel(where)
        return f"cancelled {plural(done, 'item')}, step {done.step}"

    return _ending(found, f"{plural(found, 'item')} will be cancelled", do)


def _redrive(seat: WatchedQueue, asked: Mapping[str, str]) -> Preview:
    where = _where(asked)
    found = seat.open().operate.redrive(where, dry_run=True)

    def do(queue: Operating) -> str:
        done = queue.redrive(where)
        return f"redrove {plural(done, 'item')}, step {done.step}"

    return _ending(found, f"{plural(found, 'item')} will be enqueued again", do)


def _ending(found: Affected, text: str, do: Callable[[Operating], str]) -> Preview:
    was = ", ".join(f"{count:,} {state}" for state, count in found.states.items())
    whole = f"{text} ({was} now)" if was else text
    return Preview(items=int(found), text=whole, do=do, sample=found.sample, is_bounded=True)


def _where(asked: Mapping[str, str]) -> str:
    where = asked.get("where", "").strip()
    if not where:
        raise InvalidArgumentError("where is empty: say which items, as in _seq = 7")
    return where


def _label(row: Setting) -> str:
    if row.kind == "weights":
        return "Weights of fair keys to set, as KEY=WEIGHT, with spaces between"
    if form := FLOW.get(row.name):
        how = "or BY:KEY=NUMBER, with spaces between; none takes a number away"
        return f"{form.setting.capitalize()} of keys to set, as {form.shape} {how}"
    said = f"{row.says}: {' or '.join(row.choices)}" if row.choices else row.says
    return f"{said}, or none" if row.is_optional else said


def _settings(config: QueueConfig) -> Sequence[FormField]:
    plain = config.to_dict()
    fields = [
        FormField(name=row.name, label=_label(row), value=_field_text(row, plain[row.name]))
        for row in SETTINGS
        if row.is_live and row.is_line
    ]
    # The input is a change of the values shown, even if they have changed since.
    shown = [replace(one, name=_SHOWN + one.name, label="", is_hidden=True) for one in fields]
    return [*fields, *shown]


def _field_text(row: Setting, value: Any) -> str:
    return flow_text(FLOW[row.name], value) if row.name in FLOW else _text(value)


#: Begins the name of a field that has what another one showed.
_SHOWN = "shown_"


def _undo(seat: WatchedQueue, asked: Mapping[str, str]) -> Preview:
    step = int(_number("step", asked.get("step", "").strip(), int))
    found = seat.open().operate.undo(step, dry_run=True)
    return Preview(
        items=found.restored,
        text=f"step {step} ({found.what}) will be taken back: {_say_undone(found)}",
        do=lambda queue: f"took step {step} back: {_say_undone(queue.undo(step))}",
        is_bounded=bool(found.restored),
    )


def _say_undone(found: Undone) -> str:
    if found.settings:
        return ", ".join(undo_lines(found.before, found.settings))
    said = f"{plural(found.restored, 'item')} back"
    said += f", {found.taken:,} not, as another has their key" if found.taken else ""
    return said + (f", {found.left:,} back before, or gone" if found.left else "")


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{name}={_text(one)}" for name, one in value.items())
    return "none" if value is None else number(value) if isinstance(value, float) else str(value)


def _give_number(form: FlowForm, seat: WatchedQueue, asked: Mapping[str, str]) -> Preview:
    """Return what comes of a number of a key of its own."""
    key, by, number = (_field(asked, name) for name in ("key", "by", "number"))
    if key is None or number is None:
        missing = "key" if key is None else "number"
        raise InvalidArgumentError(f"{missing} is empty: say which key, and its number")
    before = seat.open().operate.config
    texts = FlowTexts(form, (), [f"{expression_of(before, by)}:{key}={number}"])
    settings = {form.setting: texts.apply_to(before)}
    return _preview_change(seat, before, _Change(settings, is_stale=False, asked={}))


def _configure(seat: WatchedQueue, asked: Mapping[str, str]) -> Preview:
    before = seat.open().operate.config
    return _preview_change(seat, before, _Change.of(before, asked))


def _preview_change(seat: WatchedQueue, before: QueueConfig, change: _Change) -> Preview:
    if not change.settings or merge(before, change.settings) == before:
        raise InvalidArgumentError("nothing is changed: every setting is as it was")
    after = plain_of(merge(before, change.settings), change.settings)
    expected = plain_of(before, change.settings)
    changed = each_change(expected, after)
    said = ", ".join(f"{name} {was} -> {now}" for name, was, now in changed)
    seen = seat.report(FOR_A_REFRESH).overview
    served = seen.ready + seen.claimed

    def configure(queue: Operating) -> str:
        values = {name: getattr(before, name) for name in change.settings}
        if "weights" in values:
            values["weights"] = expected["weights"]
        for name in FLOW.keys() & values.keys():
            values[name] = rules_before(before, name, change.settings)
        step = queue.configure(expected=values, **change.settings)
        return f"configured: {', '.join(step.lines())}, from step {step:d} on"

    return Preview(
        items=served,
        text=f"{said}; {plural(served, 'open item')} will be served by it",
        do=configure,
        is_stale=change.is_stale,
        asked=change.asked,
    )


@dataclass(frozen=True, slots=True)
class _Change:
    """The changes in a form: values left as shown are not set."""

    settings: dict[str, Any]
    is_stale: bool
    """Whether one of them was shown with an old value."""
    asked: Mapping[str, str]
    """The same input, in a form that shows current values."""

    @classmethod
    def of(cls, before: QueueConfig, asked: Mapping[str, str]) -> _Change:
        """Read a form, as of the settings in force."""
        now = {one.name: one.value for one in _settings(before) if not one.is_hidden}
        typed = {name: text.strip() for name, text in asked.items() if name in now}
        shown = {name: asked.get(_SHOWN + name, now[name]).strip() for name in typed}
        told: dict[str, Any] = {name: text for name, text in typed.items() if text != shown[name]}
        is_stale = any(shown[n] != now[n] for n in told if n not in {"weights", *FLOW})
        if "weights" in told:
            was = _weights(shown["weights"].split()) or {}
            weights = _weights(told["weights"].split()) or {}
            weights = {key: weight for key, weight in weights.items() if was.get(key) != weight}
            is_stale |= any(was.get(key) != before.weights.get(key) for key in weights)
            told["weights"] = weights
            typed["weights"] = _text(weights)
        for name in FLOW.keys() & told.keys():
            form = FLOW[name]
            words, is_old = changed_words(form, told[name], shown[name], now[name])
            is_stale |= is_old
            told[name] = read_flow_words(form, words, before)
            typed[name] = join_words(words)
        settings = changes(before, read_options(told))
        again = {name: typed[name] for name in told}
        again |= {_SHOWN + name: now[name] for name in told}
        changed = {n: v for n, v in settings.items() if merge(before, {n: v}) != before}
        return cls(changed, is_stale, again)


def _number(name: str, text: str, read: type[float | int] = float) -> float:
    try:
        return read(text)
    except ValueError:
        kind = "a whole number" if read is int else "a number"
        raise InvalidArgumentError(f"{name} is {text[:80]!r}: it must be {kind}") from None


def _items(_config: QueueConfig) -> Sequence[FormField]:
    label = "Which items, as SQL over the columns of an item, such as _seq = 7"
    return [FormField(name="where", label=label)]


def _step(_config: QueueConfig) -> Sequence[FormField]:
    return [FormField(name="step", label="The step of the status log that is taken back")]


def _key_fields(_config: QueueConfig) -> Sequence[FormField]:
    return [
        FormField(name="key", label="A key, such as a tenant; empty for the whole queue"),
        FormField(name="by", label="By which expression it is one; empty for the fair key"),
    ]


def _pause_fields(config: QueueConfig) -> Sequence[FormField]:
    label = "For how long a key is paused, as 90s, 10m or 2h; empty until it is resumed"
    return [*_key_fields(config), FormField(name="for", label=label)]


def _number_fields(form: FlowForm, config: QueueConfig) -> Sequence[FormField]:
    label = f"Its {form.word}, as {form.number_like}; none for that of all keys"
    _, by = _key_fields(config)
    return [FormField(name="key", label="The key"), by, FormField(name="number", label=label)]


#: What may be done, by its name.
VERBS: Mapping[str, Verb] = {
    "pause": Verb(what="Stop giving out items", fields=_pause_fields, planned=_pause),
    "resume": Verb(what="Give out items again", fields=_key_fields, planned=_resume),
    "cancel": Verb(what="End ready and claimed items", fields=_items, planned=_cancel),
    "redrive": Verb(
        what="Enqueue dead, expired or cancelled items again", fields=_items, planned=_redrive
    ),
    "configure": Verb(
        what="Change settings from the next step on", fields=_settings, planned=_configure
    ),
    **{
        form.verb: Verb(
            what=form.says,
            fields=partial(_number_fields, form),
            planned=partial(_give_number, form),
        )
        for form in FLOW.values()
    },
    "undo": Verb(what="Take a step back", fields=_step, planned=_undo),
}
