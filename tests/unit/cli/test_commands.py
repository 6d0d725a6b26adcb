from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import astuple
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from spark_queue import __version__
from spark_queue.acting import whoami
from spark_queue.cli.display import Terminated
from spark_queue.commands import wait_for_end
from spark_queue.errors import (
    LeaseLostError,
    QueueNotFoundError,
    StepLostError,
    WriterLockedError,
)
from spark_queue.ingest import TypeSummary
from spark_queue.ingest.run import summarise
from spark_queue.local_queue import LocalQueue
from spark_queue.processing.loop import ProcessResult
from spark_queue.results import Affected
from tests.conftest import CommandLine

Run = Callable[..., Any]
Fake = Callable[..., Any]


def test_count_is_one_json_object(run: Run, fake: Fake) -> None:
    """With ``--json`` standard output is one object, and standard error is empty."""
    item = {"tenant": "a", "_seq": 4, "_state": "ready", "_attempts": 0, "_error": None}
    was, becomes = {"ready": 2, "claimed": 1}, {"cancelled": 3}
    queue = fake(cancel=Affected(3, states=was, becomes=becomes, sample=[item]))

    ended = run("cancel", "./q", "--where", "tenant = 'a'", "--dry-run", "--json")

    told = {"states": was, "becomes": becomes, "sample": [item]}
    assert json.loads(ended.out) == {"count": 3, "dry_run": True, **told}
    assert (ended.code, ended.err) == (0, "")
    assert queue.calls == [("cancel", ("tenant = 'a'",), {"dry_run": True})]


def test_count_is_a_sentence_for_people(run: Run, fake: Fake) -> None:
    """Without ``--json`` the count is said in words."""
    fake(cancel=Affected(1234, step=7))

    assert run("cancel", "./q", "--where", "true").out == "1,234 items cancelled, step 7\n"


def test_a_purge_counts_what_stays(run: Run, fake: Fake) -> None:
    """Items that are meant, and may not go, are told of after what went, or would go."""
    fake(purge=Affected(2, states={"acked": 2}, becomes={"gone": 2}, stays={"ready": 3}))
    stay = "3 ready items stay: purge takes finished items; cancel them first"

    assert run("purge", "./q", "--where", "true").out.splitlines() == ["2 items purged", stay]
    foreseen = run("purge", "./q", "--where", "true", "--dry-run").out.splitlines()
    assert (foreseen[0], foreseen[-1]) == ("2 items would be purged", stay)
    for more in ((), ("--dry-run",)):
        told = json.loads(run("purge", "./q", "--where", "true", "--json", *more).out)
        assert (told["count"], told["stays"]) == (2, {"ready": 3})


def test_redrive_is_of_dead_letters_unless_said_otherwise(run: Run, fake: Fake) -> None:
    """Redrive without a predicate takes the dead letters, not what was cancelled."""
    queue = fake(redrive=Affected(0))

    run("redrive", "./q")

    assert queue.calls == [("redrive", ("_state = 'dead'",), {"dry_run": False, "again": False})]


@pytest.mark.parametrize("command", ["cancel", "purge"])
def test_what_ends_items_must_be_told_which(run: Run, fake: Fake, command: str) -> None:
    """No predicate, no cancel and no purge."""
    queue = fake(cancel=0, purge=0)

    assert run(command, "./q").code == 2
    assert queue.calls == []


@pytest.mark.parametrize(("command", "paused"), [("pause", True), ("resume", False)])
def test_pause_and_resume_say_from_when(run: Run, fake: Fake, command: str, paused: bool) -> None:  # noqa: FBT001 - a parameter
    """The step from which it is in force is part of the answer."""
    fake(pause=7, resume=7)

    told = json.loads(run(command, "./q", "--json").out)
    assert told == {"paused": paused, "step": 7, "changed": True}


