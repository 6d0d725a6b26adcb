"""Programs on the loopback that answer as object stores do, where they are installed."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from email.utils import formatdate
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from obstore.store import AzureStore

#: ``npm install azurite`` brings it; it is on the PATH, or named by the environment.
AZURITE = os.environ.get("SPARK_QUEUE_AZURITE") or shutil.which("azurite-blob")

NEEDS_AZURITE = pytest.mark.skipif(
    AZURITE is None,
    reason="azurite is missing: npm install azurite, and name azurite-blob in SPARK_QUEUE_AZURITE",
)

#: The one account of azurite, and its key, which everybody knows.
_ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_VERSION = "2021-12-02"
_CONTAINER = "bucket"


#: It is on the PATH, or where Go installs programs.
_FAKE_S3 = shutil.which("gofakes3") or str(Path.home() / "go/bin/gofakes3")


@contextmanager
def s3(directory: Path) -> Iterator[dict[str, Any]]:
    """Run gofakes3, which has its objects in memory, and return how it is reached."""
    if not Path(_FAKE_S3).exists():
        pytest.skip("gofakes3 is missing: go install github.com/johannesboyne/gofakes3/cmd/...")
    port = _free_port()
    command = [_FAKE_S3, "-backend", "memory", "-autobucket", "-host", f"127.0.0.1:{port}"]
    with (directory / "store.log").open("wb") as log:
        store = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603 - of this file
    try:
        _wait_for(port)
        yield {
            "endpoint": f"http://127.0.0.1:{port}",
            "access_key_id": "test",
            "secret_access_key": "test",
            "region": "us-east-1",
            "virtual_hosted_style_request": "false",
            "client_options": {"allow_http": "true"},
        }
    finally:
        store.kill()
        store.wait()


@contextmanager
def azure(directory: Path) -> Iterator[AzureStore]:
    """Run azurite, and return its one container."""
    port = _free_port()
    command = [str(AZURITE), "--inMemoryPersistence", "--skipApiVersionCheck", "--silent"]
    with (directory / "azurite.log").open("wb") as log:
        program = subprocess.Popen(  # noqa: S603 - of this file
            [*command, "--blobPort", str(port)], stdout=log, stderr=log, cwd=directory
        )
    try:
        _wait_for(port)
        _make_container(port)
        yield AzureStore(
            _CONTAINER,
            account_name=_ACCOUNT,
            account_key=_KEY,
            endpoint=f"http://127.0.0.1:{port}/{_ACCOUNT}",
            client_options={"allow_http": True},
            retry_config={"max_retries": 0},
        )
    finally:
        program.kill()
        program.wait()


def _make_container(port: int) -> None:
    """Ask for a container, which the client of the queue cannot."""
    at = formatdate(usegmt=True)
    named = f"x-ms-date:{at}\nx-ms-version:{_VERSION}\n"
    lines = "\n" * 12
    text = f"PUT{lines}{named}/{_ACCOUNT}/{_ACCOUNT}/{_CONTAINER}\nrestype:container"
    signed = hmac.new(base64.b64decode(_KEY), text.encode(), hashlib.sha256).digest()
    headers = {
        "x-ms-date": at,
        "x-ms-version": _VERSION,
        "Authorization": f"SharedKey {_ACCOUNT}:{base64.b64encode(signed).decode()}",
        "Content-Length": "0",
    }
    with closing(HTTPConnection("127.0.0.1", port)) as asked:
        asked.request("PUT", f"/{_ACCOUNT}/{_CONTAINER}?restype=container", headers=headers)
        answer = asked.getresponse()
        assert answer.status == 201, answer.read()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int) -> None:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError(f"nobody answers at port {port}")
