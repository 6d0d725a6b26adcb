"""PgQueuer in a trial of ``flow_peers.py``: puts jobs, or works them off."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from datetime import timedelta
from typing import Any

import asyncpg
from pgqueuer.adapters.drivers.asyncpg import AsyncpgDriver
from pgqueuer.adapters.persistence.queries import Queries
from pgqueuer.core.qm import QueueManager


async def main(trial: dict[str, Any]) -> None:
    """Do what a trial says."""
    connection = await asyncpg.connect(host=trial["socket"], user="postgres", database="postgres")
    queries = Queries(AsyncpgDriver(connection))
    if trial["verb"] == "put":
        await queries.install()
        keys = [trial["keys"][n % len(trial["keys"])] for n in range(trial["items"])]
        await queries.enqueue(keys, [None] * len(keys), [0] * len(keys))
        return
    manager = QueueManager(queries)
    for key in trial["keys"]:
        limit_key(manager, key, trial)
    asyncio.get_running_loop().call_later(trial["seconds"], manager.shutdown.set)
    wait = timedelta(seconds=trial["handling"])
    await manager.run(dequeue_timeout=wait, batch_size=trial["hands"])


def limit_key(manager: QueueManager, key: str, trial: dict[str, Any]) -> None:
    """Make an entrypoint of a key, with the limit of the trial."""

    async def handle(_: Any) -> None:
        start = time.time()
        await asyncio.sleep(trial["handling"])
        print(key, start, time.time(), flush=True)  # noqa: T201 - it is read by who started this

    manager.entrypoint(key, concurrency_limit=trial["limit"])(handle)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
