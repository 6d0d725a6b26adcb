"""Mark of a method that overrides one of a base class."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeVar

__all__ = ["override"]

if TYPE_CHECKING:
    from typing_extensions import override
elif sys.version_info >= (3, 12):
    from typing import override
else:
    _F = TypeVar("_F")

    def override(method: _F) -> _F:
        """Return the method: Python 3.11 and older have no mark."""
        return method
