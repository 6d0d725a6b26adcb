"""Format of the files of a stream, as their names tell it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_queue.cli import main


@pytest.mark.parametrize("names", [["a.csv", "b.json"], ["a.txt"]])
def test_names_that_tell_no_format_ask_for_the_option(
    names: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line names the option, and no session is started."""

    def session(_verbose: bool) -> Any:  # noqa: FBT001 - as a Sessions is called
        raise AssertionError("a session is started")

    for name in names:
        (tmp_path / name).write_text("a\n1\n")
    with pytest.raises(SystemExit) as ended:
        main(
            ["stream-enqueue", "q", "--files", str(tmp_path), "--checkpoint", str(tmp_path / "c")],
            sessions=session,
        )
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert "--format" in said
    assert "Traceback" not in said
