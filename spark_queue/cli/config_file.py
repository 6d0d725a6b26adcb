"""Configurations in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spark_queue.errors import InvalidConfigError


def read_mapping(file: Path) -> dict[str, Any]:
    """Read names and values from a YAML file.

    Raises
    ------
    InvalidConfigError
        When the file cannot be read, or is no mapping of names.
    """
    import yaml  # noqa: PLC0415 - takes a while

    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as exc:
        raise InvalidConfigError(f"configuration {str(file)!r}: {exc.strerror}") from exc
    except (yaml.YAMLError, UnicodeError) as exc:
        why = " ".join(str(exc).split())
        raise InvalidConfigError(f"configuration {str(file)!r} is no YAML: {why}") from exc
    if found is None:
        return {}
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise InvalidConfigError(
            f"configuration {str(file)!r} must be a mapping of names to values"
        )
    return found