@pytest.fixture
def here(command_line: CommandLine) -> Callable[..., tuple[int, str, str]]:
    """Run a command in this process, without a session; return its exit code and what it says."""
    return lambda *words: astuple(command_line(*words))


def test_pause_of_what_is_paused_says_since_when(
    here: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    """It writes nothing, and names who has paused it."""
    place = str(tmp_path / "q")
    step = LocalQueue.create(place, "id string", durability="process").pause()

    told = json.loads(here("pause", place, "--json")[1])

    assert told == {"paused": True, "step": step, "changed": False}
    said = here("pause", place)[1]
    assert said.startswith("nothing to do: it has been paused since ")
    assert f" by {whoami()}" in said
    assert here("resume", place)[1] == f"resumed from step {step + 1} on\n"
    assert here("resume", place)[1] == "nothing to do: it is not paused\n"


def test_create_leaves_a_queue_that_is_there_on_request(
    here: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    """With ``--exist-ok`` it tells the settings in force, and the difference to another queue."""
    place = str(tmp_path / "q")
    columns = ("--schema", "id string", "--exist-ok", "--json")
    made = json.loads(here("create", place, *columns, "--lease", "60")[1])
    again = json.loads(here("create", place, *columns, "--lease", "90")[1])

    assert made == again
    assert again["config"]["lease"] == 60.0
    code, out, _ = here("create", place, *columns, "--dedup-key", "id")
    assert code == 2
    assert "its dedup_key is None, not 'id'" in json.loads(out)["message"]


def test_explanation_of_no_item_is_wrong_usage(
    here: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    """As a history of it is."""
    place = str(tmp_path / "q")
    LocalQueue.create(place, "id string", durability="process")

    code, out, err = here("explain", place, "7")

    assert (code, out) == (2, "")
    assert "seq is 7: queue" in err


@pytest.mark.parametrize(
    ("acts", "code", "outcome"),
    [((), 1, "timeout"), (("ack", "ack"), 0, "done"), (("ack", "dead"), 1, "failed")],
)
def test_a_wait_ends_with_1_for_an_orchestrator_that_is_to_look(
    here: Callable[..., tuple[int, str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    acts: tuple[str, ...],
    code: int,
    outcome: str,
) -> None:
    """Time that is over and items that are dead are told apart by a word."""
    queue = LocalQueue.create(str(tmp_path / "q"), "id string", durability="process")
    queue.enqueue([{"id": "a"}, {"id": "b"}])
    since = datetime.now(timezone.utc).isoformat()

    def end_items(*_: object) -> None:
        for act in acts:
            getattr(queue.claim(1), act)(*["no"] * (act == "dead"))

    monkeypatch.setattr(wait_for_end, "rest_until_news", end_items)
    ended, out, _ = here("wait", queue.name, "--json", "--timeout", "60" if acts else "0")

    assert (ended, json.loads(out)["outcome"]) == (code, outcome)
    # Begun again as of the same instant, it counts the same items.
    again, said, _ = here("wait", queue.name, "--json", "--timeout", "0", "--as-of", since)
    assert (again, json.loads(said)) == (code, json.loads(out))


def test_process_hands_on_what_it_was_told(run: Run, fake: Fake) -> None:
    """Options become the arguments of process: durations, and an output on this disk."""
    queue = fake(process=ProcessResult(acked=2, dead=1))

    ended = run(
        "process", "./q", "json:loads", "--returns", "a int", "--output", "facts", "--limit", "5",
        "--lease", "60", "--time-limit", "1.5", "--per", "batch", "--json",
        "--item-time-limit", "2",
    )  # fmt: skip

    (_, args, kwargs) = queue.calls[0]
    assert args == (json.loads,)
    assert (kwargs["returns"], kwargs["output"]) == ("a int", str(Path("facts").absolute()))
    assert (kwargs["limit"], kwargs["per"], kwargs["max_per_group"]) == (5, "batch", None)
    assert kwargs["lease"] == timedelta(seconds=60)
    assert kwargs["time_limit"] == timedelta(seconds=1.5)
    assert kwargs["item_time_limit"] == timedelta(seconds=2)
    assert (json.loads(ended.out)["dead"], ended.code) == (1, 0)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("json", "module:function"),
        (":loads", "module:function"),
        ("no_such_module:f", "No module named 'no_such_module'"),
        ("json:no_such_function", "has no function 'no_such_function'"),
        ("json:__name__", "has no function '__name__'"),
    ],
)
def test_handler_that_is_not_there_is_refused(run: Run, fake: Fake, spec: str, why: str) -> None:
    """A handler is named by module and function, and both must be there."""
    queue = fake(process=ProcessResult())

    ended = run("process", "./q", spec)

    assert (ended.code, queue.calls) == (2, [])
    assert why in ended.err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (WriterLockedError("/q", 4711), 3),
        (QueueNotFoundError("/q"), 2),
        (StepLostError("claim", 20), 1),
        (LeaseLostError([1]), 1),
        (RuntimeError("disk\nfull"), 1),
        (KeyboardInterrupt(), 130),
        (Terminated(), 143),
    ],
)
def test_error_is_a_line_and_an_exit_code(
    run: Run, fake: Fake, error: BaseException, code: int
) -> None:
    """What to do next is told by the exit code, what went wrong by one line."""
    fake(pause=error)

    ended = run("pause", "./q")

    assert (ended.code, ended.out) == (code, "")
    assert ended.err.startswith("spark-queue: ")
    assert ended.err.count("\n") == 1


def test_error_of_a_worker_is_told_by_its_last_line(run: Run, fake: Fake) -> None:
    """Of a worker's traceback the line that says what happened is shown."""
    fake(pause=RuntimeError("thrown from the worker:\nTraceback\n  File\nKeyError: 'a'\n\n"))

    assert run("pause", "./q").err.endswith("thrown from the worker: KeyError: 'a'\n")


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        ("", "java.io.IOException: aborted"),
        ("Caused by: a.B: first\n\tat x\nCaused by: java.net.X: refused\n", "java.net.X: refused"),
    ],
)
def test_error_of_the_jvm_is_told_by_its_cause(run: Run, fake: Fake, cause: str, said: str) -> None:
    """By which call the JVM was asked tells nobody anything; what it says does."""
    text = "An error occurred while calling o7.sql.\n: java.io.IOException: aborted\n\tat y\n"
    fake(pause=RuntimeError(text + cause))

    assert run("pause", "./q").err == f"spark-queue: RuntimeError: {said}\n"


