"""What the package says of itself."""

from __future__ import annotations

import subprocess
import sys

import spark_queue


def test_every_public_name_is_listed_and_there() -> None:
    """``dir`` shows the names that load late, and each of them loads."""
    assert set(spark_queue.__all__) <= set(dir(spark_queue))
    assert "local_session" in dir(spark_queue)
    for name in spark_queue.__all__:
        assert getattr(spark_queue, name) is not None


def test_version_is_known_without_spark() -> None:
    """The version and the names are told without loading Spark, installed or not."""
    asked = (
        "import sys, spark_queue; dir(spark_queue); "
        "print(spark_queue.__version__, 'pyspark' in sys.modules)"
    )

    told = subprocess.run(  # noqa: S603 - our own package
        [sys.executable, "-c", asked], capture_output=True, text=True, check=True
    )

    assert told.stdout == f"{spark_queue.__version__} False\n"
