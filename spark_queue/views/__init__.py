"""Views of a queue: items, counts, lags and reasons.

Imports commands, frames of Spark, SQL, state and logs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_queue import extras

if TYPE_CHECKING:
    from spark_queue.views import (
        answers as answers,
        explaining as explaining,
        operator_steps as operator_steps,
        views as views,
    )

__getattr__ = extras.submodules(__name__)
