"""Rows of a Delta table by the client of Delta Sharing, from the server of that project.

``SHARING_SERVER_HOME`` names its folder: a release, unpacked, or the jars of its source, and of
what that needs, in ``lib``. By ``fs.s3a.endpoint`` it reads logs alone: its links to files lead to
AWS, unless a file tells the SDK of other regions. The environment says which form of answers is
asked for. The server has each condition as a hint, by which it leaves out files; rows are then
chosen by pandas.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from delta_sharing.rest_client import DataSharingRestClient

from answering import answer
from sharing import profile_of, shared_rows
from sharing_hints import hints

FORM = os.environ.get("SHARING_FORM", "delta")

#: Where the SDK of AWS finds S3, which it takes for the only region.
REGIONS = """<XML><Regions><Region><Name>us-east-1</Name><Domain>none</Domain><Endpoint>
<ServiceName>s3</ServiceName><Http>true</Http><Https>false</Https><Hostname>{}</Hostname>
</Endpoint></Region></Regions></XML>"""

profile = Path()

# It would ask ten times more what a server refuses.
DataSharingRestClient.__init__.__defaults__ = (0,)


def start(paths: Iterable[str]) -> None:
    """Start a server of tables, and wait until it answers."""
    if "SHARING_SERVER_HOME" not in os.environ:
        sys.exit("SHARING_SERVER_HOME is not set: the server has no package to install")
    global profile  # noqa: PLW0603 - the one of this process
    folder = Path(tempfile.mkdtemp())
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = [
        {"name": path.encode().hex(), "location": path.replace("s3://", "s3a://"), "id": path}
        for path in paths
    ]
    told = {
        "version": 1,
        "host": "localhost",
        "port": port,
        "requestTimeoutSeconds": 0,
        "shares": [{"name": "share", "schemas": [{"name": "schema", "tables": shared}]}],
    }
    # JSON is YAML, too.
    (folder / "server.yaml").write_text(json.dumps(told), "utf-8")
    jars = Path(os.environ["SHARING_SERVER_HOME"], "lib", "*")
    command = ["java", "-Xmx1g", *_for_store(folder), "-cp", f"{folder}{os.pathsep}{jars}"]
    command += ["io.delta.sharing.server.DeltaSharingService"]
    command += ["--config", str(folder / "server.yaml")]
    process = subprocess.Popen(command, stdin=-1, stdout=2)  # noqa: S603 - our own words
    atexit.register(process.kill)
    while socket.socket().connect_ex(("127.0.0.1", port)):
        if process.poll() is not None:
            sys.exit("the server ended before it answered")
        time.sleep(0.2)
    profile = profile_of(f"http://localhost:{port}/delta-sharing")


def _for_store(folder: Path) -> list[str]:
    """Return the words of Java by which files are found on a store, and write what they name."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL")
    if endpoint is None:
        return []
    known = {
        "endpoint": endpoint,
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
    }
    properties = "".join(
        f"<property><name>fs.s3a.{name}</name><value>{value}</value></property>"
        for name, value in known.items()
    )
    (folder / "core-site.xml").write_text(f"<configuration>{properties}</configuration>", "utf-8")
    regions = folder / "regions.xml"
    regions.write_text(REGIONS.format(endpoint.rpartition("/")[2]), "utf-8")
    return [f"-Dcom.amazonaws.regions.RegionUtils.fileOverride={regions}"]


def rows(path: str, where: Any = None) -> Any:
    """Return the rows that meet a condition."""
    url = f"{profile}#share.schema.{path.encode().hex()}"
    return shared_rows(url, FORM, where, where and hints(path, where))


if __name__ == "__main__":
    answer(rows, start)
