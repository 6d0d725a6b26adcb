"""The engines that ``engines.py`` asks: what is installed, and how each writes a value in SQL.

The program of an engine is ``readers/with_NAME.py``; it runs in an environment of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any, NamedTuple

#: A condition: a column, ``IS NULL`` or what compares it, and the value.
Where = tuple[str, str, Any]


class Dialect(NamedTuple):
    """How values of the types that need it are written, and names quoted."""

    forms: Mapping[type, str]
    quote: str = '"'

    def sql(self, where: Where | None) -> str:
        """Return a condition as text."""
        if where is None:
            return "true"
        name, word, value = where
        name = f"{self.quote}{name}{self.quote}"
        if value is None:
            return f"{name} IS NULL"
        if isinstance(value, bytes):
            text = value.hex()
        elif isinstance(value, Decimal):
            text = f"{value:f}"
        elif isinstance(value, datetime):
            # Years have four digits, on each system.
            text = value.isoformat(" ").removesuffix("+00:00")
        else:
            text = str(value)
        form = self.forms.get(type(value), "'{}'" if isinstance(value, str) else "{}")
        return f"{name} {word} {form.format(text)}"


ARROW = Dialect(
    {
        datetime: "arrow_cast('{}', 'Timestamp(Microsecond, Some(\"UTC\"))')",
        date: "DATE '{}'",
        Decimal: "arrow_cast('{}', 'Decimal128(38, 18)')",
        float: "arrow_cast('{}', 'Float64')",
        bytes: "X'{}'",
    }
)
DUCKDB = Dialect(
    {
        datetime: "TIMESTAMPTZ '{}+00'",
        date: "DATE '{}'",
        Decimal: "'{}'::DECIMAL(38, 18)",
        float: "'{}'::DOUBLE",
        bytes: "from_hex('{}')",
    }
)
CLICKHOUSE = Dialect(
    {
        datetime: "toDateTime64('{}', 6, 'UTC')",
        date: "toDate32('{}')",
        Decimal: "toDecimal128('{}', 18)",
        float: "toFloat64('{}')",
        bytes: "unhex('{}')",
    }
)
SPARK = Dialect(
    {
        datetime: "TIMESTAMP '{}+00:00'",
        date: "DATE '{}'",
        Decimal: "CAST('{}' AS DECIMAL(38, 18))",
        float: "CAST('{}' AS DOUBLE)",
        bytes: "X'{}'",
        int: "CAST('{}' AS BIGINT)",
    },
    "`",
)
TRINO = Dialect(
    {
        datetime: "TIMESTAMP '{} UTC'",
        date: "DATE '{}'",
        Decimal: "DECIMAL '{}'",
        float: "DOUBLE '{}'",
        bytes: "X'{}'",
        int: "BIGINT '{}'",
    }
)


class Engine(NamedTuple):
    """An engine: what is installed (itself first), and its SQL.

    Without a dialect its program is given the column, the word and the value.
    """

    packages: Sequence[str]
    dialect: Dialect | None = None
    program: str | None = None
    """Its program, where several engines have one: ``sharing`` of ``readers/with_sharing.py``."""
    name: str | None = None
    """Its name in the table, where that is not the first package's."""
    is_on_stores: bool = True
    """Whether it is asked about tables on a store: others need more for that."""
    environment: Mapping[str, str] = MappingProxyType({})
    """What its program is told."""


def _spark(version: str, delta: str, *more: str, is_on_stores: bool = False) -> Engine:
    """Return a version of Spark, with what its frames become Arrow's by."""
    packages = (f"pyspark=={version}", f"delta-spark=={delta}", "pyarrow==23.0.1", "pandas==2.3.3")
    return Engine((*packages, *more), SPARK, "spark", is_on_stores=is_on_stores)


_SHARING = ("delta-sharing==1.4.2", "deltalake==1.6.6", "pyarrow==23.0.1")


def _sharing_server(form: str) -> Engine:
    """Return the server of Delta Sharing's own project, in a form of its answers."""
    return Engine(
        _SHARING,
        program="sharing_server",
        name=f"delta-sharing-server 1.4.1, `{form}`",
        environment={"SHARING_FORM": form},
    )


ENGINES: Mapping[str, Engine] = {
    "deltalake": Engine(("deltalake==1.6.6", "pyarrow==26.0.1"), ARROW),
    "arrow": Engine(("pyarrow==26.0.1", "deltalake==1.6.6")),
    "datafusion": Engine(("datafusion==55.0.0", "deltalake==1.6.6", "pyarrow==26.0.1"), ARROW),
    "polars": Engine(("polars==2.1.0", "deltalake==1.6.6", "pyarrow==26.0.1")),
    # It asks for pyiceberg where it writes Delta.
    "daft": Engine(("daft==0.7.26", "deltalake==1.6.6", "pyarrow==23.0.1", "pyiceberg==0.12.0")),
    "duckdb": Engine(
        (
            "duckdb==1.5.5",
            "duckdb-extension-delta==1.5.5",
            "duckdb-extension-httpfs==1.5.5",
            "pyarrow==26.0.1",
        ),
        DUCKDB,
    ),
    "chdb": Engine(("chdb==4.4.0", "pyarrow==26.0.1"), CLICKHOUSE),
    "sail": Engine(("pysail==0.7.2", "pyspark-client==4.1.1", "pyarrow==26.0.1"), SPARK),
    "dask": Engine(
        (
            "dask-deltatable==0.4.0",
            "dask==2026.8.0",
            "deltalake==1.6.6",
            "pyarrow==26.0.1",
            "s3fs==2026.9.0",
            "boto3==1.43.117",
        ),
    ),
    "ray": Engine(("ray==2.60.0", "ray[data]==2.60.0", "deltalake==1.6.6", "pyarrow==26.0.1")),
    "kernel": Engine(
        ("deltalake==1.6.6", "pyarrow==26.0.1"),
        name="Delta Kernel 4.4.0 (Java)",
        is_on_stores=False,
    ),
    "trino": Engine(
        ("trino==0.340.0", "deltalake==1.6.6", "pyarrow==26.0.1"), TRINO, name="Trino 449"
    ),
    "sharing": Engine(
        _SHARING, name="delta-sharing 1.4.2, `delta`", program="sharing", is_on_stores=False
    ),
    "sharing-parquet": Engine(
        _SHARING,
        name="delta-sharing 1.4.2, `parquet`",
        program="sharing",
        is_on_stores=False,
        environment={"SHARING_FORM": "parquet"},
    ),
    "sharing-server": _sharing_server("delta"),
    "sharing-server-parquet": _sharing_server("parquet"),
    "spark-3.5": _spark("3.5.9", "3.3.3", "numpy==1.26.4", "setuptools==80.9.0"),
    "spark-4.0": _spark("4.0.1", "4.4.0"),
    "spark-4.1": _spark("4.1.1", "4.4.0"),
    "spark-4.2": _spark("4.2.0", "4.4.0", is_on_stores=True),
}
