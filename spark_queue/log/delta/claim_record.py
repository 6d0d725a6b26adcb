"""Record of the outcomes of a claim, in the commit of its output."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from spark_queue.log.delta.commits import commit_path, newest_version
from spark_queue.log.delta.integrity import naming, read_actions
from spark_queue.saying import Said

_DONE = Said("ack")

#: Characters that the errors of a claim take in a record, and that one error takes at least.
_ROOM, _LEAST = 1_000_000, 40


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRecord:
    """Outcomes of the items of a claim that have no row in its output.

    The rows of the claim and the record are in the same commit.
    """

    claim_id: str
    outcomes: Mapping[int, Said]
    """Outcomes by seq. Items that are done may be left out if :attr:`is_whole`."""
    is_whole: bool
    """Whether the handler's run has an outcome for every item of the claim."""
    part: int | None = None
    """Which part of the claim is in the commit; ``None`` for the last one, which may be all."""

    def is_all_done(self) -> bool:
        """Tell whether each item of the claim is done."""
        return self.is_whole and not self.outcomes

    def text(self) -> str:
        """Return the record as the metadata of a commit."""
        seqs: dict[Said, list[int]] = {}
        for seq in sorted(self.outcomes):
            seqs.setdefault(self.outcomes[seq], []).append(seq)
        listed = [[*_plain(outcome), _ranges(found)] for outcome, found in seqs.items()]
        record: dict[str, Any] = {"claim": self.claim_id, "whole": self.is_whole}
        record |= {"outcomes": listed} | ({} if self.part is None else {"part": self.part})
        return json.dumps(record, separators=(",", ":"), ensure_ascii=False)


def read_record(text: str | None, claim_id: str) -> ClaimRecord | None:
    """Return the record of a claim in the metadata of a commit; ``None`` where there is none.

    Commits of earlier releases have none.
    """
    try:
        record = json.loads(text or "")
        if record["claim"] != claim_id:
            return None
        outcomes = {
            seq: Said(outcome, error, _from_seconds(*after))
            for outcome, error, *after, ranges in record["outcomes"]
            for seq in _seqs(ranges)
        }
        return ClaimRecord(
            claim_id=claim_id,
            outcomes=outcomes,
            is_whole=bool(record["whole"]),
            part=record.get("part"),
        )
    except (ValueError, LookupError, TypeError):
        return None


def _plain(said: Said) -> list[object]:
    """Return an outcome and its error, and the seconds that its item waits, if it says so.

    Who reads it takes the items over, and is too late to pause a key.
    """
    return [*said[:2], *(one.total_seconds() for one in said[2:3] if one is not None)]


def _from_seconds(after: float | None = None) -> timedelta | None:
    return None if after is None else timedelta(seconds=after)


def find_record(
    directory: Path, claim_id: str, bring: Callable[[int], None] | None = None
) -> ClaimRecord | None:
    """Return the record of a claim from the newest commits of a table on this machine's disk.

    Of a copy that begins with a checkpoint, older commits are brought first.
    """
    newest = newest_version(directory, None)
    for version in range(-1 if newest is None else newest, -1, -1):
        if bring is not None:
            bring(version)
        # Where there is none, a checkpoint of the log has summed up what is older.
        if (text := _read(directory, version)) is None:
            break
        infos = (action.get("commitInfo", {}) for action in _actions(text, claim_id))
        for info in infos:
            if (record := read_record(info.get("userMetadata"), claim_id)) is not None:
                return record
    return None


def newest_commit(directory: Path | None) -> int:
    """Return the newest version of a table on this machine's disk; -1 where there is none."""
    newest = None if directory is None else newest_version(directory, None)
    return -1 if newest is None else newest


def is_unnamed(directory: Path, claim_id: str, since: int) -> bool:
    """Tell whether surely no commit later than a version names a claim."""
    if not (claim_id.isascii() and claim_id.isalnum()):
        # It may be written in another way.
        return False
    texts = (_read(directory, v) for v in range(since + 1, newest_commit(directory) + 1))
    return all(text is not None and claim_id not in text for text in texts)


def _read(directory: Path, version: int) -> str | None:
    """Return the text of a commit; ``None`` where it is gone."""
    commit = commit_path(directory, version)
    try:
        with naming(commit):
            return commit.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def _actions(text: str, claim_id: str) -> list[dict[str, Any]]:
    """Return the actions of a commit that names a claim."""
    return read_actions(text) if claim_id in text else []


def outcomes_of(
    seqs: Iterable[int], rows: Collection[int], record: ClaimRecord | None, otherwise: Said
) -> dict[int, Said]:
    """Return the outcomes of items of a claim, as its output has them.

    Parameters
    ----------
    seqs : iterable of int
        The items that are still claimed.
    rows : collection of int
        Items with a row in the output.
    record : ClaimRecord, optional
        The record in the commit of these rows.
    otherwise : Said
        The outcome of an item of which the output says nothing.
    """
    recorded = {} if record is None else record.outcomes
    others = _DONE if record is not None and record.is_whole else otherwise
    return {seq: _DONE if seq in rows else recorded.get(seq, others) for seq in sorted(seqs)}


def error_room(count: int) -> int:
    """Return how many characters of an error are recorded where a claim has so many."""
    return max(_LEAST, _ROOM // max(count, 1))


def _ranges(seqs: Iterable[int]) -> str:
    """Return ascending seqs as a text like ``1-5,9``."""
    found: list[list[int]] = []
    for seq in seqs:
        if found and found[-1][1] == seq - 1:
            found[-1][1] = seq
        else:
            found.append([seq, seq])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in found)


def _seqs(ranges: str) -> Iterable[int]:
    for part in filter(None, ranges.split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)
