"""The panels as views of a catalog: the same texts, over the tables of a queue.

``python -m spark_queue.report.publishing main.ops.files`` prints them for the queue of that name.
"""

from __future__ import annotations

import sys

from spark_queue.delta.tables.addresses import QueueAddress
from spark_queue.report import view_texts

#: The queue that the published file is about.
EXAMPLE = "main.ops.files"

#: What the other views begin with. The window is an hour; the reader is the first.
_BEGIN = {
    "queue_log": "-- The rows of the item log.\nSELECT {queue_columns}\nFROM {queue}",
    "status_log": "-- The rows of the first reader's status log.\n"
    "SELECT {status_columns}\nFROM {status}",
    "asked": """-- What is asked: the hour until now, under the settings that are in force.
WITH heads AS (
  SELECT max(_step) AS step FROM {queue} WHERE _kind = 'head'
),
configs AS (
  SELECT max(_step) AS step FROM {status} WHERE _kind = 'config'
),
facts AS (
  SELECT q._body AS head
  FROM {queue} q
  JOIN heads h ON h.step = q._step
  WHERE q._kind = 'head'
  UNION ALL
  SELECT '{{}}' FROM heads WHERE step IS NULL
)
SELECT
  now() AS now,
  now() - INTERVAL 1 HOUR AS since,
  coalesce(cast(get_json_object(f.head, '$.readers.0.since_step') AS bigint), 0) AS since_step,
  get_json_object(s._body, '$.paused') = 'true' AS paused,
  get_json_object(s._body, '$.config.on_failure') = 'block' AS blocking,
  cast(get_json_object(s._body, '$.config.group_limit') AS int) AS group_limit,
  cast(get_json_object(s._body, '$.config.max_in_flight') AS int) AS max_in_flight,
  cast(get_json_object(s._body, '$.config.max_losses') AS int) AS max_losses,
  cast(
    cast(get_json_object(f.head, '$.readers.0.config.max_age') AS double) * 1e6 AS bigint
  ) AS max_age_us
FROM facts f
CROSS JOIN {status} s
JOIN configs c ON c.step = s._step
WHERE s._kind = 'config'""",
}

_HEADER = """-- Views of a queue: each panel of a report, for dashboards and for one's own queries.
-- They are made by `python -m spark_queue.report.publishing {queue}`; give it another
-- queue's name. Each shows what is there when it is asked, of the hour before.
"""


def script(queue: str) -> str:
    """Return what makes the views of a queue; the parameter is that of :func:`statements`."""
    return "\n".join([_HEADER.format(queue=queue), *(f"{s};\n" for s in statements(queue))])


def statements(queue: str) -> list[str]:
    """Return the statements that make the views of a queue, each after those that it needs.

    Parameters
    ----------
    queue : str
        Its name in the catalog, or its path.
    """
    address = QueueAddress(queue)
    said = {
        "queue": address.queue.sql(),
        "status": address.status.sql(),
        "queue_columns": ", ".join(view_texts.QUEUE_COLUMNS),
        "status_columns": ", ".join(view_texts.STATUS_COLUMNS),
    }
    begin = [_view(name, text.format(**said)) for name, text in _BEGIN.items()]
    return begin + [_view(name, view_texts.text_of(name).rstrip("\n")) for name in view_texts.VIEWS]


def _view(name: str, text: str) -> str:
    """Return the statement that makes a view; what the text says first is said before it."""
    lines = text.splitlines()
    said = next(at for at, line in enumerate(lines) if not line.startswith("--"))
    comment, select = "\n".join(lines[:said]), "\n".join(lines[said:])
    return f"{comment}\nCREATE OR REPLACE VIEW sq_{name} AS\n{select}"


if __name__ == "__main__":
    sys.stdout.write(script(*sys.argv[1:]))
