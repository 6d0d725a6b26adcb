r"""Files of a micro-batch, of which each is read once.

Where the name of a file has one of ``[ ] { } ? * \``, the file source of Spark 4.2 reads all
files of its micro-batch once more for each such name, and the plain ones once more than that. A
count of the same files by the same reader tells how often it reads each, in any release.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, Window, functions as F

from spark_queue.errors import InvalidArgumentError

#: The column of a stream that says which file a row is of.
FILE = "_spark_queue_file"

#: What the name of a file has in the log of a source, as a URL, that is read more often.
_LIKE_A_PATTERN = re.compile(r"\*|%(5b|5d|7b|7d|3f|5c)", re.IGNORECASE)

#: An option of Spark's readers: its file source reads by it, which takes no name for a pattern.
_NO_PATTERNS = {"__globPaths__": "false"}


def literal(path: str) -> str:
    """Return a path as Spark reads it: to that it is a pattern, to a query it is none."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path)


def with_files(df: DataFrame) -> DataFrame:
    """Return a stream with the file of each row, where its rows are of one file each."""
    try:
        marked = df.select("*", F.col("_metadata.file_path").alias(FILE))
        _ = marked.schema
    except AnalysisException:
        return df
    return marked


def each_once(batch: DataFrame, checkpoint: str, number: int) -> DataFrame:
    """Return the rows of a micro-batch, those of each file once, without the file.

    Parameters
    ----------
    batch : DataFrame
        The micro-batch of a stream that :func:`with_files` has returned.
    checkpoint : str
        Where its query keeps its state.
    number : int
        Its number.

    Raises
    ------
    InvalidArgumentError
        When files would be read more often, and rows do not say of which they are.
    """
    files = batch_files(batch.sparkSession, checkpoint, number)
    rows = batch.drop(FILE)
    if not is_read_more_often(files):
        return rows
    if FILE not in batch.columns:
        raise InvalidArgumentError(read_more_often(files, number))
    spark, place = batch.sparkSession, F.monotonically_increasing_id()
    reader = spark.read.options(**_NO_PATTERNS).format("binaryFile")
    times = reader.load([unquote(file) for file in files]).select(
        F.col("_metadata.file_path").alias(FILE)
    )
    times = times.groupBy(FILE).agg(F.count("*").alias("_times"))
    text = F.to_json(F.struct(*rows.columns), {"ignoreNullFields": "false"})
    marked = batch.withColumns({"_place": place, "_text": text})
    # Not the inner join: a row whose file was not counted is an error, and no row that is left out.
    known = marked.join(F.broadcast(times), FILE, "left")
    uncounted = F.concat(F.lit("a file was not counted: "), FILE)
    count = F.coalesce("_times", F.raise_error(uncounted).cast("long"))
    alike = Window.partitionBy(FILE, "_text").orderBy("_place")
    first = (F.row_number().over(alike) - 1) % count == 0
    kept = known.withColumn("_is_first", first).where("_is_first").orderBy("_place")
    return kept.select(*rows.columns)


def batch_files(spark: SparkSession | None, checkpoint: str, number: int) -> list[str]:
    """Return the files of a micro-batch as URLs; none where its source has no files.

    Without a session only a checkpoint on this machine's disk is read.
    """
    directory = Path(re.sub("^file:/*", "/", checkpoint), "sources")
    if directory.is_dir():
        return [*_read(directory, number)]
    if spark is None:
        return []
    pattern = f"{literal(checkpoint.rstrip('/'))}/sources/*/{{{number},{number}.compact}}"
    path, of = (F.get_json_object("value", f"$.{name}") for name in ("path", "batchId"))
    try:
        lines = spark.read.text(pattern).where(of.cast("long") == number)
        return [row[0] for row in lines.select(path).where(path.isNotNull()).collect()]
    except AnalysisException as exc:
        if exc.getCondition() != "PATH_NOT_FOUND":
            raise
        return []


def is_read_more_often(files: Sequence[str]) -> bool:
    """Whether Spark reads some files of a micro-batch more than once."""
    return len(files) > 1 and any(map(_LIKE_A_PATTERN.search, files))


def read_more_often(files: Sequence[str], number: int) -> str:
    """Say which file makes Spark read those of a micro-batch more than once, and the way out."""
    one = next(filter(_LIKE_A_PATTERN.search, files))
    return (
        f"micro-batch {number} has {len(files)} files, and Spark reads them more than once, as the "
        f"name of {unquote(one)!r} looks like a pattern: read the files by enqueue_stream, with "
        "no join or union before it, or with option('maxFilesPerTrigger', 1)"
    )


def _read(directory: Path, number: int) -> Iterator[str]:
    """Return the files of a micro-batch by the logs of its sources, a folder each."""
    for source in sorted(directory.iterdir()):
        for name in (str(number), f"{number}.compact"):
            log = source / name
            for line in log.read_text("utf-8").split("\n") if log.is_file() else ():
                # The first line is the version; other sources have other lines.
                said = json.loads(line) if line.startswith('{"path"') else {}
                if said.get("batchId") == number:
                    yield said["path"]
