"""Page of Delta's properties: ``python -m tests.unit.delta.properties_page`` writes it again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from spark_queue.log.delta.table_properties import FEATURES, PROPERTIES, Property, Treatment

#: The page.
PAGE = Path(__file__).parents[3] / "docs" / "table-properties.md"

_OPENING = """\
# Properties and features of the tables

Others may set properties of a queue's tables, and turn features on: by hand, or by defaults of a
session or a platform. This page says what a queue does about each that Delta 4.4 documents.

| word | what it means |
|---|---|
| set | `create` sets it on both tables, against a session's defaults; `doctor` tells a change |
| kept | every writer of the queue keeps it |
| Spark | steps are left to Spark, which keeps it; without Spark it is refused by name |
| Spark; appended | the same, but to an output that has it results are appended without Spark |
| hint | Spark goes by it for files that it writes; no row depends on it |
| not | a queue cannot have it, and is refused by name |

`doctor` calls a change `property-changed`, and shows the statement that takes it back. An error
without Spark names the property or the feature, and how to take it back.

A column that is added to the item log (`ALTER TABLE ... ADD COLUMNS`) stops nobody: it is null in
what is enqueued, and claims do not have it. `doctor` tells it (`column-added`), with the command
that makes it a column of the queue.
"""

_WORDS = {"set": "set", "kept": "kept", "hint": "hint", "spark": "Spark", "not": "not"}


#: The properties about which a queue does nothing.
_OTHERS: Mapping[Treatment, Mapping[str, str]] = {
    "kept": {
        "delta.enableExpiredLogCleanup": "whether old commits are removed",
        "delta.logRetentionDuration": "how long old commits stay",
        "delta.deletedFileRetentionDuration": "how long files stay that were replaced",
        "delta.isolationLevel": "it can only be Serializable, which steps are",
    },
    "hint": {
        "delta.checkpoint.writeStatsAsStruct": "another form of the statistics",
        "delta.dataSkippingNumIndexedCols": "the columns are named, see above",
        "delta.dataSkippingStringPrefixLength": "how long a text of statistics is",
        "delta.randomizeFilePrefixes": "names of folders",
        "delta.randomPrefixLength": "names of folders",
        "delta.parquet.format.version": "how Spark encodes columns",
        "delta.autoOptimize": "an older name of the next two",
        "delta.autoOptimize.autoCompact": "Spark merges small files after a write",
        "delta.autoOptimize.optimizeWrite": "Spark shuffles before a write",
        "delta.sampleRetentionDuration": "nothing reads it",
        "delta.checkpointRetentionDuration": "checkpoints go with their commits",
        "delta.enableFullRetentionRollback": "how far RESTORE may go back",
        "delta.dropFeatureTruncateHistory.retentionDuration": "for DROP FEATURE alone",
        "delta.castIcebergTimeType": "for tables that were Iceberg's",
        "delta.ignoreIcebergBucketPartition": "for tables that were Iceberg's",
        "delta.universalFormat.iceberg.atomicConversion.supported": "for Iceberg alone",
        "delta.rowTrackingSuspended": "rows get no new ids",
        "delta.requireCheckpointProtectionBeforeVersion": "with its feature alone",
        "delta.writePartitionColumnsToParquet": "Spark writes `_gen` into files",
    },
    "spark": {
        "delta.checkpointPolicy": "`v2` is a feature, see below",
        "delta.columnMapping.mode": "`name` and `id` are a feature, see below",
        "delta.minReaderVersion": "above 1",
        "delta.minWriterVersion": "above 2",
    },
    "not": {
        "delta.universalFormat.enabledFormats": "it asks for features that a queue lacks",
        "delta.coordinatedCommits.commitCoordinator-preview": "a preview; a queue logs commits",
        "delta.redirectReaderWriter-preview": "a preview; the table is another one",
        "delta.redirectWriterOnly-preview": "a preview; the table is another one",
    },
}

#: All, in the order of the words.
DOCUMENTED = sorted(
    (
        *PROPERTIES,
        *(Property(name, word, text) for word in _OTHERS for name, text in _OTHERS[word].items()),
    ),
    key=lambda one: list(_WORDS).index(one.treatment),
)


def page() -> str:
    """Return the text of the page."""
    properties = _table("Properties", "is set to", DOCUMENTED)
    features = _table("Features", "comes with", FEATURES)
    return "\n".join([_OPENING, *properties, "", *features, ""])


def _table(title: str, value: str, rows: Iterable[Property]) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    yield f"| name | | {value} | what it is, or does |"
    yield "|---|---|---|---|"
    for one in rows:
        shown = f"`{one.value}`" if one.value.startswith("delta.") or title != "Features" else ""
        given = (shown or one.value) if one.value else ""
        word = _WORDS[one.treatment] + ("; appended" if one.is_appended else "")
        yield f"| `{one.name}` | {word} | {given} | {one.meaning} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
