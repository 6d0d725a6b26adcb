"""The commits of a table on a shared store, read by a session of Spark as the small files they are.

To ask Spark for the table, or for its history, has it look at the whole log again, which costs as
much as half an append. Whether there is a file of the next name costs a twentieth, and says the
same. The commits of a table that its catalog keeps are not there, and are not looked for.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from spark_queue.log.delta.commits import Commit, commit_of, name_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Seconds after which a commit that was there is looked at again: it may have been cleaned up, or
#: the table created again.
_KEPT = 1.0

#: Commits that are looked for one by one at most: then to ask for the history costs less.
_FAR = 20


class FarCommits:
    """The commits of one table, by a session.

    Parameters
    ----------
    spark : SparkSession
        The session.
    table : str
        The table, as SQL names it.
    location : str
        Where its files are.
    """

    def __init__(self, spark: SparkSession, table: str, location: str) -> None:
        self._spark = spark
        self._table = table
        self._log = location.rstrip("/") + "/_delta_log"
        self._texts: dict[int, str] = {}
        self._looked = -math.inf
        self._is_closed = False

    def newest(self, known: int | None) -> int | None:
        """Return the newest version; ``None`` where commits cannot be looked at."""
        return None if self._is_closed else self._newest(known)

    def _newest(self, known: int | None) -> int | None:
        if known is None or not self._is_there(known):
            self._texts = {}
            return self._last()
        for version in range(known + 1, known + 1 + _FAR):
            if self._text(version) is None:
                return version - 1
        return self._last()

    def at(self, version: int, app_id: str) -> Commit:
        """Read a commit."""
        text = self._text(version)
        if text is None:
            raise FileNotFoundError(f"{self._log}/{name_of(version)}")
        return commit_of(text, app_id)

    def version_of(self, token: str, known: int | None) -> int | None:
        """Return the version that a token was committed as, if it is one soon after a known one.

        This does not change whether the step stands: what fails here is asked in another way.
        """
        if known is None or self._is_closed:
            return None
        with suppress(Exception):
            for version in range(known + 1, known + 1 + _FAR):
                text = self._text(version)
                if text is None:
                    return None
                if commit_of(text, "").token == token:
                    return version
        return None

    def _text(self, version: int) -> str | None:
        """Return the text of a commit; ``None`` where it is not there."""
        if version not in self._texts:
            text = self._read(version)
            if text is None:
                return None
            self._texts = {at: kept for at, kept in self._texts.items() if at > version - _FAR}
            self._texts[version] = text
            self._looked = time.monotonic()
        return self._texts[version]

    def _read(self, version: int) -> str | None:
        try:
            row = self._file(version).head()
        except Exception as exc:
            if "PATH_NOT_FOUND" in str(exc):
                return None
            raise
        return None if row is None else str(row[0])

    def _file(self, version: int) -> DataFrame:
        reader = self._spark.read.schema("value string")
        return reader.text(f"{self._log}/{name_of(version)}", wholetext=True)

    def _is_there(self, version: int) -> bool:
        """Tell whether a commit that was there is not cleaned up."""
        if time.monotonic() - self._looked < _KEPT:
            return True
        try:
            _ = self._file(version).schema
        except Exception:  # noqa: BLE001 - on any error the history says what there is
            return False
        self._looked = time.monotonic()
        return True

    def _last(self) -> int | None:
        """Return the newest version that the table's history names."""
        history = self._spark.sql(f"DESCRIBE HISTORY {self._table} LIMIT 1")
        row = history.select("version").head()
        try:
            self._is_closed = row is None or self._text(row[0]) is None
        except Exception:  # noqa: BLE001 - on any error its files are not ours to read
            self._is_closed = True
        return None if row is None or self._is_closed else int(row[0])
