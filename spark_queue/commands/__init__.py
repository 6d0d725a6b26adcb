"""Commands of a queue: each decides rows as of a snapshot, and commits them as one step.

Imports state, SQL, columns and logs; what asks tables by Spark is in one module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_queue import extras

if TYPE_CHECKING:
    from spark_queue.commands import (
        admin as admin,
        batches as batches,
        claims as claims,
        create_drop as create_drop,
        dry_runs as dry_runs,
        enqueue as enqueue,
        forward_items as forward_items,
        key_pauses as key_pauses,
        readers as readers,
        recovery as recovery,
        rows as rows,
        settle as settle,
        undo_command as undo_command,
        upgrade as upgrade,
        wait_for_end as wait_for_end,
    )

__getattr__ = extras.submodules(__name__)
