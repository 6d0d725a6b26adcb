"""Trace context of an item, as W3C writes it.

OpenTelemetry is asked only where the program has loaded it already: a program that does not use it
pays for one look into a dictionary.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from spark_queue.errors import InvalidArgumentError
from spark_queue.wording import shorten

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext

#: A trace as a caller names it: ``traceparent`` and, behind a space, ``tracestate``; or the headers
#: of a request that have both.
Trace: TypeAlias = "str | Mapping[str, str]"

#: One for all rows, or one for each.
Traces: TypeAlias = "str | Sequence[str | None] | None"

#: ``traceparent``, of which every version begins like the first, and that one has nothing behind.
_PARENT = re.compile(
    r"(?!00-.{52}-)(?!ff)[0-9a-f]{2}-(?!0{32})(?P<trace>[0-9a-f]{32})-(?!0{16})(?P<span>[0-9a-f]{16})"
    r"-(?P<flags>[0-9a-f]{2})(-.*)?"
)

#: The longest text that is kept: W3C asks for 512 signs of ``tracestate``.
_LONGEST = 1_024

_API = "opentelemetry.trace"


def current() -> str | None:
    """Return the trace of the span that is active here; ``None`` where there is none."""
    api: Any = sys.modules.get(_API)
    if api is None:
        return None
    context: SpanContext = api.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    parent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
    return _join(parent, context.trace_state.to_header())


def stored_traces(trace: Trace | Sequence[Trace | None] | None) -> Traces:
    """Return the traces of rows to enqueue, in their stored form.

    Parameters
    ----------
    trace : str, mapping or sequence of them, optional
        What the caller has said: for all rows, or for each. By default it is the trace of the span
        that is active; an empty text is none.

    Raises
    ------
    InvalidArgumentError
        When it is no trace as W3C writes one.
    """
    if trace is None:
        return current()
    if isinstance(trace, str | Mapping):
        return _read(trace)
    if not isinstance(trace, Sequence):
        raise _no_trace(trace)
    return [None if one is None else _read(one) for one in trace]


def require_one_each(trace: Traces, rows: int, *, is_ordered: bool) -> None:
    """Check that there is a trace for each row, where there is not one for all.

    Raises
    ------
    InvalidArgumentError
        When there are more, or fewer, or the rows are put in another order.
    """
    if trace is None or isinstance(trace, str):
        return
    if is_ordered:
        raise InvalidArgumentError("trace has one for each row: leave order_by out, and order them")
    if len(trace) != rows:
        raise InvalidArgumentError(f"trace has {len(trace)} traces for {rows} rows")


@contextmanager
def continue_trace(
    name: str, traces: Iterable[str], attributes: Mapping[str, Any]
) -> Iterator[None]:
    """Run a scope in a span: a child of the one trace, or one with links to several.

    Without OpenTelemetry it is only run. What it raises is noted in the span.
    """
    contexts = [_context(trace) for trace in dict.fromkeys(traces)] if _is_installed() else []
    if not contexts:
        yield
        return
    from opentelemetry import trace as api  # noqa: PLC0415 - an extra

    tracer = api.get_tracer("spark_queue")
    parent = None
    if len(contexts) == 1:
        parent = api.set_span_in_context(api.NonRecordingSpan(contexts[0]))
    with tracer.start_as_current_span(
        name,
        context=parent,
        kind=api.SpanKind.CONSUMER,
        attributes=attributes,
        links=[api.Link(context) for context in contexts],
    ):
        yield


def _is_installed() -> bool:
    try:
        from opentelemetry import trace  # noqa: F401, PLC0415 - an extra
    except ImportError:
        return False
    return True


def _context(text: str) -> SpanContext:
    from opentelemetry.trace import SpanContext, TraceFlags, TraceState  # noqa: PLC0415 - an extra

    parent, _, state = text.partition(" ")
    found = _PARENT.fullmatch(parent)
    assert found is not None, text  # noqa: S101 - stored texts were read before
    return SpanContext(
        trace_id=int(found["trace"], 16),
        span_id=int(found["span"], 16),
        is_remote=True,
        trace_flags=TraceFlags(int(found["flags"], 16)),
        trace_state=TraceState.from_header([state]) if state else None,
    )


def _read(trace: object) -> str | None:
    if isinstance(trace, Mapping):
        headers = {str(name).lower(): value for name, value in trace.items()}
        parent = headers.get("traceparent", "")
        # W3C: a state whose parent is not there is not looked at.
        trace = _join(parent, headers.get("tracestate", "")) if parent else ""
    if not isinstance(trace, str):
        raise _no_trace(trace)
    if not trace:
        return None
    parent, _, state = trace.partition(" ")
    if not _PARENT.fullmatch(parent) or not state.isprintable():
        raise _no_trace(trace)
    # Too long a state may be left out, but not cut.
    return trace if len(trace) <= _LONGEST else parent


def _join(parent: str, state: str) -> str:
    return f"{parent} {state}" if state else parent


def _no_trace(trace: object) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"trace is {shorten(trace)}: it must be a traceparent as W3C writes it, such as "
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01, which a space and a tracestate "
        "may follow, or the headers of that name"
    )
