"""Checks of properties and columns that other tools have put on a queue's tables."""

from __future__ import annotations

from collections.abc import Iterator

from spark_queue.columns import kinds
from spark_queue.doctor.subject import Subject
from spark_queue.log.delta import table_properties
from spark_queue.log.schema import foreign_names
from spark_queue.report.finding import Finding, Severity

#: A property that makes a queue no worse, whatever it is.
_HARMLESS = "delta.checkpointInterval"


def property_changed(subject: Subject) -> Iterator[Finding]:
    """Find tables whose properties are not as the queue was made with, and what that does."""
    for table in subject.tables:
        properties = table.steps.properties()
        for one, value in table_properties.find_changes(properties):
            yield Finding(
                id="property-changed",
                severity=_severity(one.name, value),
                what=f"the {table.which} log has {one.name} = {value}, and was made with "
                f"{one.value}: {one.meaning}",
                command=f"ALTER TABLE {table.place} SET TBLPROPERTIES ('{one.name}' = "
                f"'{one.value}')",
                reader=table.reader,
            )


def _severity(name: str, value: str) -> Severity:
    if table_properties.keeps_rows({name: value}):
        return "error"
    return "info" if name == _HARMLESS else "warning"


def column_added(subject: Subject) -> Iterator[Finding]:
    """Find columns that another program has added to the item log."""
    columns = subject.store.columns() if subject.tables else ""
    foreign = foreign_names(columns) if columns else []
    if not foreign:
        return
    added = [field for field in kinds.read(columns) if field.name in foreign]
    schema = ", ".join(f"`{field.name}` {field.kind.simple}" for field in added)
    named = ", ".join(map(repr, foreign))
    yield Finding(
        id="column-added",
        severity="warning",
        what=f"the queue log has columns that the queue does not know: {named}; they are null in "
        "what is enqueued, and no claim has them",
        command=subject.command("add-columns", "--schema", schema),
    )
