"""Jars from Maven Central, which the first start brings into the environment of this Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ARTIFACT = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}"
    "</dependency>"
)


def class_path(group: str, version: str, *artifacts: str, managed: str | None = None) -> str:
    """Return where artifacts and what they need are; one may say in which versions."""
    folder = Path(sys.prefix, "jars")
    if not folder.exists():
        needed = "".join(ARTIFACT.format(group, name, version, "") for name in artifacts)
        told = "<type>pom</type><scope>import</scope>"
        others = ARTIFACT.format(group, managed, version, told) if managed else ""
        pom = Path(sys.prefix, "pom.xml")
        pom.write_text(
            "<project><modelVersion>4.0.0</modelVersion>"
            "<groupId>none</groupId><artifactId>none</artifactId><version>1</version>"
            "<dependencyManagement><dependencies>"
            f"{others}</dependencies></dependencyManagement>"
            f"<dependencies>{needed}</dependencies></project>",
            "utf-8",
        )
        # A start that ends midway leaves nothing that the next one takes for all of them.
        coming = folder.with_name("coming")
        copied = ["dependency:copy-dependencies", f"-DoutputDirectory={coming}", "-f", str(pom)]
        subprocess.run(["mvn", "-q", "-B", *copied], check=True, stdout=2)  # noqa: S603, S607
        coming.rename(folder)
    return f"{folder}/*"
