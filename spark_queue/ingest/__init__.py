"""Put a directory tree through a queue: find its files, read each once, write what they hold."""

from __future__ import annotations

from spark_queue.ingest.file_handler import FACTS_SCHEMA, file_facts
from spark_queue.ingest.run import (
    FILE_CONFIG,
    FILE_SCHEMA,
    IngestSummary,
    TenantSummary,
    TypeSummary,
    discover,
    ingest,
)

__all__ = [
    "FACTS_SCHEMA",
    "FILE_CONFIG",
    "FILE_SCHEMA",
    "IngestSummary",
    "TenantSummary",
    "TypeSummary",
    "discover",
    "file_facts",
    "ingest",
]
