"""What a queue without Spark needs: neither Spark nor pandas, and nothing before it is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_queue import LocalQueue
from tests.programs import run_python

#: Works with a queue where whatever is Spark's, Java's or of pandas cannot be imported.
_ALONE = """
import sys, tempfile

class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pyspark", "py4j", "delta", "pandas"):
            raise ImportError(f"{name} is not here")

sys.meta_path.insert(0, Refusing())
import spark_queue
from spark_queue import LeaseLostError, LocalQueue, QueueConfig, SparkNeededError

place = tempfile.mkdtemp() + "/queue"
config = QueueConfig(dedup_key="id", fair_key="substring(id, 1, 1)", weights={"a": 1.0})
LocalQueue.create(place, "id string", config)
queue = spark_queue.open(place)
print(queue.enqueue([{"id": "a"}, {"id": "a"}, {"id": "b"}, {"id": "c"}]).outcomes.num_rows)
with queue.claim(1) as claim:
    print(claim.rows[0]["id"])
held = queue.claim(2)
held.settle_each({3: ("dead", "bad"), 4: "release"})
try:
    held.settle_each({3: "ack"})
except LeaseLostError as exc:
    print(exc.seqs)
for only_spark in (
    lambda: held.items,
    lambda: held.settle(None),
    lambda: LocalQueue.create(place + "2", "id string", QueueConfig(dedup_key="upper(id)")),
):
    try:
        only_spark()
    except SparkNeededError as exc:
        print("needs Spark")
queue.configure(weights={"a": 2.0})
with spark_queue.DurableQueue(queue) as front:
    print(front.put({"id": "d"}).result().outcome, front.get(60).item["id"])
queue.pause()
queue.resume()
print(queue.dead()["id"].to_pylist(), queue.explain(4).reason)
print(queue.process(lambda item: {"n": 1}, returns="n int", output=place + "/out").acked)
queue.reader("first")
print(queue.reader("second", start="beginning").counts()["ready"])
LocalQueue.drop(place)
"""

#: What takes long to load, beside Arrow and deltalake, which read a queue.
_SLOW = (
    *("pandas", "duckdb", "pyspark", "pyarrow.compute", "importlib.metadata", "subprocess"),
    *("spark_queue.results", "spark_queue.rules.scheduler", "spark_queue.state.replica"),
    *("spark_queue.commands.settle", "spark_queue.report.model", "spark_queue.sql.look"),
)


def _told(program: str) -> tuple[str, str]:
    done = run_python("-c", program)
    return done.stdout, done.stderr


def test_a_queue_is_worked_with_where_there_is_no_spark() -> None:
    """Items go in and out, and what only Spark can do is refused by name."""
    out, errors = _told(_ALONE)

    assert errors == ""
    assert out.splitlines() == [
        "4",
        "a",
        "(3,)",
        *["needs Spark"] * 3,
        "inserted c",
        "['b'] runnable",
        "2",
        "4",
    ]


@pytest.mark.parametrize(
    ("program", "left_out"),
    [
        ("import spark_queue", ("pyarrow", "numpy", "deltalake", *_SLOW)),
        ("import spark_queue; spark_queue.open({queue!r}).counts()", _SLOW),
    ],
)
def test_a_cold_process_loads_no_more_than_it_uses(
    program: str, left_out: tuple[str, ...], tmp_path: Path
) -> None:
    """To import costs no more than names, and to count no more than to read the heads."""
    LocalQueue.create(tmp_path / "q", "n int").enqueue([{"n": 1}])
    loaded = f"import sys; print(sorted({{*{left_out}}} & {{*sys.modules}}))"

    assert _told(f"{program.format(queue=str(tmp_path / 'q'))}\n{loaded}") == ("[]\n", "")
