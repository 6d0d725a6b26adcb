"""Those who run a handler on the items of a claim, as the loop of ``process`` sees them."""

from __future__ import annotations

import threading
from typing import Protocol

from spark_queue.claim import Claim
from spark_queue.commands.settle import SettledStep, Some, Verdict
from spark_queue.state.request import Request


class WorkerDied(Exception):  # noqa: N818 - what happened; it is not shown to users
    """A worker died of an item: which one it was is not known, and will be the next time."""


class Hands(Protocol):
    """Who runs a handler on the items of a claim, and keeps what it returns."""

    patience: float
    """Seconds after which :meth:`look` is called again."""

    def begin(self, stop: threading.Event) -> Request:
        """Make the place of the results ready, and return what claims ask for.

        Parameters
        ----------
        stop : threading.Event
            Set when nothing further is to begin.
        """

    def work(self, claim: Claim) -> None:
        """Run the handler.

        Raises
        ------
        WorkerDied
            When the items are to be given back, and run again.
        """

    def tell_part(self, claim: Claim) -> Some | None:
        """Write the results since the last part, while the handler runs.

        It runs beside :meth:`work`, and once before :meth:`tell`. After an error the next call
        writes the same results.

        Returns
        -------
        Some or None
            The outcomes; ``None`` where the claim was taken over.
        """

    def tell(self, claim: Claim) -> Verdict | None:
        """Write the remaining results; ``None`` where the claim was taken over.

        All earlier parts are settled by then.
        """

    def look(self) -> bool:
        """Charge what takes too long, and tell whether there was any."""

    def after_settle(self, claim: Claim, done: SettledStep) -> None:
        """Say what there is to say of a claim that is settled."""
