"""A front on a disk that is full: a small file system, or a limit of the size of files."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.programs import run_python

#: Works with a front while there is no room, and then with room again; prints what happened.
_PROGRAM = """
import errno, json, logging, os, queue, resource, sys
from spark_queue import DurableQueue, LocalQueue

place, kind = sys.argv[1:]
said = []

class Kept(logging.Handler):
    def emit(self, record):
        said.append(self.format(record))

logging.getLogger("spark_queue").addHandler(Kept(logging.WARNING))
front = DurableQueue(LocalQueue.create(place + "/queue", "n int"))
for n in range(3):
    front.put({"n": n}).result(60)
delivery = front.get(timeout=60)

filler = place + "/filler"

def fill():
    if kind == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        return
    with open(filler, "wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError as exc:
            assert exc.errno == errno.ENOSPC

def free():
    if kind == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    else:
        os.unlink(filler)

fill()
ack = front.ack(delivery).exception(60)
puts = [front.put({"n": 9}).exception(60) for _ in range(50)]
found = 0
for _ in range(200):
    try:
        front.get(timeout=0)
        found += 1
    except queue.Empty:
        pass
lines = sum(text.count("\\n") + 1 for text in said)
free()
seq = front.put({"n": 10}).result(60).seq
front.close()
counts = LocalQueue.open(place + "/queue").counts()
answers = sorted({type(exc).__name__ for exc in [ack, *puts]})
print(json.dumps({"answers": answers, "lines": lines, "said": said, "counts": counts, "seq": seq}))
"""


@pytest.fixture(params=["tmpfs", "limit"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Return a directory whose room can end, and how."""
    if request.param == "limit":
        yield str(tmp_path), "limit"
        return
    if os.geteuid() != 0:
        pytest.skip("only root mounts a file system")
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:  # noqa: S603
        pytest.skip("no file system can be mounted here")
    yield str(tmp_path), "tmpfs"
    subprocess.run(["umount", str(tmp_path)], check=False)  # noqa: S603, S607


def test_a_front_on_a_full_disk_says_so_once_and_goes_on(disk: tuple[str, str]) -> None:
    """Futures tell the cause, the log a few lines; with room again the front works as before."""
    ended = run_python("-c", _PROGRAM, *disk, check=True)
    told: dict[str, Any] = json.loads(ended.stdout)
    assert told["answers"] == ["FileAccessError"]
    assert 0 < told["lines"] <= 5, told["said"]
    assert told["counts"]["ready"] == told["seq"] == 4
