"""What an operator does to a queue as one of its readers sees it: cancel and redrive."""

from __future__ import annotations

from spark_queue import checks
from spark_queue.delta.commands import admin, foreseeing, redriving, undoing
from spark_queue.looking import Looking
from spark_queue.opened import Configured
from spark_queue.results import Affected, Undone


class Operating(Configured, Looking):
    """A queue in the hands of an operator."""

    def cancel(self, where: str, *, dry_run: bool = False) -> Affected:
        """End every ready or claimed item for which a SQL predicate is true.

        Parameters
        ----------
        where : str
            A predicate over the columns of :meth:`status`, such as ``tenant = 'a' AND _seq < 100``.
        dry_run : bool
            Only count, by state, and show the first.

        Returns
        -------
        Affected
            How many items it is about: a number, which knows the step (:meth:`undo`). A holder of
            such an item gets ``LeaseLostError``.
        """
        checks.require_change(where, dry_run=dry_run)
        store = self._store
        return foreseeing.cancelled(store, where) if dry_run else admin.cancel(store, where)

    def redrive(self, where: str, *, dry_run: bool = False, again: bool = False) -> Affected:
        """Enqueue dead, expired or cancelled items again, as new items that name the old.

        An item is redriven once: one that has a successor (:meth:`dead`) is passed over. Whether
        the key of an item was taken meanwhile is decided as for any enqueue.

        Parameters
        ----------
        where, dry_run
            As for :meth:`cancel`.
        again : bool
            Redrive also what was redriven before.

        Returns
        -------
        Affected
            How many items it is about.
        """
        checks.require_change(where, dry_run=dry_run, again=again)
        store = self._store
        if dry_run:
            return foreseeing.redriven(store, where, again=again)
        return redriving.redrive(store, where, again=again)

    def undo(self, step: int) -> Undone:
        """Take back what an operator did in a step of the status log, as far as that can be.

        Cancelled items come back as new ones that name the old, at the places that they had; a
        pause or a changed configuration is put back to what was before. It is a step of its own,
        and done twice it is done once.

        Parameters
        ----------
        step : int
            The step: ``cancel`` answers with it (:class:`Affected`), and so do ``pause``,
            ``resume`` and ``configure``.

        Returns
        -------
        Undone
            What came back, and what did not: a key that was taken since keeps its item out.

        Raises
        ------
        InvalidArgumentError
            When the log has no such step.
        CannotUndoError
            When it was something that is not taken back; it says what, and why not.
        """
        checks.require_count("step", step)
        return undoing.undo(self._store, step, for_itself=self._is_one_of_many)
