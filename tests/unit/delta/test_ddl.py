from __future__ import annotations

import pytest

from spark_queue.columns.columns import why_no_ddl

_UNKNOWN = '[UNSUPPORTED_DATATYPE] Unsupported data type "{}". SQLSTATE: 0A000\n== SQL (line 1) =='


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (_UNKNOWN.format("BIGIT"), "there is no type 'bigit'; did you mean 'bigint'?"),
        (_UNKNOWN.format("TEXT"), "there is no type 'text'; known are array, bigint, "),
        ("\n[PARSE_SYNTAX_ERROR] near 'bigint'.\n\n== SQL ==", "[PARSE_SYNTAX_ERROR] near 'big"),
    ],
)
def test_a_typo_in_ddl_is_a_line(said: str, why: str) -> None:
    """A type that is none is named with the one that was meant; Spark's picture is left out."""
    told = why_no_ddl(said)

    assert told.startswith(why)
    assert "\n" not in told
