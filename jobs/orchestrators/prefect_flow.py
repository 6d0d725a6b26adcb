import os
import sys
from datetime import timedelta

import pyarrow.compute as pc
from night import TENANTS, find_files, read_file
from prefect import flow, get_run_logger, task

import spark_queue
from spark_queue import LocalQueue, QueueConfig

QUEUE, OUTPUT = os.environ["NIGHT_QUEUE"], os.environ["NIGHT_OUTPUT"]


@task(retries=2, retry_delay_seconds=1)
def enqueue(night: str) -> None:
    """Enqueue the files of a night, once for all runs of that night."""
    config = QueueConfig(fair_key="tenant", dedup_key="path")
    queue = LocalQueue.create(QUEUE, "tenant string, path string", config, exist_ok=True)
    done = queue.enqueue(find_files(night), batch=(f"files of {night}", 1))
    get_run_logger().info("%d files entered, repeated: %s", done.inserted, bool(done.repeated))


@task(retries=2, retry_delay_seconds=1)
def work() -> None:
    """Write a row for each file, exactly once, through any crash."""
    done = spark_queue.open(QUEUE).process(
        read_file,
        returns="path string, size int",
        output=OUTPUT,
        time_limit=timedelta(minutes=10),
    )
    get_run_logger().info("%d files read, stopped: %s", done.acked, done.stopped)


@task(retries=2, retry_delay_seconds=1)
def wait_for(tenant: str) -> None:
    """Wait for the files of a tenant; fail where the time is over, or some are dead."""
    queue = spark_queue.open(QUEUE)
    waited = queue.wait({"tenant": tenant}, timeout=3600)
    # The next try of a task waits for what lives then: the dead of this one are asked for.
    is_meant = (pc.field("tenant") == tenant) & pc.field("_successor").is_null()
    dead = queue.dead().filter(is_meant).num_rows
    if waited.left or dead:
        raise RuntimeError(f"{tenant}: {waited.left} files are not done, {dead} are dead")


@flow
def nightly(night: str) -> None:
    """Read the files of a night, and say how each tenant did."""
    enqueue(night)
    working = work.submit()
    waits = [wait_for.submit(tenant) for tenant in TENANTS]
    for part in (working, *waits):
        part.result()


if __name__ == "__main__":
    nightly.serve(name="nights") if sys.argv[1:] == ["serve"] else nightly(sys.argv[1])
