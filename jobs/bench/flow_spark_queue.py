"""Our queue in a trial of ``flow_peers.py``: puts items, or works them off."""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

from spark_queue import Limit, LocalQueue, QueueConfig, Rate


def put(trial: dict[str, Any]) -> None:
    """Make the queue, with the limit or the rate of the trial, and put its items by turns."""
    limits = (Limit(by="key", default=trial["limit"]),) if trial["limit"] else ()
    per = timedelta(seconds=trial["per"])
    rates = (Rate(limit=trial["rate"] * trial["per"], per=per),) if trial["rate"] else ()
    config = QueueConfig(fair_key="key", limits=limits, rates=rates)
    queue = LocalQueue.create(_place_of(trial), "key string", config, durability="process")
    keys = trial["keys"]
    queue.enqueue([{"key": keys[n % len(keys)]} for n in range(trial["items"])])


def work(trial: dict[str, Any]) -> None:
    """Claim one item at a time with each hand, until the time is over."""
    until = time.time() + trial["seconds"]
    queue = LocalQueue.open(_place_of(trial), durability="process")

    def live(_: int) -> None:
        while time.time() < until:
            claim = queue.claim(1, wait=timedelta(seconds=1))
            if not claim.count:
                continue
            start = time.time()
            time.sleep(trial["handling"])
            sys.stdout.write(f"{claim.rows[0]['key']} {start} {time.time()}\n")
            claim.ack()

    with ThreadPoolExecutor(trial["hands"]) as hands:
        list(hands.map(live, range(trial["hands"])))


def _place_of(trial: dict[str, Any]) -> Path:
    return Path(str(trial["place"]), str(trial["queue"]))


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    (put if asked["verb"] == "put" else work)(asked)
