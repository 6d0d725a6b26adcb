"""Judgement of a disk after a power cut by what had been told."""

from __future__ import annotations

import json
import queue as lines
import re
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow.compute as pc
from deltalake import DeltaTable

from power_work import states_of, work
from spark_queue import LocalQueue, QueueConfig, QueueNotFoundError, journaled_queue
from spark_queue.inprocess import WriteAheadLog
from spark_queue.log.disk import redo_file, removal

#: What a line tells, as plain data.
Told: TypeAlias = Mapping[str, Any]

#: Files that a power cut may leave, and that nothing names: what each is called, by its path.
_LEFT_OVER = (
    ("lock", r"(.*/)?_(writer\.lock|writer\.next|upkeep\.lock|redo)|(.*/)?_lives(/.*)?"),
    ("draft of a commit", r".*/_delta_log/(\.[0-9a-f]{32}\.tmp|\d{20}\.json#\d+)"),
    ("draft of a checkpoint", r".*/_delta_log/[^/]*(checkpoint)[^/]*#\d+"),
    ("clone that was begun", r"(.*/)?\.clone-[0-9a-f]{32}/.*"),
    (
        "log",
        r".*/_delta_log/(\d{20}\.(json|checkpoint\.parquet)|_last_checkpoint)|.*/_newest_commit",
    ),
)


@dataclass
class Finding:
    """What came of one disk."""

    lost: list[str] = field(default_factory=list)
    """What had been told and is not there, or is there and cannot be."""
    left: Counter[str] = field(default_factory=Counter)
    """Files that nothing names, by what they are."""


#: Works with a queue that was opened, and notes what fails.
GoOn: TypeAlias = Callable[[Finding, LocalQueue], None]


def judge(history: str, root: Path, told: Sequence[Told], coming: Sequence[Told]) -> Finding:
    """Open what is on a disk, and hold it against what had been told, and what was under way."""
    found = Finding()
    # A power cut begins another run of the system.
    vars(redo_file)["boot"] = lambda: "after the cut"
    try:
        if history == "records":
            _judge_records(found, root, told)
        elif history == "journal":
            _judge_journal(found, root, told, coming)
        else:
            _judge_queues(found, root, told, coming, _finish if history == "process" else _goes_on)
    except BaseException as exc:  # noqa: BLE001 - a panic of the library of Rust is none of these
        frames = [
            one
            for one in traceback.extract_tb(exc.__traceback__)
            if "/lib/python" not in one.filename
        ][-4:]
        where = ", ".join(f"{Path(one.filename).name}:{one.lineno}" for one in frames)
        found.lost.append(f"{type(exc).__name__}: {exc} ({where})")
    return found


def _judge_queues(
    found: Finding, root: Path, told: Sequence[Told], coming: Sequence[Told], go_on: GoOn
) -> None:
    told = _since_drop(told)
    is_dropped = bool(coming) and "dropped" in coming[0]
    for path in sorted({line["queue"] for line in (*told, *coming[:1])}):
        ours, next_ = ([line for line in some if line["queue"] == path] for some in (told, coming))
        states = [line for line in ours if "states" in line]
        after = next((line for line in next_ if "states" in line), None)
        try:
            queue = LocalQueue.open(root / path, durability="process")
        except QueueNotFoundError as exc:
            if ours and (path != "strings" or states) and not is_dropped:
                found.lost.append(f"queue {path}: {exc}")
            elif path != "strings" and "clone" not in path:
                # It was cut in the middle of its creation, or of its end.
                with suppress(QueueNotFoundError):
                    LocalQueue.drop(root / path)
                made = LocalQueue.create(
                    root / path, "id string, n long", QueueConfig(), durability="process"
                )
                go_on(found, made)
            continue
        _hold_readers(found, root / path, ours)
        _hold_steps(found, queue, ours)
        before = states[-1] if states else {"states": {}}
        _hold_states(found, states_of(queue), before, after)
        _name_left_over(found, root / path)
        go_on(found, queue)


def _since_drop(told: Sequence[Told]) -> Sequence[Told]:
    """Return what was told after the last drop: nothing of before is there any more."""
    drops = [at for at, line in enumerate(told) if "dropped" in line]
    return told[drops[-1] + 1 :] if drops else told


def _goes_on(found: Finding, queue: LocalQueue) -> None:
    """Add an item, take it, and keep the queue quick."""
    first, *others = [queue if name == "" else queue.reader(name) for name in queue.readers()]
    first.resume()
    names = [name for name in first.status().column_names if not name.startswith("_")]
    row = {name: 1 if name == "n" else "once more" for name in names}
    if queue.enqueue(row).inserted != 1:
        found.lost.append("no item can be added")
    for reader in (first, *others):
        while (claim := reader.claim(100)).rows:
            claim.ack()
    # It takes longer than all the rest.
    if not sum(first.counts().values()) % 5:
        queue.maintain()


def _hold_steps(found: Finding, queue: LocalQueue, told: Sequence[Told]) -> None:
    for line in told:
        if "step" in line:
            store = queue._main.of_reader(line["reader"])  # noqa: SLF001
            head = store.queue_head() if line["log"] == "queue" else store.status_head()
            if head.step < line["step"]:
                found.lost.append(f"step {line['step']} of {line['log']}: it ends at {head.step}")


