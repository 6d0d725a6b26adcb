"""What the tables of a queue, and the logs of those who worked with it, have to agree on.

The tables are read by ``deltalake``, file by file of what is there now, and not by the library.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

from deltalake import DeltaTable

import chaos_flow
from chaos_evidence import Evidence, Found, Row

_OVER = frozenset({"acked", "dead", "expired", "cancelled"})

#: States that an item may have after something was said of it.
_AFTER = {"ack": {"acked"}, "nack": {"ready", "dead"}, "release": {"ready"}}

#: Files that may be there: Delta's, and ours.
_EXPECTED = re.compile(
    r"_writer\.(lock|next)"
    r"|(queue|status)/_(writer\.(lock|next)|upkeep\.lock)"
    r"|(queue|status)/_(newest_commit|redo)"
    r"|status/_lives/\d+-[0-9a-f]{8}"
    r"|(queue|status)/_delta_log/(\d{20}\.(json|checkpoint\.parquet)|_last_checkpoint)"
)
_DATA = re.compile(r"(queue|status)/_gen=-?\d+/(part|step)-[^/]+\.parquet")

#: Checksums: those that Delta, and the file system of Spark, keep beside their files.
_CHECKSUM = re.compile(r"(queue|status)/((_delta_log|_gen=-?\d+)/)?(\.[^/]+|\d{20})\.crc")

#: What is left of what a killed process was making; it has no name that anybody looks for.
_HALF_MADE = re.compile(
    r"(queue|status)/(_newest_commit\.new|_delta_log/(\.[0-9a-f]{32}\.tmp|_commit_.+\.tmp|.+#\d+))"
)


def judged(place: Path, deaths: Mapping[int, int]) -> Found:
    """Hold the tables in a place against the logs that are beside them."""
    queue = place / "queue"
    evidence = Evidence(
        items=_rows(queue / "queue"),
        moves=_rows(queue / "status"),
        lines=_lines(place / "told"),
        deaths=deaths,
    )
    found = Found()
    check(evidence, found)
    _files(queue, found)
    return found


def check(evidence: Evidence, found: Found) -> None:
    """Hold evidence against all laws that are not about files."""
    for law in _LAWS:
        law(evidence, found)


def _entries(evidence: Evidence, found: Found) -> None:
    """Check that what was put is there, once."""
    keys = Counter(row["k"] for row in evidence.entered())
    seqs = Counter(row["_seq"] for row in evidence.entered())
    tried = {key for line in evidence.told("put?") for key in line["keys"]}
    put = {key for line in evidence.told("put") for key in line["keys"]}
    found.note("put and missing", sorted(put - set(keys)))
    found.note("put by nobody", sorted(set(keys) - tried))
    found.note("there twice", [str(it) for it, n in (keys + seqs).items() if n > 1])
    found.counts.update({"items": len(keys), "puts": len(put)})


def _outcomes(evidence: Evidence, found: Found) -> None:
    """Check that every item is over, once and for all."""
    over: dict[int, Row] = {}
    for rows in evidence.steps().values():
        for row in rows:
            if row["_seq"] in over:
                found.note("acked twice", [_short(row)])
            elif row["_state"] in _OVER:
                over[row["_seq"]] = row
    open_ = [row["_seq"] for row in evidence.entered() if row["_seq"] not in over]
    found.note("never over", map(str, open_))
    found.counts.update(Counter(row["_state"] for row in over.values()))


def _services(evidence: Evidence, found: Found) -> None:
    """Check by the tables that nobody took what was held, and that groups go in order."""
    held: dict[int, int] = {}
    groups: dict[str, list[int]] = defaultdict(list)
    for row in reversed(evidence.entered()):
        groups[row["_group_key"]].append(row["_seq"])
    for step, rows in evidence.steps().items():
        for row in sorted(rows, key=lambda row: int(row["_seq"])):
            seq, group = row["_seq"], row["_group_key"]
            if row["_state"] == "claimed":
                if held.get(seq, row["_lease"]) != row["_lease"]:
                    found.note("held twice", [_short(row)])
                held[seq] = row["_lease"]
            elif held.pop(seq, None) != row["_lease"] and not _came_back(row):
                found.note("settled by others", [_short(row)])
            if row["_state"] in _OVER and seq in groups[group]:
                groups[group].remove(seq)
        _in_groups(step, rows, groups, held, found)


def _in_groups(
    step: int,
    rows: list[Row],
    groups: Mapping[str, list[int]],
    held: Mapping[int, int],
    found: Found,
) -> None:
    """Check that what a step has leased of a group are its first items, and all that is held."""
    leased = defaultdict(set)
    for row in rows:
        if row["_state"] == "claimed" and row["_lease"] == step and row["_group_key"] is not None:
            leased[row["_group_key"]].add(row["_seq"])
    for group, seqs in leased.items():
        first = set(groups[group][-len(seqs) :])
        if seqs != first:
            found.note("out of order", [f"step {step}, group {group}: {seqs} before {first}"])
        both = {seq for seq in groups[group] if seq in held} - seqs
        if both:
            found.note("two of a group", [f"step {step}, group {group}: {seqs} beside {both}"])


def _late(evidence: Evidence, found: Found) -> None:
    """Check that a claim which began after a death left nothing with the dead."""
    lives = {line["name"]: line["life"] for line in evidence.told("life")}
    begun = _begun(evidence, "claim?", "claim")
    held: dict[int, str] = {}
    for step, rows in evidence.steps().items():
        since = begun.get(step, -math.inf)
        for seq, name in held.items():
            if evidence.deaths.get(lives.get(name, -1), math.inf) < since:
                found.note("kept by the dead", [f"item {seq} of {name} at claim {step}"])
        for row in rows:
            held.pop(row["_seq"], None)
            if row["_state"] == "claimed":
                held[row["_seq"]] = row["_worker_id"]
    back = [_came_back(row) for rows in evidence.steps().values() for row in rows]
    found.counts["came back"] = sum(back)


def _came_back(row: Row) -> bool:
    """Tell whether this is how an item comes back whose holder is gone."""
    return row["_state"] == "ready" and row["_lease"] is None and row["_losses"] > 0


def _begun(evidence: Evidence, asked: str, answered: str) -> dict[int, int]:
    """Return when the calls began that made steps, by step."""
    since: dict[int, int] = {}
    begun: dict[int, int] = {}
    for line in evidence.lines:
        if line["what"] == asked:
            since[line["life"]] = line["at"]
        elif line["what"] == answered and line.get("recovers", True):
            begun[line["step"]] = since[line["life"]]
    return begun


def _overlaps(evidence: Evidence, found: Found) -> None:
    """Check by the logs that no two held an item at the same time."""
    ends = {
        (line["lease"], int(seq)): line["at"]
        for line in evidence.told("settle?")
        for seq in line["said"]
    }
    spans = defaultdict(list)
    for line in evidence.told("claim"):
        dead = evidence.deaths.get(line["life"], math.inf)
        for seq in line["seqs"]:
            spans[seq].append((line["at"], ends.get((line["lease"], seq), dead)))
    for seq, held in spans.items():
        held.sort()
        for (_, end), (begin, _) in pairwise(held):
            if begin < end:
                found.note("held twice at a time", [f"item {seq}"])
    found.counts["leases told"] = sum(map(len, spans.values()))


def _numbers(evidence: Evidence, found: Found) -> None:
    """Check that steps have all numbers from one on, each with one head."""
    total = 0
    for name, rows in (("queue", evidence.items), ("status", evidence.moves)):
        heads = sorted(row["_step"] for row in rows if row["_kind"] == "head")
        if heads != list(range(1, len(heads) + 1)):
            missing = sorted(set(range(1, heads[-1] + 1)) - set(heads))
            twice = [step for step, n in Counter(heads).items() if n > 1]
            found.note("steps with gaps", [f"{name}: {missing} missing, {twice} twice"])
        loose = {row["_step"] for row in rows} - set(heads)
        found.note("steps with gaps", [f"{name}: rows of {step}" for step in sorted(loose)])
        total += len(heads)
    found.counts["steps"] = total


def _heads(evidence: Evidence, found: Found) -> None:
    """Check that the newest heads say what all rows come to."""
    items, status = (_newest(rows) for rows in (evidence.items, evidence.moves))
    refused = sum(row["_kind"] == "refused" for row in evidence.items)
    finished = Counter(
        row["_state"] for row in evidence.moves if row["_kind"] == "item" and row["_state"] in _OVER
    )
    for name, says, is_so in (
        ("items", items["items"], len(evidence.entered())),
        ("refused", items["refused"], refused),
        ("finished", dict(status["finished"]), dict(finished)),
        ("claimed", status["claimed"], 0),
    ):
        if says != is_so:
            found.note("heads wrong", [f"{name}: {says} instead of {is_so}"])
    found.counts["refused"] = refused


def _newest(rows: list[Row]) -> Row:
    heads = [row for row in rows if row["_kind"] == "head"]
    parsed: Row = json.loads(max(heads, key=lambda row: int(row["_step"]))["_body"])
    return parsed


def _puts(evidence: Evidence, found: Found) -> None:
    """Check that a step of the item log holds what the one who made it was told."""
    entries: dict[int, Counter[str]] = defaultdict(Counter)
    for row in evidence.items:
        entries[row["_step"]][row["_kind"]] += 1
    for line in evidence.told("put"):
        is_so = [entries[line["step"]][kind] for kind in ("item", "refused")]
        if is_so != [line["inserted"], line["duplicates"]]:
            found.note("told otherwise", [f"{line}: {is_so}"])


def _said(evidence: Evidence, found: Found) -> None:
    """Check the same of the status log, and that nobody was told what should not be."""
    states = {
        step: {row["_seq"]: (row["_state"], row["_lease"]) for row in rows}
        for step, rows in evidence.steps().items()
    }
    for line in evidence.told("claim"):
        at = states.get(line["step"], {})
        leased = {seq for seq, is_so in at.items() if is_so == ("claimed", line["step"])}
        if leased != set(line["seqs"]):
            found.note("told otherwise", [f"{line}: {leased}"])
    for line in evidence.told("settle"):
        at = states.get(line["step"], {})
        nothing = ("nothing", line["lease"])
        wrong = {
            seq: at.get(int(seq), nothing)
            for seq, said in line["said"].items()
            if not _agrees(said, line["lease"], *at.get(int(seq), nothing))
        }
        found.note("told otherwise", [f"{line}: {wrong}"] if wrong else [])
    found.note("lost by the living", (f"{line}" for line in evidence.told("lost")))
    found.note("raised", (f"life {it['life']}: {it['error']}" for it in evidence.told("raised")))


def _agrees(said: str, by: int, state: str, lease: int) -> bool:
    return state in _AFTER[said] and lease == by


_LAWS = (
    *(_entries, _outcomes, _services, *chaos_flow.LAWS, _late, _overlaps),
    *(_numbers, _heads, _puts, _said),
)


def _files(queue: Path, found: Found) -> None:
    """Check that no file is strange or missing, and count those that nobody names."""
    there = {str(path.relative_to(queue)) for path in queue.rglob("*") if path.is_file()}
    known, live = set(), set()
    for log in ("queue", "status"):
        table = DeltaTable(str(queue / log))
        live |= {f"{log}/{unquote(path)}" for path in _paths(table)}
        for commit in (queue / log / "_delta_log").glob("*.json"):
            adds = (json.loads(line).get("add") for line in commit.read_text().splitlines())
            known |= {f"{log}/{unquote(add['path'])}" for add in adds if add is not None}
    data = {path for path in there if _DATA.fullmatch(path)}
    half_made = {path for path in there if _HALF_MADE.fullmatch(path)}
    checksums = {path for path in there - half_made if _CHECKSUM.fullmatch(path)}
    rest = there - data - half_made - checksums
    strange = {path for path in rest if not _EXPECTED.fullmatch(path)}
    found.note("strange files", sorted(strange))
    found.note("left behind", sorted(data - known | half_made))
    found.note("files gone", sorted(live - there))
    found.counts.update(
        {
            "files": len(live),
            "files merged": len(known & data - live),
            "orphans": len(data - known),
            "orphans in bytes": sum((queue / path).stat().st_size for path in data - known),
            "commits half made": len(half_made),
            "checksums": len(checksums),
            "files of lives": sum(path.startswith("status/_lives/") for path in there),
            "checkpoints": sum(path.endswith(".checkpoint.parquet") for path in there),
        }
    )


def _paths(table: DeltaTable) -> list[str]:
    adds = table.get_add_actions(flatten=True)
    return [str(path) for path in adds["path"].to_pylist()]


def _rows(table: Path) -> list[Row]:
    rows: list[Row] = DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    return rows


def _lines(told: Path) -> list[Row]:
    parsed = (
        _parsed(line) for file in told.glob("*.jsonl") for line in file.read_text().splitlines()
    )
    return sorted((line for line in parsed if line is not None), key=lambda line: int(line["at"]))


def _parsed(line: str) -> Row | None:
    try:
        parsed: Row = json.loads(line)
    except json.JSONDecodeError:
        # The last line of one that was killed.
        return None
    return parsed


def _short(row: Row) -> str:
    names = ("_step", "_seq", "_state", "_lease", "_worker_id", "_group_key")
    return ", ".join(f"{name[1:]} {row[name]}" for name in names)
