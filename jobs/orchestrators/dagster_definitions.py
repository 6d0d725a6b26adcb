import os
from datetime import timedelta

import dagster as dg
import pyarrow.compute as pc
from night import find_files, read_file

import spark_queue
from spark_queue import LocalQueue, QueueConfig

QUEUE, OUTPUT = os.environ["NIGHT_QUEUE"], os.environ["NIGHT_OUTPUT"]


@dg.asset(retry_policy=dg.RetryPolicy(max_retries=2, delay=1))
def files(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
    """Files in the queue, once for each run and all its retries."""
    run = context.run.root_run_id or context.run_id
    config = QueueConfig(fair_key="tenant", dedup_key="path")
    queue = LocalQueue.create(QUEUE, "tenant string, path string", config, exist_ok=True)
    done = queue.enqueue(find_files(run), batch=(f"files of {run}", 1))
    return dg.MaterializeResult(
        metadata={"inserted": done.inserted, "repeated": done.repeated is not None}
    )


@dg.asset(retry_policy=dg.RetryPolicy(max_retries=2, delay=1), deps=[files])
def sizes(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
    """A row for each file, exactly once, through any crash."""
    queue = spark_queue.open(QUEUE)
    done = queue.process(
        read_file,
        returns="path string, size int",
        output=OUTPUT,
        time_limit=timedelta(minutes=10),
    )
    if queue.counts()["dead"]:
        context.log.warning("some files are dead: spark-queue dead %s", QUEUE)
    return dg.MaterializeResult(
        metadata={"read": done.acked, "stopped": done.stopped, **queue.counts()}
    )


nightly = dg.define_asset_job("nightly", selection=[files, sizes])
work = dg.define_asset_job("work", selection=[sizes])


@dg.sensor(job=work, minimum_interval_seconds=5)
def new_files(context: dg.SensorEvaluationContext):
    """A run for the files that came since the last look, whoever enqueued them."""
    if not LocalQueue.exists(QUEUE):
        return dg.SkipReason("there is no queue yet")
    newest = pc.max(spark_queue.open(QUEUE).status(short=True)["_seq"]).as_py() or 0
    if newest <= int(context.cursor or 0):
        return dg.SkipReason("no new files")
    return dg.SensorResult(
        run_requests=[dg.RunRequest(run_key=f"files to {newest}")], cursor=str(newest)
    )


defs = dg.Definitions(assets=[files, sizes], jobs=[nightly, work], sensors=[new_files])
