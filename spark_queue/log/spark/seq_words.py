"""Numbers of items in words of bits, so that many are sent to the rows of a log."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, functions as F

#: Neighbours that share a word.
_BITS = 64


@dataclass(frozen=True, slots=True)
class SeqWords:
    """Numbers of items, those of 64 neighbours in one word.

    Attributes
    ----------
    rows : pyspark.sql.DataFrame
        Of each word, ``word bigint``, and ``bits bigint`` with one of each number in it.
    count : int
        How many words there are.
    first, last : int
        The least word and the greatest.
    """

    rows: DataFrame
    count: int
    first: int
    last: int

    @classmethod
    def of(cls, seqs: DataFrame) -> SeqWords:
        """Return the numbers of a frame, one or more, which are in ``_seq``."""
        bit = F.expr(f"shiftleft(1L, CAST(_seq % {_BITS} AS INT))")
        words = seqs.groupBy(F.expr(f"_seq div {_BITS}").alias("word"))
        rows = words.agg(F.bit_or(bit).alias("bits")).localCheckpoint()
        facts = rows.agg(F.count("word"), F.min("word"), F.max("word"))
        return cls(rows, *facts.collect()[0])

    def condition(self, column: str, view: str) -> str:
        """Return the condition, in SQL, that a number is one of these.

        It names the least and the greatest, by which files are skipped.
        """
        low, high = self.first * _BITS, (self.last + 1) * _BITS - 1
        bit = f"getbit({view}.bits, CAST({column} % {_BITS} AS INT)) = 1"
        within = f"{column} BETWEEN {low} AND {high}"
        return f"{column} div {_BITS} = {view}.word AND {bit} AND {within}"
