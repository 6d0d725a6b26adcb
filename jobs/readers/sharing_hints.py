"""Conditions as hints of the Delta Sharing protocol."""

from __future__ import annotations

import json
from datetime import date
from functools import cache
from typing import Any

from deltalake import DeltaTable

#: What a condition is called in a hint.
WORDS = {"=": "equal", "<": "lessThan", ">": "greaterThan", "IS NULL": "isNull"}

#: The types that hints have, by their names in a log.
TYPES = {"boolean": "bool", "long": "long", "string": "string", "date": "date"}
TYPES |= {"double": "double", "timestamp": "timestamp"}


@cache
def types_of(path: str) -> dict[str, Any]:
    """Return the types of a table's columns, as a log has them."""
    return {
        one["name"]: one["type"]
        for one in json.loads(DeltaTable(path).schema().to_json())["fields"]
    }


def hints(path: str, where: Any) -> str | None:
    """Return a condition as a hint, where hints have the type of its column."""
    name, word, value = where
    known = types_of(path)[name]
    if not isinstance(known, str) or known not in TYPES:
        return None
    leaves = [{"op": "column", "name": name, "valueType": TYPES[known]}]
    if value is not None:
        text = value.isoformat() if isinstance(value, date) else str(value)
        text = text.lower() if isinstance(value, bool) else text
        leaves.append({"op": "literal", "value": text, "valueType": TYPES[known]})
    return json.dumps({"op": WORDS[word], "children": leaves})
