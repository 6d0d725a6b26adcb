import os
from datetime import timedelta
from urllib.parse import urlencode

import dagster as dg
from night import find_files, read_file

from spark_queue import LocalQueue, QueueConfig

QUEUE, OUTPUT = os.environ["NIGHT_QUEUE"], os.environ["NIGHT_OUTPUT"]
PAGES = os.environ.get("NIGHT_PAGES", "http://127.0.0.1:8765")  # where `spark-queue serve` runs
RETRIED = dg.RetryPolicy(max_retries=3, delay=1)


def open_queue():
    config = QueueConfig(fair_key="tenant", dedup_key="path")
    return LocalQueue.create(QUEUE, "tenant string, path string", config, exist_ok=True)


def page_of(**fields):
    return dg.MetadataValue.url(f"{PAGES}/go?{urlencode({'queue': QUEUE, **fields})}")


@dg.asset(retry_policy=RETRIED)
def files(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
    """Files in the queue, once for a run and all that it is retried as."""
    run = context.run.root_run_id or context.run_id
    done = open_queue().enqueue(find_files(run), batch=(f"files of {run}", 1))
    told = {"inserted": done.inserted, "repeated": done.repeated is not None}
    return dg.MaterializeResult(metadata={**told, "page": page_of()})


@dg.asset(retry_policy=RETRIED, deps=[files])
def sizes() -> dg.MaterializeResult:
    """A row for each file, exactly once."""
    queue = open_queue()
    done = queue.process(
        read_file,
        returns="path string, size int",
        output=OUTPUT,
        time_limit=timedelta(minutes=10),
    )
    told = {"read": done.acked, "stopped": done.stopped, **queue.counts()}
    return dg.MaterializeResult(metadata={**told, "dead ones": page_of(state="dead")})


nightly = dg.define_asset_job("nightly", selection=[files, sizes])
work = dg.define_asset_job("work", selection=[sizes])


@dg.sensor(job=work, minimum_interval_seconds=5)
def new_files(context: dg.SensorEvaluationContext):
    """A run for the files that came since the last look, from any program."""
    counts = open_queue().counts()
    there = sum(count for state, count in counts.items() if state != "refused")
    runs, known = map(int, (context.cursor or "0 0").split())
    if there == known:
        return dg.SkipReason("no new files")
    cursor = f"{runs + 1} {there}"
    return dg.SensorResult(run_requests=[dg.RunRequest(run_key=cursor)], cursor=cursor)


defs = dg.Definitions(assets=[files, sizes], jobs=[nightly, work], sensors=[new_files])
