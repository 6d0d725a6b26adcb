"""Keep the classes of a session of Spark as its JVM has them: ``python .ci/classes.py FILE``.

The tests start some fifty JVMs, each of which would read, check and link the same twenty thousand
classes. They map this archive instead (class data sharing, JEP 350), which saves each of them a
quarter of its processor time. It is good for one Java and one set of jars, and is made where it is
missing or older than what is installed. It changes nothing but time: where it cannot be made, as
without ``jcmd``, JVMs start without it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Has a JVM remember what it loads.
_REMEMBERED = "-XX:+RecordDynamicDumpInfo -XX:TieredStopAtLevel=1"


def main(argv: list[str]) -> int:
    """Make the archive, and return the exit code."""
    if len(argv) != 1:
        print("usage: classes.py FILE", file=sys.stderr)
        return 2
    target, jcmd = Path(argv[0]), shutil.which("jcmd")
    if jcmd is None:
        print("there is no jcmd beside java: JVMs start without an archive of classes")
        return 0
    if _is_fresh(target):
        return 0
    target.unlink(missing_ok=True)
    os.environ["SPARK_SUBMIT_OPTS"] = _REMEMBERED
    problem = _made(jcmd, target.absolute())
    if problem is not None:
        target.unlink(missing_ok=True)
        print(f"JVMs start without an archive of classes: {problem}")
    return 0


def _is_fresh(target: Path) -> bool:
    import pyspark  # noqa: PLC0415 - it need not be there for the usage

    jars = Path(pyspark.__file__).parent / "jars"
    return target.exists() and target.stat().st_mtime > jars.stat().st_mtime


def _made(jcmd: str, target: Path) -> str | None:
    """Make the archive; say why, where that did not work."""
    from spark_queue.session import local_session  # noqa: PLC0415 - its JVM has its options now

    spark = local_session("classes", quiet=True)
    with tempfile.TemporaryDirectory() as place:
        _played(spark, place)
    try:
        command = [jcmd, _jvm(), "VM.cds", "dynamic_dump", str(target)]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
    except (OSError, LookupError) as exc:
        return str(exc)
    finally:
        spark.stop()
    return None if target.exists() and made.returncode == 0 else made.stdout + made.stderr


def _played(spark: SparkSession, place: str) -> None:
    """Do a little of what most tests do."""
    from spark_queue import DeltaQueue, QueueConfig  # noqa: PLC0415 - as above

    queue = DeltaQueue.create(spark, f"{place}/queue", "id long", QueueConfig(dedup_key="id"))
    queue.enqueue(spark.range(10))
    queue.status().groupBy("_state").count().collect()
    spark.range(10).write.format("delta").save(f"{place}/table")
    spark.range(10).write.format("delta").mode("append").save(f"{place}/table")


def _jvm() -> str:
    """Return the process of the session's JVM: the child of this one."""
    me = os.getpid()
    return Path(f"/proc/{me}/task/{me}/children").read_text().split()[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
