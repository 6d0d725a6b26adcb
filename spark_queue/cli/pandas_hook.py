"""Arrow without pandas, until a program imports pandas.

Arrow imports pandas for the first array that it makes, which takes longer than most steps do.
"""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pyarrow as pa


class _PandasFinder(MetaPathFinder):
    """Finds pandas as others do; Arrow is to know it as soon as it is imported."""

    #: The thread in which Arrow looks for it now.
    hidden_from: int | None = None

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return where pandas is.

        Raises
        ------
        ModuleNotFoundError
            When Arrow is not to find it.
        """
        if name != "pandas":
            return None
        if self.hidden_from == threading.get_ident():
            raise ModuleNotFoundError(name=name)
        others = [finder for finder in sys.meta_path if finder is not self]
        # Python before 3.12 tolerates finders that have no such method.
        finds = filter(None, (getattr(finder, "find_spec", None) for finder in others))
        specs = (find(name, path, target) for find in finds)
        spec = next((spec for spec in specs if spec is not None), None)
        loader: Any = None if spec is None else spec.loader
        if loader is not None:
            load = loader.exec_module

            def load_and_tell(module: ModuleType) -> None:
                load(module)
                # Asked for its type, Arrow looks for pandas once more, or says that it is too old.
                with suppress(ImportError):
                    pa.array([None]).to_pandas()

            loader.exec_module = load_and_tell
        return spec


def leave_pandas_out() -> None:
    """Keep Arrow from importing pandas by itself; once it is imported, Arrow knows it.

    To say it again does nothing: finders that ask each other would not come to an end.
    """
    is_said = any(isinstance(finder, _PandasFinder) for finder in sys.meta_path)
    if is_said or "pandas" in sys.modules:
        return
    finder = _PandasFinder()
    sys.meta_path.insert(0, finder)
    finder.hidden_from = threading.get_ident()
    try:
        pa.array([None])
    finally:
        finder.hidden_from = None
