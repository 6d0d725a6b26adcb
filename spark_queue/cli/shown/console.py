"""Console that shows control characters of texts escaped."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from spark_queue.wording import visible


class SafeConsole(Console):
    """A console on which no text steers the terminal; rich itself still may."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Return the pieces of something, the texts among them escaped."""
        for piece in super().render(renderable, options):
            yield piece if piece.control else piece._replace(text=visible(piece.text, lines=True))


class SafeFormatter(logging.Formatter):
    """Lines of a log for a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as text, its control characters escaped."""
        return visible(super().format(record), lines=True)


def text_of(*lines: str) -> Text:
    """Return lines as a cell of a table, escaped before their width is counted."""
    return Text("\n".join(map(visible, lines)))
