from __future__ import annotations

import pytest

from spark_queue.columns.arrow.arrow_types import parse_fields
from spark_queue.columns.kinds import Field, Kind, array, require_columns, struct
from spark_queue.errors import InvalidArgumentError, SchemaMismatchError, SparkNeededError


def test_columns_are_read_with_all_that_is_said_of_them() -> None:
    """Names, types, whether a value may be missing and comments are read as they are written."""
    ddl = """Path STRING, `we ``ird` dec(5) not null comment 'it''s', at: timestamp,
             parts array<struct<x long, y: date COMMENT "day">>"""

    assert parse_fields(ddl) == (
        Field("Path", Kind("string")),
        Field("we `ird", Kind("decimal(5,0)"), nullable=False, comment="it's"),
        Field("at", Kind("timestamp")),
        Field(
            "parts",
            array(struct([Field("x", Kind("bigint")), Field("y", Kind("date"), comment="day")])),
        ),
    )


@pytest.mark.parametrize(
    ("ddl", "why"),
    [
        ("a bigit", "there is no type 'bigit'; did you mean 'bigint'?"),
        ("a text", "there is no type 'text'; known are array"),
        ("int", "name the columns, as in 'path string'"),
        ("a int,", "'the end' is there instead of the name"),
        ("a int b int", "'b' is not expected"),
        ("a-b int", "'-b int' is nothing"),
        ("1a int", "quote names by backticks"),
        ("é int", "quote names by backticks"),
        ("a int -- mine", "'-- mine' is nothing"),
        ("a int comment x", "'x' is there instead of a comment"),
        (r"a int comment 'x\n'", "is nothing that may stand in it"),
        ("a int not", "'null' is missing before 'the end'"),
        ("a int default 5", "'default' is not expected"),
        ("a decimal(39,2)", "from 1 to 38"),
        ("a decimal(5,7)", "from 1 to 38"),
        ("a decimal(0)", "from 1 to 38"),
        ("a decimal(1,1,1)", "from 1 to 38"),
        ("a decimal(x)", "'x' is there instead of a number"),
        ("a array", "'<' is missing"),
        ("a map<int>", "',' is missing"),
        ("a `int`", "there is no type '`int`'"),
    ],
)
def test_what_is_no_ddl_is_named(ddl: str, why: str) -> None:
    """The error quotes the columns, and says which word is in the way."""
    with pytest.raises(InvalidArgumentError) as refused:
        parse_fields(ddl)

    assert str(refused.value).startswith(f"schema is {ddl!r}, which is no DDL: ")
    assert why in str(refused.value)


def test_empty_ddl_is_refused() -> None:
    """Columns that are not there are asked for by what they are for."""
    with pytest.raises(InvalidArgumentError, match="returns is ' ': it must be a text"):
        parse_fields(" ", "returns")


@pytest.mark.parametrize("kind", ["variant", "void", "string collate UNICODE"])
def test_a_type_that_only_spark_reads_is_refused(kind: str) -> None:
    """A type that a table of Arrow has not is none of a queue without Spark."""
    with pytest.raises(SparkNeededError, match=f"type {kind[:4]}.* needs a session of Spark"):
        parse_fields(f"a {kind}")


@pytest.mark.parametrize(
    ("ddl", "column", "why"),
    [
        ("a int, A int", "A", "twice"),
        ("_a int", "_a", "belong to the queue"),
        ("cost double", "cost", "is read from the frames"),
        ("`a.b` int", "a.b", "dot or a backtick"),
        ("a varchar(3)", "a", r"is varchar\(3\); a queue holds texts as string"),
        ("a character(3)", "a", r"is char\(3\)"),
    ],
)
def test_names_and_types_are_checked(ddl: str, column: str, why: str) -> None:
    """Columns that a queue of Spark refuses are refused with the same words."""
    with pytest.raises(SchemaMismatchError, match=why) as refused:
        require_columns(parse_fields(ddl))

    assert refused.value.column == column
