"""The bundle for Databricks beside its client's types; see orchestrators.py, which runs this."""

from __future__ import annotations

import http.server
import json
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml
from databricks.bundles.jobs import Job
from playing import PROGRAMS, expect, play_parts, run, variables_of

_BUNDLE = PROGRAMS.parents[1] / "conf" / "databricks" / "databricks.yml"

#: The answers of the stand-in by the end of a path; to all else it answers that there is nothing.
_ANSWERS = {
    "/scim/v2/Me": {"id": "1", "userName": "ann@example.org"},
    "/workspace/get-status": {"object_type": "DIRECTORY", "object_id": 1, "path": "/Workspace"},
}


def play_job(place: Path) -> None:
    """Hold the job of the bundle against the types of the client, which refuse what they lack."""
    del place
    job = yaml.safe_load(_BUNDLE.read_text("utf-8"))["resources"]["jobs"]["queue"]
    expect(Job.from_dict(job).as_dict(), job)
    for task in job["tasks"]:
        task["max_retires"] = task.pop("max_retries", 0)
    try:
        Job.from_dict(job)
    except ValueError as exc:
        expect("max_retires" in str(exc), True)
    else:
        raise AssertionError("a word that no task has is taken")


def play_validate(place: Path) -> None:
    """Have the command line of Databricks validate both targets."""
    with _workspace() as url:
        own = {"DATABRICKS_HOST": url, "DATABRICKS_TOKEN": "none", "HOME": str(place)}
        variables = variables_of(place, **own)
        for target in ("dev", "prod"):
            words = ["bundle", "validate", "--strict", "-t", target, "--var", "warehouse_id=none"]
            said = run(["databricks", *words], _BUNDLE.parent, variables)
            expect("Validation OK!" in said, True)


@contextmanager
def _workspace() -> Iterator[str]:
    """Serve what a validation asks of a workspace: who asks, and whether a folder is there."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        path = self.path.partition("?")[0]
        told = next((one for end, one in _ANSWERS.items() if path.endswith(end)), {})
        body = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - the name that it is called by

    def log_message(self, *_: object) -> None:
        pass


PARTS = {"the job of the bundle is of the client's types": play_job}
if shutil.which("databricks"):
    PARTS["`databricks bundle validate --strict`, a stand-in for a workspace"] = play_validate

if __name__ == "__main__":
    play_parts(PARTS, sys.argv[1:])
