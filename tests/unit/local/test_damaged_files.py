"""Every file of a queue, damaged in every way, under every verb: a right answer or a named file."""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from datetime import timedelta
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar

import pytest

from spark_queue import DurableQueue
from spark_queue.cli import main
from spark_queue.clock import ManualClock
from spark_queue.config import QueueConfig
from spark_queue.errors import FileAccessError, FileGoneError, LogDamagedError
from spark_queue.local_queue import LocalQueue
from spark_queue.log import delta_log
from spark_queue.queue_views import store_of
from spark_queue.state import catch_up
from tests.conftest import memory_place

_T = TypeVar("_T")

_Verb = Callable[[LocalQueue], object]


def _held(queue: LocalQueue) -> Any:
    return queue.claim(2, claim_id="mine")


def _put_by_front(queue: LocalQueue) -> int:
    with DurableQueue(queue) as front:
        return front.put({"id": "new", "tenant": "a"}).result(timeout=60).seq


def _cancel_by_command(queue: LocalQueue) -> str:
    """Raise what the command says on its last line, as the error that it stands for."""
    out, told = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(told), pytest.raises(SystemExit) as end:
        main(["cancel", queue.name, "--where", "tenant = 'a'"])
    if not end.value.code:
        return out.getvalue()
    assert "Traceback" not in told.getvalue()
    if " is gone" in told.getvalue():
        raise FileGoneError(told.getvalue())
    raise LogDamagedError(queue.name, "queue", 0, told.getvalue())


#: What only reads; each answers with something that can be compared.
READING: dict[str, _Verb] = {
    "counts": lambda queue: queue.counts(),
    "status": lambda queue: queue.status().to_pylist(),
    "dead": lambda queue: queue.dead().to_pylist(),
    "history": lambda queue: queue.history(3).to_pylist(),
    "explain": lambda queue: queue.explain(5),
    "stats": lambda queue: queue.stats(),
    "readers": lambda queue: queue.readers(),
    "config": lambda queue: queue.config,
    "report": lambda queue: str(queue.report()),
    "report as of": lambda queue: str(queue.report(as_of=3)),
    "report_item": lambda queue: str(queue.report_item(5)),
    "rows of a claim": lambda queue: _held(queue).rows,
    "dry run": lambda queue: str(queue.cancel({"tenant": "a"}, dry_run=True)),
}

#: Those that ask DuckDB, of which there is one for a file; and the others.
REPORTS = ("report", "report as of", "report_item")
QUICK = tuple(verb for verb in READING if verb not in REPORTS)

#: What writes a step, or files.
WRITING: dict[str, _Verb] = {
    "enqueue": lambda queue: (
        queue.enqueue([{"id": name, "tenant": "a"} for name in ("new", "i3")]).inserted
    ),
    "claim": lambda queue: [(row["_seq"], row["id"]) for row in queue.claim(3).rows],
    "ack": lambda queue: _held(queue).ack(),
    "nack": lambda queue: _held(queue).nack("no"),
    "cancel": lambda queue: int(queue.cancel({"tenant": "a"})),
    "redrive": lambda queue: int(queue.redrive({"tenant": "a"})),
    "purge": lambda queue: int(queue.purge({"_seq": [1, 2]})),
    "maintain": lambda queue: bool(queue.maintain()),
    "configure": lambda queue: bool(queue.configure(lease=timedelta(minutes=9))),
    "reader": lambda queue: queue.reader("new").counts(),
    "upgrade": lambda queue: str(queue.upgrade()),
    "clone": lambda queue: queue.clone(queue.name + "-clone").status().to_pylist(),
    "process": lambda queue: queue.process(lambda _: None, limit=2).acked,
    "drop": lambda queue: LocalQueue.drop(queue.name),
    "front": _put_by_front,
    "command": _cancel_by_command,
}


def _flip(content: bytes, seed: str) -> bytes:
    """Flip one bit."""
    chance, changed = random.Random(seed), bytearray(content)  # noqa: S311 - no secret
    if changed:
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _rewritten(change: Callable[[bytes, str], bytes]) -> Callable[[Path], None]:
    def damage(file: Path) -> None:
        content = file.read_bytes()
        # The file of the template may be the same one, by a link.
        file.unlink()
        file.write_bytes(change(content, f"{file.parent.name} {len(content)}"))

    return damage


def _directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


