"""Rows of a Delta table by the client of Delta Sharing, from a server of this process.

The server answers as the protocol has it: what the log of a table says, and its files by HTTP. The
environment says which form of answers is asked for: ``delta``, read by Delta Kernel's library in
Rust, or ``parquet``. Filters are those of pandas, whose frames the client makes.
"""

from __future__ import annotations

import json
import os
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote, unquote

from deltalake import DeltaTable

from answering import answer
from sharing import profile_of, shared_rows

FORM = os.environ.get("SHARING_FORM", "delta")


class Handler(BaseHTTPRequestHandler):
    """Says what is in a table, whose name is its path in hex, and sends its files."""

    def do_POST(self) -> None:
        """Answer a query of the client."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        table = DeltaTable(bytes.fromhex(self.path.split("/")[-2]).decode())
        lines = "\n".join(map(json.dumps, described(table, self.server.server_port)))  # type: ignore[attr-defined]
        self._send(200, lines.encode(), {"Delta-Table-Version": str(table.version())})

    def do_GET(self) -> None:
        """Send a file, or the part of it that is asked for."""
        data = Path(unquote(self.path)).read_bytes()
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if asked is None:
            self._send(200, data, {"Accept-Ranges": "bytes"})
            return
        first, last = asked.groups()
        start = int(first) if first else len(data) - int(last)
        end = min(int(last) + 1, len(data)) if first and last else len(data)
        told = {"Accept-Ranges": "bytes", "Content-Range": f"bytes {start}-{end - 1}/{len(data)}"}
        self._send(206, data[start:end], told)

    do_HEAD = do_GET  # noqa: N815

    def _send(self, code: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(code)
        for name, value in {
            **headers,
            "Delta-Sharing-Capabilities": f"responseformat={FORM}",
            "Content-Length": str(len(body)),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing of requests."""


def described(table: DeltaTable, port: int) -> list[dict[str, Any]]:
    """Return the lines of an answer."""
    known, protocol = table.metadata(), table.protocol()
    metadata = {
        "id": str(known.id),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": table.schema().to_json(),
        "partitionColumns": known.partition_columns,
        "configuration": known.configuration,
    }
    files = [(uri, Path(uri).stat().st_size) for uri in table.file_uris()]
    urls = [(f"http://localhost:{port}{quote(uri)}", size) for uri, size in files]
    if FORM == "parquet":
        head: list[dict[str, Any]] = [
            {"protocol": {"minReaderVersion": 1}},
            {"metaData": metadata},
        ]
        return head + [
            {"file": {"url": url, "id": url, "partitionValues": {}, "size": size}}
            for url, size in urls
        ]
    versions = {
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
        "readerFeatures": protocol.reader_features,
        "writerFeatures": protocol.writer_features,
    }
    given = {name: value for name, value in versions.items() if value is not None}
    head = [{"protocol": {"deltaProtocol": given}}, {"metaData": {"deltaMetadata": metadata}}]
    same = {"partitionValues": {}, "modificationTime": 0, "dataChange": True}
    return head + [
        {"file": {"id": url, "deltaSingleAction": {"add": {"path": url, "size": size, **same}}}}
        for url, size in urls
    ]


server = ThreadingHTTPServer(("localhost", 0), Handler)
Thread(target=server.serve_forever, daemon=True).start()
profile = profile_of(f"http://localhost:{server.server_port}")


def rows(path: str, where: Any = None) -> Any:
    """Return the rows that meet a condition."""
    return shared_rows(f"{profile}#share.schema.{path.encode().hex()}", FORM, where)


if __name__ == "__main__":
    answer(rows)
