"""Properties and features of Delta's tables, and what a queue does about each.

The page ``docs/table-properties.md`` shows :data:`PROPERTIES`, :data:`FEATURES`, and the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias
from urllib.parse import quote, unquote

from spark_queue.errors import InvalidConfigError
from spark_queue.log.delta.feature_actions import IN_COMMIT_TIME, ROW_TRACKING
from spark_queue.log.schema import SKIPPING_COLUMNS, is_item_log, mark_foreign, user_names

#: What a queue does about a property or a feature:
#:
#: - ``set``: ``create`` sets it, whatever the session's defaults are; ``doctor`` names a change.
#: - ``kept``: every writer of the queue keeps it.
#: - ``spark``: steps are left to Spark, which keeps it; a queue without Spark is refused by name.
#: - ``hint``: Spark goes by it for the files that it writes; no row depends on it.
#: - ``not``: a queue cannot have it; Delta or the queue refuses it by name.
Treatment: TypeAlias = Literal["set", "kept", "spark", "hint", "not"]


class Property(NamedTuple):
    """A property or a feature of Delta's tables."""

    name: str
    treatment: Treatment
    meaning: str
    value: str = ""
    """What ``create`` sets; or what turns a feature on."""
    is_appended: bool = False
    """Whether results are appended without Spark to an output that has it."""


_APPEND_ONLY = "delta.appendOnly"
_FORGETS = "delta.setTransactionRetentionDuration"

#: For which columns to keep the least and the highest value of a file, after how many commits to
#: write a checkpoint of a log, and whether old commits are removed then.
RANGED = "delta.dataSkippingStatsColumns"
INTERVAL = "delta.checkpointInterval"
CLEANS_UP = "delta.enableExpiredLogCleanup"

#: What a feature is that a column brings with it.
_A_TYPE = "a type"

#: Features that Delta drops; to turn off others has to be enough.
_DROPPED = frozenset(
    (
        *("deletionVectors", "v2Checkpoint", "columnMapping", "inCommitTimestamp", "rowTracking"),
        *("typeWidening", "vacuumProtocolCheck", "domainMetadata", "checkpointProtection"),
        "materializePartitionColumns",
    )
)

#: Turns on what Spark writes of changes.
_FEED = "delta.enableChangeDataFeed"

#: Turn on features that platforms have on by default.
_VECTORS, _ROW_IDS = "delta.enableDeletionVectors", "delta.enableRowTracking"
_COMMIT_TIMES, _WIDENS = "delta.enableInCommitTimestamps", "delta.enableTypeWidening"

#: Where it is true, rows get no ids.
_SUSPENDED = "delta.rowTrackingSuspended"

#: Checkpoints of several parts; and old commits that are not removed.
PARTED_CHECKPOINTS, _PROTECTION = "v2Checkpoint", "checkpointProtection"

#: It is not unset.
_MAPPING = "delta.columnMapping.mode"

#: Begins the names of properties that are constraints.
_CONSTRAINTS = "delta.constraints."

#: The last versions of Delta's protocol that list no features, and those that do.
_PLAIN_READER, _PLAIN_WRITER = 1, 2
_LISTS, _LISTS_WRITTEN = 3, 7

#: The properties about which a queue does something; the page has the others as well.
PROPERTIES = (
    Property(
        _APPEND_ONLY,
        "set",
        "where it is true, `purge` and `maintain(retention=...)` are refused, and upkeep removes "
        "no row: the status log grows",
        "false",
    ),
    Property(
        _FORGETS,
        "set",
        "Spark refuses by its transaction a step that somebody else has made; a queue that was "
        "quiet for longer takes the number of its newest step from the rows",
        "interval 3650 days",
    ),
    Property(
        RANGED,
        "set",
        "columns by which a claim skips files; a file without their statistics is read",
        SKIPPING_COLUMNS,
    ),
    Property(
        "delta.checkpoint.writeStatsAsJson",
        "set",
        "a checkpoint has the statistics by which files are skipped",
        "true",
    ),
    Property(
        INTERVAL,
        "set",
        "after how many commits the log is summed up, by Spark or beside the steps; a commit of "
        "Spark that does it takes seconds",
        "100",
    ),
    Property(
        _VECTORS,
        "set",
        "Spark removes rows by new files, not by lists of rows that other engines have to know",
        "false",
    ),
    Property(
        "delta.compatibility.symlinkFormatManifest.enabled",
        "spark",
        "manifests are written by Spark alone",
        "true",
    ),
)

