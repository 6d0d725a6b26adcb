"""Arrow without pandas, until something needs it.

Arrow loads pandas, where it is installed, with the first value that it converts: a fifth of what a
command costs that only looks at a queue. Once it has found none it works without, and loads it when
it is asked for a frame of pandas. Values of pandas it takes for plain sequences from then on: so
only commands do this that run no code of users, and it ends where Spark begins.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any


class _Hidden:
    """Says of pandas that it is not installed."""

    @staticmethod
    def find_spec(name: str, *_: Any) -> None:
        """See :class:`importlib.abc.MetaPathFinder`."""
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


def leave_out() -> bool:
    """Have Arrow find no pandas; False where somebody has loaded it."""
    if "pandas" in sys.modules:
        return False
    hidden: Any = _Hidden()
    sys.meta_path.insert(0, hidden)
    try:
        _convert()
    finally:
        sys.meta_path.remove(hidden)
    return True


def bring_back() -> None:
    """Have Arrow know pandas, where it is installed."""
    if find_spec("pandas") is not None:
        _convert().to_pandas()


def _convert() -> Any:
    import pyarrow as pa  # noqa: PLC0415 - help works without it

    return pa.array([None])
