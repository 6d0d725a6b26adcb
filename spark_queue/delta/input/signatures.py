"""Functions of expressions that mean the same in every session.

It is a list of what is known to be safe, so that a function of a later release of Spark is
refused until somebody has looked at it. Types are letters, so that the arguments of a call make a
word, and a signature is a pattern for it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from spark_queue.delta.input.kinds import Kind

#: The letter of each type that something here takes; decimals have digits behind their name.
_LETTERS = {
    **dict.fromkeys(["tinyint", "smallint", "int", "bigint"], "w"),
    **dict.fromkeys(["float", "double"], "f"),
    "string": "t",
    "boolean": "b",
    "date": "d",
    "timestamp_ntz": "z",
    "timestamp": "i",
    "decimal": "c",
    "binary": "y",
    "void": "n",
}

#: A whole number that is written out and not 0, where any whole number may stand, too.
LITERAL = "k"

#: The types of what a function returns.
KINDS = {
    "t": Kind("string"),
    "w": Kind("bigint"),
    LITERAL: Kind("bigint"),
    "b": Kind("boolean"),
    "d": Kind("date"),
    "n": Kind("void"),
}

#: For each function the pattern of its arguments, and the letter of its result. No time becomes a
#: text or a date here, and no fraction a text: that would depend on the session's zone, or on the
#: JDK. Nothing is divided by what may be 0, which is an error in one session and NULL in another.
_FUNCTIONS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(["lower", "lcase", "upper", "ucase", "reverse"], ("t", "t")),
    **dict.fromkeys(["trim", "ltrim", "rtrim"], ("t", "t")),
    **dict.fromkeys(["length", "len", "char_length", "character_length"], ("t", "w")),
    **dict.fromkeys(["substring", "substr"], ("tww?", "t")),
    **dict.fromkeys(["left", "right", "repeat"], ("tw", "t")),
    **dict.fromkeys(["lpad", "rpad"], ("twt?", "t")),
    **dict.fromkeys(["startswith", "endswith", "contains"], ("tt", "b")),
    **dict.fromkeys(["split_part", "substring_index"], ("ttw", "t")),
    **dict.fromkeys(["regexp_replace", "replace", "translate"], ("ttt", "t")),
    **dict.fromkeys(["md5", "sha", "sha1"], ("[ty]", "t")),
    **dict.fromkeys(["hash", "xxhash64"], ("[twbdziy]+", "w")),
    **dict.fromkeys(["isnull", "isnotnull"], (".", "b")),
    **dict.fromkeys(["pmod", "mod"], ("[wk]k", "w")),
    **dict.fromkeys(["floor", "ceil", "ceiling"], ("[wf]", "w")),
    **dict.fromkeys(["unix_micros", "unix_millis", "unix_seconds"], ("i", "w")),
    **dict.fromkeys(["year", "quarter", "month", "weekofyear", "dayofyear"], ("d", "w")),
    **dict.fromkeys(["day", "dayofmonth", "dayofweek", "weekday", "unix_date"], ("d", "w")),
    **dict.fromkeys(["date_add", "date_sub"], ("dw", "d")),
    "base64": ("y", "t"),
    "btrim": ("tt?", "t"),
    "concat": ("[twbdz]+", "t"),
    "concat_ws": ("t[twbdz]*", "t"),
    "crc32": ("[ty]", "w"),
    "date_from_unix_date": ("w", "d"),
    "datediff": ("dd", "w"),
    "hex": ("[twy]", "t"),
    "instr": ("tt", "w"),
    "last_day": ("d", "d"),
    "locate": ("ttw?", "w"),
    "regexp_extract": ("ttw?", "t"),
    "regexp_substr": ("tt", "t"),
    "sha2": ("[ty]w", "t"),
    "string": ("[twbdz]", "t"),
    "trunc": ("dt", "d"),
}

#: Functions that return one of their arguments, from this one on; those are of one type.
_CHOOSING = {"coalesce": 0, "greatest": 0, "if": 1, "ifnull": 0, "least": 0, "nullif": 0, "nvl": 0}

#: What can be chosen from, and compared.
COMPARABLE = "twkbdziyn"

#: From which types a value may be cast to which. A cast that may fail is an error in one session
#: and NULL in another; a tried one is NULL in all.
_CASTS: dict[str, tuple[str, str]] = {
    "string": ("[twbdz]", "t"),
    "bigint": ("[wb]", "w"),
    "long": ("[wb]", "w"),
}
_TRIED: dict[str, tuple[str, str]] = {
    "string": ("[twbdz]", "t"),
    **dict.fromkeys(["bigint", "long", "int", "integer", "smallint", "tinyint"], ("[twb]", "w")),
    "date": ("t", "d"),
    "boolean": ("t", "b"),
}
CASTS = {"cast": _CASTS, "try_cast": _TRIED}


def letter_of(kind: Kind) -> str:
    """Return the letter of a type, ``o`` for those that nothing here takes."""
    return _LETTERS.get("decimal" if kind.digits else kind.form, "o")


def is_known(function: str) -> bool:
    """Tell whether a function may be called, with some arguments."""
    return function in _FUNCTIONS or function in _CHOOSING


def result_of(function: str, letters: str) -> str | None:
    """Return the letter of what a known function returns; ``None`` where it does not take that."""
    if function not in _CHOOSING:
        return result_letter(_FUNCTIONS[function], letters)
    chosen = letters[_CHOOSING[function] :]
    if function == "if" and (len(letters) != len("bxy") or letters[0] != "b"):
        return None
    return common(chosen) if len(chosen) > 1 or function == "coalesce" else None


def result_letter(signature: tuple[str, str], letters: str) -> str | None:
    """Return the letter of the result where a signature fits the arguments."""
    pattern, result = signature
    words = (letters, letters.replace(LITERAL, "w"))
    return result if any(re.fullmatch(pattern, word) for word in words) else None


def common(letters: Sequence[str]) -> str | None:
    """Return the one letter of values that are compared, or chosen from; NULL is of any type."""
    kinds = {"w" if letter == LITERAL else letter for letter in letters}
    if len(kinds) > 1:
        kinds.discard("n")
    only = kinds.pop() if len(kinds) == 1 else ""
    return only if only and only in COMPARABLE else None