def test_lock_names_the_process(run: Run, fake: Fake) -> None:
    """Who is refused learns who writes."""
    fake(pause=WriterLockedError("/q", 4711))

    assert "process 4711" in run("pause", "./q").err


def test_error_is_a_json_object_too(run: Run, fake: Fake) -> None:
    """A program that reads the output gets its one object also when the command fails."""
    fake(pause=WriterLockedError("/q", 4711))

    ended = run("pause", "./q", "--json")

    error = json.loads(ended.out)
    assert (error["error"], error["exit"], ended.code) == ("WriterLockedError", 3, 3)


def test_traceback_is_for_verbose(run: Run, fake: Fake) -> None:
    """With ``--verbose`` the line comes after the whole story."""
    fake(pause=RuntimeError("disk full"))

    ended = run("pause", "./q", "--verbose")

    assert "Traceback" in ended.err
    assert ended.err.endswith("spark-queue: RuntimeError: disk full\n")


def test_enqueue_must_know_where_the_rows_are(run: Run, fake: Fake) -> None:
    """A table or files: neither and both are refused."""
    fake()

    assert "one of them" in run("enqueue", "./q").err
    assert run("enqueue", "./q", "--table", "t", "--files", "f").code == 2


def test_source_of_the_main_job_must_be_a_directory(run: Run, tmp_path: Path) -> None:
    """A source that is not there is refused before anything starts."""
    ended = run("ingest", str(tmp_path / "no"), "--queue", "./q", "--output", "./o")

    assert ended.code == 2
    assert ended.err == f"spark-queue: source {str(tmp_path / 'no')!r} is not a directory\n"


