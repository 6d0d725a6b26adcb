"""A cached checkup, renewed in the background."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from spark_queue.log.step_events import logger
from spark_queue.report.finding import Checkup

#: Seconds after which a checkup is renewed: it looks at every file of the tables.
FOR_A_CHECK = 30.0


@dataclass(slots=True)
class KeptCheckup:
    """The newest checkup of a queue: only the first look waits for it.

    Parameters
    ----------
    examine : callable
        Makes a checkup.
    timer : callable
        Says the seconds from which ages are counted.
    """

    examine: Callable[[], Checkup]
    timer: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _known: Checkup | None = None
    _at: float = 0.0
    _is_renewing: bool = False

    def look(self) -> Checkup:
        """Return the last checkup, and renew an old one in the background."""
        with self._lock:
            known = self._known
            if known is None:
                known = self.examine()
                self._known, self._at = known, self.timer()
            elif self.timer() - self._at > FOR_A_CHECK and not self._is_renewing:
                self._is_renewing = True
                threading.Thread(target=self._renew, daemon=True).start()
            return known

    def _renew(self) -> None:
        found = None
        try:
            found = self.examine()
        except Exception:  # noqa: BLE001 - an error of any kind stops no page
            # The next look says it to who looks.
            logger.exception("a checkup cannot be renewed")
        with self._lock:
            self._is_renewing = False
            self._known, self._at = found, self.timer()
