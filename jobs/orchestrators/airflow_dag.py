import logging
import os
from datetime import datetime, timedelta, timezone
from urllib.parse import urlencode

from airflow.sdk import dag, task
from airflow.sdk.exceptions import AirflowFailException
from night import find_files, read_file

from spark_queue import LocalQueue, QueueConfig

QUEUE, OUTPUT = os.environ["NIGHT_QUEUE"], os.environ["NIGHT_OUTPUT"]
PAGES = os.environ.get("NIGHT_PAGES", "http://127.0.0.1:8765")  # where `spark-queue serve` runs
RETRIED = {"retries": 3, "retry_delay": timedelta(seconds=1)}


def open_queue():
    config = QueueConfig(fair_key="tenant", dedup_key="path")
    return LocalQueue.create(QUEUE, "tenant string, path string", config, exist_ok=True)


@dag(schedule=None, default_args=RETRIED)
def nightly():
    """Enqueue the files of a run, and go on when those of a tenant are read."""

    @task
    def enqueue(run_id=None):
        open_queue().enqueue(find_files(run_id), batch=(f"nightly {run_id}", 1))
        return datetime.now(timezone.utc).isoformat()

    @task.sensor(mode="reschedule", poke_interval=5, timeout=3600)
    def files_are_read(tenant, since):
        fields = urlencode({"queue": QUEUE, "tenant": tenant})
        logging.getLogger(__name__).info("the files: %s/go?%s", PAGES, fields)
        instant = datetime.fromisoformat(since)
        waited = open_queue().wait({"tenant": tenant}, timeout=0, as_of=instant)
        if not waited.left and waited.failed:
            raise AirflowFailException(f"{waited.failed} files of {tenant} are dead")
        return not waited.left

    files_are_read("ann", enqueue())


@dag(
    schedule=timedelta(minutes=10),
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
    params={"minutes": 9.0},
    default_args=RETRIED,
)
def reader():
    """Read files until there are none, or until the next run is about to begin."""

    @task(execution_timeout=timedelta(minutes=10))
    def read(params=None):
        done = open_queue().process(
            read_file,
            returns="path string, size int",
            output=OUTPUT,
            item_time_limit=timedelta(seconds=30),
            time_limit=timedelta(minutes=params["minutes"]),
        )
        return {"read": done.acked, "stopped": done.stopped, "waiting": dict(done.waiting)}

    read()


nightly()
reader()