def _closed(file: Path) -> None:
    content = file.read_bytes()
    file.unlink()
    file.write_bytes(content)
    file.chmod(0)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "empty": _rewritten(lambda *_: b""),
    "cut": _rewritten(lambda content, _: content[: len(content) // 2]),
    "garbage": _rewritten(lambda *_: b"garbage\n" * 20),
    "flipped bit": _rewritten(_flip),
    "not UTF-8": _rewritten(lambda content, _: content[:40] + b"\xff\xfe" + content[42:]),
    "directory": _directory,
    "missing": Path.unlink,
    "no permission": _closed,
}


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    """Return a queue with a checkpoint, merged files, and items in every state."""
    # Not where pytest has its directories, which it closes to others again and again.
    root = Path(tempfile.mkdtemp(prefix="spark-queue-", dir=memory_place()))
    path = root / "template"
    config = QueueConfig(dedup_key="id", fair_key="tenant", max_attempts=1)
    queue = LocalQueue.create(
        path, "id string, tenant string", config, durability="process", clock=ManualClock()
    )
    for number in range(6):
        queue.enqueue({"id": f"i{number}", "tenant": "ab"[number % 2]})
    queue.claim(2).ack()
    queue.claim(1).nack("no")
    for which in ("queue", "status"):
        log = store_of(queue).native(which)
        assert isinstance(log, delta_log.DeltaLog)
        log._table().interval = 1  # so that few steps are enough to be summed up
        assert log.sum_up()
    queue.maintain()
    queue.configure(lease=timedelta(minutes=7))
    queue.enqueue({"id": "late", "tenant": "c"})
    queue.claim(2, claim_id="mine")
    queue.close()
    for name in ("queue", "status"):
        # Of the many files that were merged two are enough.
        for file in _rows(path / name)[1][2:]:
            file.unlink()
    yield path
    shutil.rmtree(root)


def _rows(log: Path) -> tuple[list[Path], list[Path]]:
    """Return the files of rows that a log has now, and those that it had."""
    commits = sorted((log / "_delta_log").glob("*.json"))
    lines = [json.loads(line) for file in commits for line in file.read_text().splitlines()]
    gone = {line["remove"]["path"] for line in lines if "remove" in line}
    files = sorted(log.glob("_gen=*/*.parquet"))
    replaced = [file for file in files if f"{file.parent.name}/{file.name}" in gone]
    return [file for file in files if file not in replaced], replaced


def _copied(source: str, target: str) -> str:
    """Link what is never changed, and copy the rest, so that any user may write to it."""
    if source.endswith((".parquet", ".json")):
        os.link(source, target)
    else:
        shutil.copyfile(source, target)
        os.chmod(target, 0o666)  # noqa: PTH101, S103 - others are to write to it
    return target


def _opened(path: Path) -> LocalQueue:
    """Open a queue as a process does that has never seen it."""
    vars(catch_up)["_caches"].clear()
    return LocalQueue.open(path, durability="process", clock=ManualClock())


@contextmanager
def _copy_of(template: Path) -> Iterator[Path]:
    path = template.with_name("queue")
    shutil.copytree(template, path, copy_function=_copied)
    for directory in (path.parent, path, *(p for p in path.rglob("*") if p.is_dir())):
        directory.chmod(0o777)
    try:
        yield path
    finally:
        for left in (path, path.with_name("queue-clone")):
            shutil.rmtree(left, ignore_errors=True)


@contextmanager
def _as_nobody() -> Iterator[None]:
    """Work without the rights of root, to whom no file is closed."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65_534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


@pytest.fixture(scope="module")
def expected(template: Path) -> dict[str, object]:
    """Return what every verb answers where nothing is damaged."""
    answers: dict[str, object] = {}
    for verb, run in (READING | WRITING).items():
        with _copy_of(template) as path:
            answers[verb] = run(_opened(path))
    return answers


def _files(template: Path) -> list[Path]:
    """Return a few files of each kind: commits, checkpoints, rows of each lane, notes and locks."""
    found: list[Path] = []
    for log in ("queue", "status"):
        commits = sorted((template / log / "_delta_log").glob("*.json"))
        rows, replaced = _rows(template / log)
        lanes = {file.parent: file for file in rows}
        found += [commits[0], *commits[-2:], *lanes.values(), *replaced[:1]]
        found += sorted((template / log / "_delta_log").glob("*checkpoint*"))[-2:]
    found += [file for file in sorted((template / "status").rglob("_*")) if file.is_file()]
    found += [file for file in sorted(template.iterdir()) if file.is_file()]
    return list(dict.fromkeys(file.relative_to(template) for file in found))


class _Findings:
    """What verbs do with a damaged file that is neither right nor an error of this library."""

    def __init__(self, expected: dict[str, object]) -> None:
        self.wrong: list[str] = []
        self._expected = expected

    def look(self, path: Path, file: Path, verbs: Iterable[str]) -> bool:
        """Open a damaged queue, and run verbs on it; tell whether it was opened."""
        with _as_nobody():
            queue = self._done(f"open, {file}", file, lambda: _opened(path))
            for verb in verbs if queue is not None else ():
                found = self._done(f"{verb}, {file}", file, partial(self._run, verb, queue))
                if found is not None and found != (self._expected[verb],):
                    self.wrong.append(f"{verb}, {file}: {found} for {self._expected[verb]}")
        return queue is not None

    @staticmethod
    def _run(verb: str, queue: LocalQueue | None) -> tuple[object]:
        assert queue is not None
        # As in a process that has never seen it.
        vars(catch_up)["_caches"].clear()
        return ((READING | WRITING)[verb](queue),)

    def _done(self, what: str, file: Path, do: Callable[[], _T]) -> _T | None:
        try:
            return do()
        except (LogDamagedError, FileAccessError) as error:
            # What a damaged commit names is not there.
            if file.name not in str(error) and not isinstance(error, FileGoneError):
                self.wrong.append(f"{what}: unnamed: {error}")
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            self.wrong.append(f"{what}: {type(error).__name__}: {error}")
        return None


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_named_or_changes_no_answer(
    template: Path, expected: dict[str, object], damage: str
) -> None:
    """Whatever is done, it is done right, or an error of this library names the damaged file."""
    findings, seed = _Findings(expected), list(DAMAGES).index(damage)
    for turn, file in enumerate(_files(template)):
        if damage == "flipped bit" and "checkpoint" in file.name:
            # What deltalake writes has no checksum.
            continue
        reads = (*QUICK, REPORTS[turn % len(REPORTS)])
        for verbs in (reads, [list(WRITING)[(turn + seed) % len(WRITING)]]):
            with _copy_of(template) as path:
                DAMAGES[damage](path / file)
                if not findings.look(path, file, verbs):
                    break

    assert not findings.wrong, "\n".join(findings.wrong)
