"""What the package says of itself."""

from __future__ import annotations

import builtins
import importlib
import pkgutil
import re
from importlib.metadata import metadata

import pytest

import spark_queue
from spark_queue import errors
from tests.programs import run_python


def test_every_public_name_is_listed_and_there() -> None:
    """``dir`` shows the names that load late, and each of them loads."""
    assert set(spark_queue.__all__) <= set(dir(spark_queue))
    assert "local_session" in dir(spark_queue)
    for name in spark_queue.__all__:
        assert getattr(spark_queue, name) is not None


@pytest.mark.parametrize(
    "module",
    ["spark_queue", "spark_queue.inprocess", "spark_queue.operators", "spark_queue.testing"],
)
def test_import_of_everything_replaces_no_builtin(module: str) -> None:
    """``from spark_queue import *`` leaves ``open``, and all other builtins, as they were."""
    names: dict[str, object] = {}
    exec(f"from {module} import *", names)  # noqa: S102 - our own package
    assert len(names) > 3
    assert not {*names} & {*dir(builtins)} - {"__builtins__"}


def test_every_public_name_is_where_it_was_made() -> None:
    """A name is loaded from the module that defines it, not from one that happens to use it."""
    for name, home in spark_queue._HOMES.items():
        value = getattr(spark_queue, name)
        # A constant does not know where it was made.
        assert getattr(value, "__module__", f"spark_queue.{home}") == f"spark_queue.{home}"
        assert getattr(importlib.import_module(f"spark_queue.{home}"), name) is value


def test_a_package_index_shows_no_link_to_a_file_that_it_has_not() -> None:
    """What the package says of itself is README, whose files are named there and not linked."""
    told = metadata("spark-queue").json["description"]
    assert isinstance(told, str)
    assert told.startswith("# ")
    assert "`docs/guarantees.md`" in told
    assert all(link.startswith("https://") for link in re.findall(r"\]\(([^)]*)\)", told))


def test_every_error_is_had_from_one_place_and_on_its_page() -> None:
    """All errors of the library are had from ``errors``, and the tree at its top shows each."""
    for module in pkgutil.walk_packages(spark_queue.__path__, "spark_queue."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found = [errors.SparkQueueError]
    for error in found:
        found += error.__subclasses__()
    ours = [error for error in found if error.__module__.startswith("spark_queue.")]
    for error in ours:
        assert getattr(errors, error.__name__) is error
        assert re.search(rf"\b{error.__name__}\b", errors.__doc__ or "")


#: Uses the package where it cannot import PySpark, or what comes with it.
_WITHOUT_SPARK = """
import sys

class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pyspark", "py4j", "delta", "pandas"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refusing())
names = {}
exec("from spark_queue import *", names)
print(*sorted({"DeltaQueue", "Reader", "DurableQueue", "LocalQueue"} & {*names}))
import spark_queue

def use(name):
    exec(f"from spark_queue import {name}", {})

for call in (
    lambda: spark_queue.DeltaQueue,
    lambda: use("Reader"),
    lambda: use("DeltaIdempotencyKeyStore"),
    spark_queue.local_session,
    lambda: spark_queue.DurableQueue("/q"),
    lambda: spark_queue.journaled_queue("/q"),
    lambda: spark_queue.DurableQueue(object()),
    lambda: spark_queue.journaled_queue(object(), "/q"),
    lambda: exec("import spark_queue.operators"),
    lambda: exec("from spark_queue.streaming import fair_rounds"),
):
    try:
        call()
    except spark_queue.SparkQueueError as exc:
        print(type(exc).__name__, isinstance(exc, ImportError), exc)
"""


def test_without_pyspark_everything_else_is_there() -> None:
    """All that can be had is had by ``import *``, and what cannot names the extra."""
    told = run_python("-c", _WITHOUT_SPARK, check=True)

    names, *refused = told.stdout.splitlines()
    assert names == "DurableQueue LocalQueue"
    assert [line.split()[0] for line in refused] == [
        *["PackageMissingError"] * 4,
        *["InvalidArgumentError"] * 2,
        *["PackageMissingError"] * 4,
    ]
    assert all("pip install 'spark-queue[spark]'" in line for line in refused)
    assert all("spark_queue.open(path)" in line for line in refused[4:6])
    assert refused[0].startswith("PackageMissingError True spark_queue.DeltaQueue needs pyspark")
    assert "spark_queue.operators needs pyspark" in refused[-2]
    assert "spark_queue.streaming needs pyspark" in refused[-1]


def test_version_is_known_without_spark() -> None:
    """The version and the names are told without loading Spark, installed or not."""
    asked = (
        "import sys, spark_queue; dir(spark_queue); "
        "print(spark_queue.__version__, 'pyspark' in sys.modules)"
    )

    told = run_python("-c", asked, check=True)

    assert told.stdout == f"{spark_queue.__version__} False\n"


def test_queues_in_a_process_need_no_other_package() -> None:
    """They are loaded with the standard library alone."""
    asked = (
        "import sys; before = {*sys.modules}; import spark_queue.inprocess, spark_queue.journal; "
        "loaded = {name.partition('.')[0] for name in {*sys.modules} - before}; "
        "print(*sorted(loaded - sys.stdlib_module_names))"
    )

    told = run_python("-c", asked, check=True)

    assert told.stdout == "spark_queue\n"