def _hold_readers(found: Finding, path: Path, told: Sequence[Told]) -> None:
    """Check that readers of Delta have all rows of each table, which was opened once."""
    last: dict[Path, int] = {}
    for line in told:
        if "step" in line:
            reader = f"reader_{line['reader']}" if line["reader"] else line["log"]
            last[path / reader] = line["step"]
    for table, step in last.items():
        rows = DeltaTable(str(table)).to_pyarrow_table()
        heads = rows.filter(pc.equal(rows["_kind"], "head"))["_step"].to_pylist()
        if max(heads, default=0) < step:
            found.lost.append(
                f"deltalake reads {table.name} up to {max(heads, default=0)}, not {step}"
            )


def _hold_states(
    found: Finding, states: Mapping[str, str], before: Told, after: Told | None
) -> None:
    """Check that the items are where they were told to be, or where the next verb puts them."""
    if states == before["states"] or (after is not None and states == after["states"]):
        return
    coming = {} if after is None else after["states"]
    if after is not None and not after["is_one_step"]:
        wrong = [
            seq
            for seq in {**before["states"], **states}
            if not _may_be(states.get(seq), before["states"].get(seq), coming.get(seq))
        ]
        if not wrong:
            return
    found.lost.append(f"items are {states}; told were {before['states']}, coming {coming}")


def _may_be(state: str | None, before: str | None, after: str | None) -> bool:
    """Tell whether an item may be in a state between two others."""
    return state in (before, after) or (state in ("ready", "claimed") and before != "acked")


def _finish(found: Finding, queue: LocalQueue) -> None:
    """Work a queue off: each item that is to have a row has it once."""
    root = Path(queue.name).parent
    queue.enqueue({"id": "once more", "n": 1})
    work(queue, root)
    rows = queue.status().select(["id", "_state"]).to_pylist()
    wanted = Counter(
        row["id"] for row in rows if row["_state"] == "acked" and not row["id"].startswith("n")
    )
    there = Counter(DeltaTable(str(root / "results" / "out")).to_pyarrow_table()["who"].to_pylist())
    if there != wanted or any(row["_state"] in ("ready", "claimed") for row in rows):
        found.lost.append(f"rows of the output are {dict(there)}, of items {rows}")


def _judge_journal(
    found: Finding, root: Path, told: Sequence[Told], coming: Sequence[Told]
) -> None:
    path = root / "queue"
    try:
        queue = LocalQueue.open(path, durability="process")
    except QueueNotFoundError as exc:
        if told:
            found.lost.append(str(exc))
        return
    _hold_readers(found, path, told)
    _hold_steps(found, queue, told)
    _name_left_over(found, path)
    put, acked = _items(told, "put"), _items(told, "acked")
    front = journaled_queue(queue)
    reader, got = front.reader(""), []
    while True:
        try:
            read = reader.get(timeout=0)
        except lines.Empty:
            break
        got.append(read.item)
        reader.ack(read)
    front.close()
    missing = put - acked - set(got) - _items(coming[:3], "acked")
    if missing or acked & set(got) or len(got) != len(set(got)):
        found.lost.append(f"items are {got}; put were {sorted(put)}, and acked {sorted(acked)}")


def _items(told: Sequence[Told], what: str) -> set[str]:
    return {item for line in told for item in line.get(what, ())}


def _judge_records(found: Finding, root: Path, told: Sequence[Told]) -> None:
    wanted = max((line["records"] for line in told), default=0)
    with WriteAheadLog[str](root / "log") as log:
        if log.cut_bytes:
            found.left["torn record"] += 1
        records = list(log.replay())
        numbers = [int(record.split()[0]) for record in records]
        if numbers != list(range(len(numbers))) or len(numbers) < wanted:
            found.lost.append(f"records are {numbers}, and {wanted} were told")
        log.append("after")
        if list(log.replay())[-1] != "after":
            found.lost.append("no record can be added")


def _name_left_over(found: Finding, path: Path) -> None:
    """Say what each file is that no commit of the queue's logs names."""
    for log in path.iterdir():
        if not (log / "_delta_log").is_dir():
            continue
        if removal.is_unfinished(log):
            found.left["log that was begun"] += 1
            continue
        named = _files_of(log)
        for file in log.rglob("*"):
            if file.is_dir():
                continue
            name = file.relative_to(path).as_posix()
            kind = next((kind for kind, form in _LEFT_OVER if re.fullmatch(form, name)), None)
            if kind in ("lock", "log") or file.relative_to(log).as_posix() in named:
                continue
            rows = name.endswith(".parquet") and "/_gen=" in name
            found.left[kind or ("rows that no commit names" if rows else "unknown")] += 1


def _files_of(log: Path) -> set[str]:
    """Return the files that the commits of a log name, also those that were replaced."""
    named = set()
    for commit in (log / "_delta_log").glob("*.json"):
        for line in commit.read_text().splitlines():
            action = json.loads(line)
            for kind in ("add", "remove"):
                if kind in action:
                    named.add(action[kind]["path"])
    return named