def test_main_job_is_told_what_to_leave_out(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Patterns may be given again and again; linked directories are looked into where asked."""
    asked: list[dict[str, Any]] = []

    def taken(*_: Any, **options: Any) -> None:
        asked.append(options)
        raise KeyboardInterrupt

    monkeypatch.setattr("spark_queue.ingest.ingest", taken)
    command = ["ingest", str(tmp_path), "--queue", "./q", "--out", "./o"]

    run(*command)
    run(*command, "--exclude", "*.pyc", "--exclude", "a/b", "--follow-links", "--limit", "7")

    kept = [(one["exclude"], one["follow_links"], one["limit"]) for one in asked]
    assert [(list(names), follow, limit) for names, follow, limit in kept] == [
        ([], False, 50_000),
        (["*.pyc", "a/b"], True, 7),
    ]


def test_main_job_ends_with_what_it_did_and_what_to_try_next(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """People get the types of the files, one line of counts, and commands that can be pasted."""
    many = [(f"text/x-{number}", 1, 10) for number in range(11)]
    rows: list[tuple[Any, ...]] = [("text/x-python", 1_234, 56_789), (None, 2, 5), *many]
    types = [TypeSummary(media_type=kind, files=n, bytes=size) for kind, n, size in rows]
    done = summarise(
        discovered={"": 1_250},
        inserted={"": 1_248},
        states={"acked": {"": 1_247}, "dead": {"": 1}},
        seconds=12.34,
        stopped="empty",
        types=types,
    )
    nothing = summarise(discovered={"": 5}, inserted={}, states={}, seconds=1, stopped="empty")
    answers = iter([done, nothing])
    monkeypatch.setattr("spark_queue.ingest.ingest", lambda *_, **__: next(answers))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [str(tmp_path / ".venv/bin/spark-queue")])
    command = ["ingest", str(tmp_path), "--queue", "./q", "--out", "./o"]

    first, second = run(*command).out, run(*command).out

    cells = [line.replace("│", " ").replace("┃", " ").split() for line in first.splitlines()]
    assert ["text/x-python", "1,234", "56,789"] in cells
    assert ["(unknown)", "2", "5"] in cells
    assert ["(3", "more)", "3", "30"] in cells
    assert ["all", "1,247", "56,904"] in cells
    assert first.endswith(
        "1,250 files found, 1,248 new or changed; 1,247 read, 1 unreadable, in 12.3 s\n"
        "The rows are in ./o. Next:\n"
        "  .venv/bin/spark-queue stats ./q\n"
        "  .venv/bin/spark-queue dead ./q\n"
    )
    assert second == (
        "5 files found, 0 new or changed; 0 read, 0 unreadable, in 1.0 s\n"
        "The rows are in ./o. Next:\n"
        "  .venv/bin/spark-queue stats ./q\n"
    )


def test_unknown_option_is_wrong_usage(run: Run) -> None:
    """The parser's own errors have the exit code of wrong usage, and nothing on standard output."""
    ended = run("status", "./q", "--jsn")

    assert (ended.code, ended.out) == (2, "")
    assert "--jsn" in ended.err


def test_version_is_told(run: Run) -> None:
    """``--version`` says which release this is, and starts nothing."""
    assert run("--version").out == f"spark-queue {__version__}\n"


def test_former_name_of_an_option_is_understood(run: Run, fake: Fake) -> None:
    """``--out`` means what is called ``output`` everywhere else."""
    queue = fake(process=ProcessResult())

    run("process", "./q", "json:loads", "--returns", "a int", "--out", "/facts")

    assert queue.calls[0][2]["output"] == "/facts"