#: Features of Delta's, by their names in a table's protocol, with what turns them on.
FEATURES = (
    Property("appendOnly", "kept", "see the property", _APPEND_ONLY),
    Property("invariants", "kept", "a table that has one is left to Spark", "`delta.invariants`"),
    Property("checkConstraints", "spark", "checked by Spark", "ADD CONSTRAINT"),
    Property("changeDataFeed", "spark", "written by Spark", _FEED),
    Property("generatedColumns", "spark", "computed by Spark", "GENERATED ALWAYS AS"),
    Property("identityColumns", "spark", "computed by Spark", "GENERATED AS IDENTITY"),
    Property("allowColumnDefaults", "spark", "computed by Spark", "DEFAULT"),
    Property("columnMapping", "spark", "names in files are others", _MAPPING),
    Property("deletionVectors", "spark", "rows go by a list", _VECTORS, is_appended=True),
    Property(ROW_TRACKING, "spark", "rows have ids", _ROW_IDS, is_appended=True),
    Property("domainMetadata", "kept", "what other features keep in the log", "other features"),
    Property("clustering", "spark", "OPTIMIZE sorts by it", "CLUSTER BY"),
    Property(IN_COMMIT_TIME, "kept", "commits say when they were made", _COMMIT_TIMES),
    Property("typeWidening", "spark", "older files are cast", _WIDENS, is_appended=True),
    Property(
        PARTED_CHECKPOINTS,
        "spark",
        "checkpoints of parts, which only Spark writes",
        "delta.checkpointPolicy",
        is_appended=True,
    ),
    Property("vacuumProtocolCheck", "kept", "for VACUUM alone", "other features"),
    Property(
        _PROTECTION,
        "kept",
        "old commits stay, as without Spark nothing removes them",
        "DROP FEATURE",
    ),
    Property("timestampNtz", "spark", _A_TYPE, "a column TIMESTAMP_NTZ", is_appended=True),
    Property("variantType", "spark", _A_TYPE, "a column VARIANT"),
    Property("collations", "spark", "texts are alike by rules", "COLLATE"),
    Property("variantShredding", "spark", "a type", "delta.enableVariantShredding"),
    Property(
        "materializePartitionColumns",
        "spark",
        "files have `_gen`",
        "delta.enableMaterializePartitionColumnsFeature",
    ),
    Property("icebergCompatV1", "not", "Delta asks for more first", "delta.enableIcebergCompatV1"),
    Property("icebergCompatV2", "not", "Delta asks for more first", "delta.enableIcebergCompatV2"),
    Property("icebergCompatV3", "not", "Delta asks for more first", "delta.enableIcebergCompatV3"),
    Property("catalogManaged", "not", "commits are files of the log", "other features"),
)

#: Features that any table may have; and those that an output may have to which rows are appended.
_PLAIN = frozenset(one.name for one in FEATURES if one.treatment == "kept")
APPENDED = _PLAIN | {one.name for one in FEATURES if one.is_appended}

#: Properties that turn on what only Spark keeps, and the feature that comes with them.
_TURNING = {one.value: one.name for one in FEATURES if one.treatment == "spark" and one.value}
_TURNING |= {one.name: "" for one in PROPERTIES if one.treatment == "spark"}

#: Values by which a property turns nothing on.
_OFF = ("false", "none", "classic")

#: The property of an item log that lists the columns of the user's which the queue knows.
_USERS = "spark_queue.columns"


#: What a table of results is made with: a claim leaves a transaction in its log, which is forgotten
#: after a month; and any engine may read it.
OF_RESULTS = {_FORGETS: "interval 30 days", _VECTORS: "false"}


def made_with(schema: str, skipping: str) -> dict[str, str]:
    """Return the properties that a table is made with.

    Parameters
    ----------
    schema : str
        Its columns, as Spark writes a schema in JSON.
    skipping : str
        The columns whose least and highest values are kept for each file.
    """
    made = {one.name: one.value for one in PROPERTIES if one.treatment == "set"}
    made[RANGED] = skipping
    if is_item_log(schema):
        made[_USERS] = _list(user_names(schema))
    return made


