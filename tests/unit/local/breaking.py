"""A journal on Delta that breaks where it is told to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spark_queue.journal import Group
from spark_queue.stores.delta_journal import DeltaJournal


class Breaking(DeltaJournal):
    """A journal on Delta that breaks where it is told to, as a process would that is killed."""

    before: Callable[[str], None] = staticmethod(lambda _call: None)

    def commit(self, group: Group[Any]) -> None:
        """Commit a group, or a part of it."""
        self.before("commit")
        super().commit(Group(puts=group.puts))
        self.before("settlements")
        super().commit(Group(settlements=group.settlements, heads=group.heads))
