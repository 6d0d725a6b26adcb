"""Views of a catalog: the library's own, over the tables of a queue.

``python -m spark_queue.report.publishing main.ops.files`` prints them for the queue of that name;
with ``--form duckdb`` a script that has DuckDB make tables of what they show, and with ``--form
dbt`` the same as a macro of dbt.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from typing import cast

from spark_queue.log.addresses import QueueAddress, TableAddress
from spark_queue.sql.catalogue import (
    SETTING_COLUMNS,
    View,
    needed_by,
    setting_columns_of,
    view_of,
    views,
)
from spark_queue.sql.database import AS_SPARK
from spark_queue.sql.limit_pass import KEY_TABLES
from spark_queue.sql.look import CONFIGURED, ENTERED, MOVES, VIEWED

#: The queue that the published file is about.
EXAMPLE = "main.ops.files"

#: The views published, each after the views that it needs.
VIEWS = (
    *("status", "transitions", "history", "reasons", "runnable", "failures", "wordings"),
    *("overview", "depth", "flow", "starving", "tenants", "errors", "retries", "groups"),
    *("workers", "steps", "behind", "outranked", "stuck", "listed"),
)

#: How the views begin that have times in microseconds since 1970, as those of the library.
_RAW = "sq_raw_"

#: The newest settings of the first reader.
_SETTINGS = """CREATE OR REPLACE VIEW sq_raw_settings AS
SELECT s._body AS body
FROM {status} s
JOIN (SELECT max(_step) AS step FROM {status} WHERE _kind = 'config') c ON c.step = s._step
WHERE s._kind = 'config'"""

#: What all others are made of. The window is an hour; the reader is the first.
_ASKED = """-- What is asked: the hour until now, under the settings that are in force.
CREATE OR REPLACE VIEW sq_asked AS
WITH heads AS (
  SELECT max(_step) AS step FROM {queue} WHERE _kind = 'head'
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
  get_json_object(s.body, '$.paused') = 'true' AS paused,
  array_repeat(cast(0 AS bigint), 0) AS spared,
  cast(1 AS bigint) AS run,
  {settings},
  cast(
    cast(get_json_object(f.head, '$.readers.0.config.max_age') AS double) * 1e6 AS bigint
  ) AS max_age
FROM facts f
CROSS JOIN sq_raw_settings s"""

_RAW_ASKED = """-- The same, with times in microseconds since 1970, as all views of such a name.
CREATE OR REPLACE VIEW sq_raw_asked AS
SELECT
  unix_micros(now) AS now, unix_micros(since) AS since, paused, spared, run, max_age,
  {names}
FROM sq_asked"""

#: Limits and rates of keys, as :mod:`spark_queue.sql.limit_pass` gives them. Those of other texts
#: than the fair key and the group key have the places of these texts among the stored ones.
_RULES = """CREATE OR REPLACE VIEW sq_raw_rules AS
WITH settings AS (
  SELECT get_json_object(s.body, '$.config') AS config FROM sq_raw_settings s
),
counted AS (
  SELECT k.*, json_array_length(get_json_object(k.config, concat('$.', k.what))) AS items
  FROM (
    SELECT config, 'limits' AS what FROM settings UNION ALL SELECT config, 'rates' FROM settings
  ) k
),
numbered AS (
  SELECT
    k.config, k.what,
    explode(CASE WHEN k.items > 0 THEN sequence(0, cast(k.items - 1 AS int)) END) AS nth
  FROM counted k
),
rules AS (
  SELECT
    n.config, n.what, n.nth,
    get_json_object(n.config, concat('$.', n.what, '[', n.nth, ']')) AS rule
  FROM numbered n
),
texts AS (
  SELECT
    r.what, r.nth, r.rule, get_json_object(r.rule, '$.by') AS by,
    CASE get_json_object(r.rule, '$.by')
      WHEN get_json_object(r.config, '$.fair_key') THEN 0
      WHEN get_json_object(r.config, '$.group_key') THEN 1
      ELSE 2
    END AS kind,
    r.nth + CASE WHEN r.what = 'rates' THEN 1000000 ELSE 0 END AS ord
  FROM rules r
),
firsts AS (SELECT t.*, min(t.ord) OVER (PARTITION BY t.by) AS first FROM texts t),
stored AS (
  SELECT f.*, dense_rank() OVER (PARTITION BY f.kind, f.by IS NULL ORDER BY f.first) AS at
  FROM firsts f
)
SELECT
  s.what, s.nth, s.rule, s.by,
  CASE WHEN s.by IS NULL THEN -1 WHEN s.kind < 2 THEN s.kind ELSE s.at + 1 END AS place,
  concat('$[', s.at - 1, ']') AS path
FROM stored s"""

_RULE_OVERRIDES = """CREATE OR REPLACE VIEW sq_raw_rule_overrides AS
SELECT
  o.what, o.nth,
  get_json_object(o.overrides, concat('$[', o.at, '][0]')) AS key,
  get_json_object(o.overrides, concat('$[', o.at, '][1]')) AS most
FROM (
  SELECT l.what, l.nth, l.overrides, explode(
    CASE WHEN json_array_length(l.overrides) > 0
      THEN sequence(0, cast(json_array_length(l.overrides) - 1 AS int)) END
  ) AS at
  FROM (
    SELECT r.what, r.nth, get_json_object(r.rule, '$.overrides') AS overrides FROM sq_raw_rules r
  ) l
) o"""

_LIMITED = """CREATE OR REPLACE VIEW sq_raw_limited AS
SELECT r.nth, cast(get_json_object(r.rule, '$.default') AS bigint) AS most, r.place, r.path
FROM sq_raw_rules r
WHERE r.what = 'limits'"""

_OVERRIDES = """CREATE OR REPLACE VIEW sq_raw_overrides AS
SELECT o.nth, o.key, cast(o.most AS bigint) AS most
FROM sq_raw_rule_overrides o
WHERE o.what = 'limits'"""

_RATES = """CREATE OR REPLACE VIEW sq_raw_rates AS
SELECT
  u.nth, u.place, u.path, coalesce(u.by, '') AS by,
  CASE WHEN u.units IS NOT NULL
    THEN concat('$[', dense_rank() OVER (PARTITION BY u.units IS NULL ORDER BY u.first) - 1, ']')
  END AS units_path,
  cast(round(cast(get_json_object(u.rule, '$.per') AS double) * 1e6) AS bigint) * 1000 AS per,
  cast(get_json_object(u.rule, '$.limit') AS double) AS most,
  cast(get_json_object(u.rule, '$.burst') AS double) AS burst
FROM (
  SELECT r.*, min(r.nth) OVER (PARTITION BY r.units) AS first
  FROM (
    SELECT q.*, get_json_object(q.rule, '$.units') AS units
    FROM sq_raw_rules q
    WHERE q.what = 'rates'
  ) r
) u"""

_RATE_OVERRIDES = """CREATE OR REPLACE VIEW sq_raw_rate_overrides AS
SELECT o.nth, o.key, cast(o.most AS double) AS most
FROM sq_raw_rule_overrides o
WHERE o.what = 'rates'"""

#: What keys of rates owe: of a key the newest row counts.
_DEBTS = """CREATE OR REPLACE VIEW sq_raw_debts AS
SELECT
  d._by AS by, d._key AS key, d._tat AS tat, unix_micros(d._at) * 1000 AS at,
  cast(coalesce(d._body, '0') AS bigint) AS righted, cast(NULL AS bigint) AS shut
FROM {status} d
JOIN (
  SELECT _by, _key, max(_step) AS step FROM {status} WHERE _kind = 'rate' GROUP BY _by, _key
) n ON d._by = n._by AND d._key = n._key AND d._step = n.step
WHERE d._kind = 'rate'"""

#: What a claim would take is played by a process alone: here each item is judged by itself.
_TAKEN = """CREATE OR REPLACE VIEW sq_raw_taken AS
SELECT cast(0 AS bigint) AS seq WHERE false"""

#: Pauses of keys: an open end is the last instant. The places are the first that a key can have.
_PAUSES = """CREATE OR REPLACE VIEW sq_raw_pauses AS
SELECT
  cast(get_json_object(k.pauses, concat('$[', k.at, '][6]')) AS bigint) AS nth,
  get_json_object(k.pauses, concat('$[', k.at, '][1]')) AS key,
  coalesce(
    cast(get_json_object(k.pauses, concat('$[', k.at, '][2]')) AS bigint), 9223372036854775807
  ) AS until
FROM (
  SELECT
    j.pauses,
    explode(CASE WHEN json_array_length(j.pauses) > 0
      THEN sequence(0, cast(json_array_length(j.pauses) - 1 AS int)) END) AS at
  FROM (SELECT get_json_object(s.body, '$.pauses') AS pauses FROM sq_raw_settings s) j
) k"""

_PAUSED_BY = """CREATE OR REPLACE VIEW sq_raw_paused_by AS
SELECT p.nth, p.nth AS place, concat('$[', p.nth - 2, ']') AS path
FROM (SELECT explode(sequence(cast(0 AS bigint), cast(9 AS bigint))) AS nth) p"""

_HEADER = """-- Views of a queue: each panel of a report, for dashboards and for one's own queries.
-- They are made by `python -m spark_queue.report.publishing {queue}`; give it another
-- queue's name. Each shows what is there when it is asked, of the hour before.
"""

#: The words of Spark that DuckDB lacks, beside those of ``AS_SPARK``.
SPARK_WORDS = (
    "CREATE MACRO unix_micros(moment) AS epoch_us(moment)",
    "CREATE MACRO timestamp_micros(us) AS make_timestamptz(cast(us AS bigint))",
    "CREATE MACRO array_repeat(one, times) AS [one FOR x IN range(times)]",
    "CREATE MACRO sequence(first, last) AS generate_series(first, last)",
    "CREATE MACRO explode(list) AS unnest(list)",
)

_SNAPSHOT_HEADER = """-- What the views of a queue show, of the hour before this runs, in DuckDB.
-- Made by `python -m spark_queue.report.publishing {queue} --form {form}`.
"""

#: How the name of a macro, and that of a table of the library's own, are found.
_MACRO = re.compile(r"CREATE MACRO (\w+)")
_OWN = re.compile(rf"^CREATE OR REPLACE VIEW ({_RAW}\w+)", re.MULTILINE)


def script(queue: str) -> str:
    """Return a script that creates the views of a queue; see :func:`statements`."""
    return _script_of(_HEADER.format(queue=queue), statements(queue))


def snapshot(queue: str, form: str = "duckdb") -> str:
    """Return a script by which DuckDB makes tables of the rows of the views.

    Views within views would be planned for minutes. What it needs for itself is gone at its end.

    Parameters
    ----------
    queue : str
        As for :func:`statements`; by its path it is read by ``delta_scan``.
    form : "duckdb" or "dbt"
        As it is, or as the macro ``spark_queue_snapshot`` of dbt.
    """
    order, *words = *AS_SPARK, *SPARK_WORDS
    made = statements(queue, _in_duckdb)
    own = [found[1] for text in made for found in _OWN.finditer(text)]
    texts = [
        order.replace("SET GLOBAL", "SET"),
        *(word.replace("CREATE MACRO", "CREATE OR REPLACE TEMP MACRO") for word in words),
        *(_OWN.sub(r"CREATE OR REPLACE TEMP TABLE \1", text) for text in made),
        *(f"DROP TABLE temp.{name}" for name in own),
        *(f"DROP MACRO temp.{cast('re.Match[str]', _MACRO.match(word))[1]}" for word in words),
        "RESET default_null_order",
    ]
    tables = [text.replace("CREATE OR REPLACE VIEW", "CREATE OR REPLACE TABLE") for text in texts]
    whole = _script_of(_SNAPSHOT_HEADER.format(queue=queue, form=form), tables)
    if form != "dbt":
        return whole
    return (
        f"{{% macro spark_queue_snapshot() %}}{{% raw %}}\n{whole}{{% endraw %}}{{% endmacro %}}\n"
    )


def _script_of(header: str, texts: Sequence[str]) -> str:
    return "\n".join([header, *(f"{text};\n" for text in texts)])


def _in_duckdb(table: TableAddress) -> str:
    """Return a table as DuckDB names it."""
    if table.is_path:
        place = table.target.replace("'", "''")
        return f"delta_scan('{place}')"
    return ".".join(f'"{part}"' for part in table.target.split("."))


def statements(queue: str, named: Callable[[TableAddress], str] = TableAddress.sql) -> list[str]:
    """Return the statements that create a queue's views, in order of dependency.

    Parameters
    ----------
    queue : str
        Its name in the catalog, or its path.
    named : callable, optional
        Says how a statement names a table; by default as Spark does.
    """
    address = QueueAddress(queue)
    log, status = named(address.queue), named(address.status)
    seen = "CROSS JOIN sq_asked a WHERE q._step > a.since_step AND"
    # The items last: all that a transition names have entered by then.
    leaves = (
        _leaf("states", MOVES, f"{status} q WHERE q._kind IN ('item', 'renewal')"),
        _leaf("configs", CONFIGURED, f"{status} q WHERE q._kind = 'config'"),
        _leaf("items", ENTERED, f"{log} q {seen} q._kind = 'item'", "_seq AS own"),
        _leaf("rejected", ENTERED, f"{log} q {seen} q._kind = 'refused'", "_seq AS own"),
    )
    known = {"asked", "items", "rejected", "states", "configs", "debts", "taken", *KEY_TABLES}
    rules = (_RULES, _RULE_OVERRIDES, _LIMITED, _OVERRIDES, _RATES, _RATE_OVERRIDES)
    flow = (*rules, _DEBTS.format(status=status), _TAKEN, _PAUSES, _PAUSED_BY)
    columns = ",\n  ".join(setting_columns_of("s.body"))
    asked = _ASKED.format(queue=log, settings=columns)
    names = ", ".join(name for name, _ in SETTING_COLUMNS)
    settings = _SETTINGS.format(status=status)
    made = [settings, asked, _RAW_ASKED.format(names=names), *leaves, *flow]
    for view in VIEWS:
        for name in sorted({view, *needed_by(view)} - known, key=_order):
            known.add(name)
            made.append(_raw(name))
        made.append(_show(view))
    return made


def _order(name: str) -> tuple[int, str]:
    """Return the sort key of a view: it comes after the views it needs."""
    return len(needed_by(name)), name


def _leaf(name: str, columns: Sequence[str], rows: str, *more: str) -> str:
    """Return the statement that makes a view of rows of a log."""
    chosen = ", ".join([*(f"q.{one}" for one in more), *map(_plain, columns)])
    return f"CREATE OR REPLACE VIEW {_RAW}{name} AS\nSELECT {chosen}\nFROM {rows}"


def _plain(column: str) -> str:
    is_time = "timestamp" in str(VIEWED.arrow.field(column).type)
    value = f"unix_micros(q.{column})" if is_time else f"q.{column}"
    return f"{value} AS {column.removeprefix('_')}"


def _raw(name: str) -> str:
    """Return the statement of a view, its times in microseconds."""
    text = re.sub(r"\bsq_(?=[a-z])", _RAW, cast("View", view_of(name)).text)
    return f"CREATE OR REPLACE VIEW {_RAW}{name} AS\n{text.rstrip()}"


def _show(name: str) -> str:
    """Return the statement of a view for people, with the comment of its SQL."""
    columns = ", ".join(
        _column(column, is_instant=is_instant)
        for column, is_instant in views()[name].columns.items()
        if column != "own"
    )
    comment = "".join(f"{line}\n" for line in about(name).splitlines())
    return f"{comment}CREATE OR REPLACE VIEW sq_{name} AS\nSELECT {columns}\nFROM {_RAW}{name} r"


def _column(name: str, *, is_instant: bool) -> str:
    shown = "moment" if name == "at" else name
    return f"timestamp_micros(r.{name}) AS {shown}" if is_instant else f"r.{name}"


def about(name: str) -> str:
    """Return the comment of a view, without the rules that it names."""
    lines = views()[name].comment.splitlines()
    return "\n".join(line for line in lines if not line.startswith("-- rule"))


def main(argv: Sequence[str]) -> None:
    """Print a script for a queue."""
    parser = argparse.ArgumentParser(prog="python -m spark_queue.report.publishing")
    parser.add_argument("queue", help="its name in the catalog, or its path")
    parser.add_argument("--form", choices=("views", "duckdb", "dbt"), default="views")
    given = parser.parse_args(argv)
    sys.stdout.write(
        script(given.queue) if given.form == "views" else snapshot(given.queue, given.form)
    )


if __name__ == "__main__":
    main(sys.argv[1:])