def with_users(properties: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return the properties of a table that is given more columns.

    A table of an older release does not list them: all of its columns are the queue's.
    """
    if _USERS not in properties:
        return dict(properties)
    known = _names(properties[_USERS])
    new = [name for name in names if name not in known]
    return {**properties, _USERS: _list([*known, *new])}


def known_columns(schema: str, properties: Mapping[str, str]) -> str:
    """Return the columns of a table; those that the queue did not add are marked."""
    listed = properties.get(_USERS)
    return schema if listed is None else mark_foreign(schema, _names(listed))


def _list(names: Iterable[str]) -> str:
    # As texts of SQL they need no quotes.
    return ",".join(quote(name, safe="") for name in names)


def _names(listed: str) -> list[str]:
    return [unquote(name) for name in listed.split(",") if name]


def find_changes(properties: Mapping[str, str]) -> list[tuple[Property, str]]:
    """Return the properties of a log that are not as ``create`` sets them, each with its value.

    A table of an older release has fewer of them: then Delta's default holds, which is good.
    """
    made = [(one, properties.get(one.name)) for one in PROPERTIES if one.treatment == "set"]
    return [(one, value) for one, value in made if value not in (None, one.value)]


def keeps_rows(properties: Mapping[str, str]) -> bool:
    """Tell whether no row of a table may be removed."""
    return _is_on(properties, _APPEND_ONLY)


def require_removable(table: str, properties: Mapping[str, str]) -> None:
    """Raise where no row of a table may be removed; the table as SQL names it.

    Raises
    ------
    InvalidConfigError
        It says how to change that.
    """
    if keeps_rows(properties):
        raise InvalidConfigError(
            f"{table} has {_APPEND_ONLY} = true, so that its rows stay: ALTER TABLE {table} SET "
            f"TBLPROPERTIES ('{_APPEND_ONLY}' = 'false'), or keep what is over"
        )


class Protocol(NamedTuple):
    """What a table asks of those who read or write it."""

    reader: int
    writer: int
    features: frozenset[str]
    """Those that it lists; tables of the lower versions list none."""

    @classmethod
    def of(cls, found: Any) -> Protocol:
        """Read it as ``deltalake`` says it."""
        features = {*(found.reader_features or ()), *(found.writer_features or ())}
        return cls(found.min_reader_version, found.min_writer_version, frozenset(features))

    def is_read(self, known: frozenset[str] = _PLAIN) -> bool:
        """Tell whether it asks of its readers no other features than those that are known."""
        return self.reader <= _PLAIN_READER or (self.reader == _LISTS and self.features <= known)

    def is_written(self, properties: Mapping[str, str], known: frozenset[str] = _PLAIN) -> bool:
        """Tell whether it asks of its writers what all of ours keep, as its properties are."""
        lists = self.writer == _LISTS_WRITTEN
        return self.writer <= _PLAIN_WRITER or (lists and not self.list_active(properties, known))

    def list_active(
        self, properties: Mapping[str, str], known: frozenset[str] = _PLAIN
    ) -> set[str]:
        """Return the other features that ask for something: some do nothing while they are off."""
        off = {"changeDataFeed"} if not _is_on(properties, _FEED) else set()
        if not any(name.startswith(_CONSTRAINTS) for name in properties):
            off.add("checkConstraints")
        return {*self.features} - known - off

    def list_asking(self, properties: Mapping[str, str]) -> frozenset[str]:
        """Return the features that ask something of each commit."""
        on = {IN_COMMIT_TIME} if _is_on(properties, _COMMIT_TIMES) else set()
        if not _is_on(properties, _SUSPENDED):
            on.add(ROW_TRACKING)
        return self.features & on

    def may_clean_up(self, properties: Mapping[str, str]) -> bool:
        """Tell whether old commits may be removed."""
        return properties.get(CLEANS_UP, "true").lower() != "false" and (
            _PROTECTION not in self.features
        )


def _is_on(properties: Mapping[str, str], name: str) -> bool:
    return properties.get(name, "false").lower() == "true"


def is_left_to_spark(properties: Mapping[str, str]) -> bool:
    """Tell whether a property that is no feature asks for what only Spark writes."""
    asked = {one.name: one.value for one in PROPERTIES if one.treatment == "spark" and one.value}
    return any(properties.get(name, "").lower() == value for name, value in asked.items())


def _way_back(name: str) -> str:
    """Return what a statement says that takes a property back."""
    if name.startswith(_CONSTRAINTS):
        return f"DROP CONSTRAINT {name.removeprefix(_CONSTRAINTS)}"
    if name == _MAPPING:
        return f"SET TBLPROPERTIES ('{name}' = 'none')"
    return f"UNSET TBLPROPERTIES ('{name}')"


def why_spark(
    table: str,
    protocol: Protocol,
    properties: Mapping[str, str],
    known: frozenset[str] = _PLAIN,
) -> str:
    """Say what a table asks that only Spark knows, what it is for, and how to take it back.

    Parameters
    ----------
    table : str
        The table as SQL names it.
    known : frozenset of str
        The features that need no Spark.
    """
    meanings = {one.name: one.meaning for one in FEATURES}
    asked = sorted(protocol.list_active(properties, known))
    turning = {name for name, feature in _TURNING.items() if feature not in known}
    on = {name for name in turning & {*properties} if properties[name].lower() not in _OFF}
    turned = [name for name in properties if name in on or name.startswith(_CONSTRAINTS)]
    named = [f"{name} ({meanings.get(name, 'unknown')})" for name in asked]
    if not named and not turned:
        return f"{table} asks for version {protocol.writer} of Delta's protocol for writers"
    back = [f"ALTER TABLE {table} {_way_back(name)}" for name in sorted(turned)]
    back += [f"ALTER TABLE {table} DROP FEATURE {name}" for name in asked if name in _DROPPED]
    what = ", ".join(named or (f"{name} = {properties[name]}" for name in sorted(turned)))
    way = f"; to take it back: {'; '.join(back)}" if back else ""
    return f"{table} has {what}, which only Spark keeps{way}"
