"""The trace of an item, from whoever enqueues it to its handler, in a process without Spark."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from opentelemetry import trace as api
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from spark_queue import LocalQueue, tracing
from spark_queue.errors import InvalidArgumentError, SchemaMismatchError
from spark_queue.front.durable import DurableQueue
from tests.programs import run_python
from tests.unit.local.conftest import Make

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
OTHER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
DATA = Path(__file__).parents[2] / "data"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Keep the spans that are made in this process."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(api, "get_tracer", provider.get_tracer)
    yield exporter
    provider.shutdown()


def _ids(span: ReadableSpan) -> tuple[int, int]:
    context = span.get_span_context()
    assert context is not None
    return context.trace_id, context.span_id


def test_an_item_is_handled_in_the_trace_that_it_was_enqueued_in(
    make: Make, spans: InMemorySpanExporter
) -> None:
    """The span that was active at the enqueue is the parent of the handler's, and linked."""
    queue = make()
    seen: list[int] = []

    def handler(item: dict[str, Any]) -> None:
        assert sorted(item) == ["_attempts", "_lease", "_seq", "id"]
        seen.append(api.get_current_span().get_span_context().trace_id)

    with api.get_tracer("test").start_as_current_span("put"):
        queue.enqueue({"id": "a"})
    queue.enqueue({"id": "b"})
    assert queue.process(handler).acked == 2

    put, handled = spans.get_finished_spans()
    assert seen == [_ids(put)[0], 0]
    assert handled.parent is not None
    assert (handled.parent.trace_id, handled.parent.span_id) == _ids(put)
    assert handled.links[0].context.span_id == _ids(put)[1]
    about = dict(handled.attributes or {})
    assert handled.name == f"process {queue.name}"
    assert about["messaging.message.id"] == "1"


def test_a_handler_that_fails_is_seen_in_its_span(make: Make, spans: InMemorySpanExporter) -> None:
    """What a handler raises is noted there, and fails the item as ever."""
    queue = make(max_attempts=1)
    queue.enqueue({"id": "a"}, trace=PARENT)

    assert queue.process(lambda item: 1 / item["_attempts"]).dead == 1

    (span,) = spans.get_finished_spans()
    assert not span.status.is_ok
    assert [event.name for event in span.events] == ["exception"]


def test_a_table_of_items_is_linked_to_all_their_traces(
    make: Make, spans: InMemorySpanExporter
) -> None:
    """A batch of several traces is in one of its own; the table has no column for it."""
    queue = make()
    queue.enqueue([{"id": "a"}, {"id": "b"}, {"id": "c"}], trace=[PARENT, None, OTHER])

    def handler(table: pa.Table) -> None:
        assert table.column_names == ["id", "_seq", "_lease", "_attempts"]

    assert queue.process(handler, per="batch").acked == 3

    (span,) = spans.get_finished_spans()
    assert span.parent is None
    assert [f"{link.context.trace_id:x}" for link in span.links] == [
        "4bf92f3577b34da6a3ce929d0e0e4736",
        "af7651916cd43dd8448eb211c80319c",
    ]


def test_a_claim_shows_the_traces_of_its_items(make: Make) -> None:
    """One for all, by a text or by headers, or one for each, also of a table; others have none."""
    queue = make("id string, t string", fair_key="t", dedup_key="id")
    rows = [{"id": name, "t": name} for name in "abc"]
    queue.enqueue(rows[:1], trace={"Traceparent": PARENT, "tracestate": "vendor=1,x=2"})
    queue.enqueue(pa.Table.from_pylist(rows[1:]), trace=[OTHER, None])
    queue.enqueue({"id": "d", "t": "d"}, trace="")
    queue.enqueue({"id": "e", "t": "e"}, trace={"tracestate": "vendor=1"})

    claim = queue.claim(10)
    assert claim.traces == {1: f"{PARENT} vendor=1,x=2", 2: OTHER}
    assert claim.table.column_names == ["id", "t", "_seq", "_lease", "_attempts"]
    claim.nack("later")
    assert queue.enqueue(rows, trace=PARENT).duplicates == 3
    later = PARENT.replace("00-4", "01-4") + "-more"
    assert tracing.stored_traces(later) == later


def test_a_front_carries_the_trace_of_each_put(make: Make, spans: InMemorySpanExporter) -> None:
    """Puts that are written together keep their own, and a delivery shows it."""
    queue = make()
    with DurableQueue(queue) as front:
        with api.get_tracer("test").start_as_current_span("put"):
            front.put({"id": "a"})
        front.put({"id": "b"})
        front.sync()
        first, second = front.get(5), front.get(5)

    (span,) = spans.get_finished_spans()
    assert (first.trace or "")[:52] == "00-{:032x}-{:016x}".format(*_ids(span))
    assert (first.item, second.item, second.trace) == ({"id": "a"}, {"id": "b"}, None)


@pytest.mark.parametrize(
    "trace",
    [
        "4bf92f35",
        PARENT.replace("00-4", "ff-4"),
        PARENT.upper(),
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01",
        f"{PARENT}-x",
        f"{PARENT} a=1\nb=2",
        7,
        [PARENT],
        [PARENT, 7],
    ],
)
def test_what_is_no_trace_is_refused(make: Make, trace: Any) -> None:
    """It is named, with what one looks like, and nothing is written; so is one for too few rows."""
    queue = make()

    with pytest.raises(InvalidArgumentError, match=r"trace (is|has)"):
        queue.enqueue([{"id": "a"}, {"id": "b"}], trace=trace)
    assert queue.counts()["ready"] == 0


def test_traces_of_rows_that_are_ordered_are_refused(make: Make) -> None:
    """Which row each is of could not be told."""
    with pytest.raises(InvalidArgumentError, match="leave order_by out"):
        make().enqueue([{"id": "a"}], order_by="id", trace=[PARENT])


def test_a_state_that_is_too_long_is_left_out() -> None:
    """W3C lets a tracestate be dropped, and not be cut."""
    assert tracing.stored_traces(f"{PARENT} a={'x' * 1_024}") == PARENT


def test_a_queue_without_the_column_goes_on_without_traces(place: str) -> None:
    """One of an older format takes the rows, and carries traces once it is upgraded."""
    with zipfile.ZipFile(DATA / "queues-of-format-2.zip") as packed:
        packed.extractall(place)
    queue = LocalQueue.open(f"{place}/numbers")
    row = {"id": 8, "day": None, "price": None}

    assert queue.enqueue(row, trace=PARENT).inserted == 1
    queue.upgrade()
    assert queue.enqueue({**row, "id": 9}, trace=OTHER).inserted == 1
    with queue.claim(5) as claim:
        assert claim.traces == {3: OTHER}
    with pytest.raises(SchemaMismatchError, match="'_trace': is not a column"):
        queue.enqueue({**row, "_trace": OTHER})


_WITHOUT = """
import sys
class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "opentelemetry":
            raise ImportError(f"{name} is not here")
sys.meta_path.insert(0, Refusing())
import spark_queue
queue = spark_queue.LocalQueue.create(sys.argv[1], "id string")
queue.enqueue({"id": "a"}, trace=sys.argv[2])
queue.enqueue({"id": "b"})
print(queue.process(lambda item: None).acked)
"""


def test_without_opentelemetry_items_are_worked_off(queue_path: str) -> None:
    """A trace is carried all the same, and a handler just runs."""
    done = run_python("-c", _WITHOUT, queue_path, PARENT, check=True)
    assert done.stdout == "2\n"
