"""Disk after a power cut, as POSIX permits it: what was forced, and any of the rest."""

from __future__ import annotations

import hashlib
import random
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from power_trace import Effect

#: Bytes of a disk that are written together.
_SECTOR = 512


@dataclass(eq=False)
class Data:
    """Content of a file: what is on the disk, and what may be."""

    forced: bytes = b""
    pending: list[tuple[int, Effect]] = field(default_factory=list)
    """Writes, each with its number, that nobody has forced."""


@dataclass(eq=False)
class Folder:
    """Names in a directory: those on the disk, and changes that may be there."""

    forced: dict[str, Node] = field(default_factory=dict)
    live: dict[str, Node] = field(default_factory=dict)
    """What a program sees."""
    pending: list[tuple[int, dict[str, Node | None]]] = field(default_factory=list)


Node: TypeAlias = Data | Folder

#: Files by their path, each with its content; directories without one.
State: TypeAlias = dict[str, bytes | None]

#: Chooses which of some changes are on the disk.
Choice: TypeAlias = Callable[[int], Sequence[bool]]


class Disk:
    """One directory, as a program sees it and as a power cut may leave it.

    Parameters
    ----------
    root : Path
        The directory, with all that is in it now, which is on the disk.
    """

    def __init__(self, root: Path) -> None:
        self._root, self._top, self._number = str(root), _read(root), 0

    def apply(self, effect: Effect) -> None:
        """Do what a program did."""
        self._number += 1
        getattr(self, f"_{effect.kind}")(effect)

    def _make(self, effect: Effect) -> None:
        self._change(effect.path, Folder() if effect.other else Data())

    def _name(self, effect: Effect) -> None:
        self._change(effect.other, self._node(effect.path))

    def _remove(self, effect: Effect) -> None:
        self._change(effect.path, None)

    def _rename(self, effect: Effect) -> None:
        (old, name), (new, other) = self._place(effect.path), self._place(effect.other)
        node = old.live.pop(name)
        new.live[other] = node
        if old is new:
            old.pending.append((self._number, {name: None, other: node}))
            return
        new.pending.append((self._number, {other: node}))
        old.pending.append((self._number, {name: None}))

    def _write(self, effect: Effect) -> None:
        node = self._node(effect.path)
        assert isinstance(node, Data)  # noqa: S101 - for the type checker
        node.pending.append((self._number, effect))

    _cut = _write

    def _force(self, effect: Effect) -> None:
        node = self._node(effect.path)
        count = sum(number <= effect.begun for number, _ in node.pending)
        if isinstance(node, Data):
            node.forced = _written(node.forced, [write for _, write in node.pending[:count]])
        else:
            node.forced = _named(node.forced, [names for _, names in node.pending[:count]])
        del node.pending[:count]

    def _tell(self, effect: Effect) -> None:
        del effect

    def _change(self, path: str, node: Node | None) -> None:
        folder, name = self._place(path)
        if node is None:
            folder.live.pop(name, None)
        else:
            folder.live[name] = node
        folder.pending.append((self._number, {name: node}))

    def _place(self, path: str) -> tuple[Folder, str]:
        above, _, name = path.rpartition("/")
        folder = self._node(above)
        assert isinstance(folder, Folder)  # noqa: S101 - for the type checker
        return folder, name

    def _node(self, path: str) -> Node:
        node: Node = self._top
        for name in path.removeprefix(self._root).strip("/").split("/"):
            if name:
                assert isinstance(node, Folder)  # noqa: S101 - for the type checker
                node = node.live[name]
        return node

    def states(self, rng: random.Random, draws: int) -> Iterator[tuple[str, State]]:
        """Return disks that a power cut may leave now, each with the kind that it is.

        Nothing but what was forced; all names and no other content; all names, and zeros as long as
        the files were; everything; and drawn ones.
        """
        yield "forced", _seen(self._top, _none, _none_of)
        yield "names", _seen(self._top, _all, _none_of)
        yield "zeros", _seen(self._top, _all, _zeros)
        yield "all", _seen(self._top, _all, _all_of)
        for _ in range(draws):
            odds = rng.choice((0.2, 0.5, 0.8))
            yield "drawn", _seen(self._top, _drawn(rng, odds), _torn(rng, odds))


def lay(state: State, root: Path) -> None:
    """Put files and directories in the place of those that are there."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    for path, data in state.items():
        if data is None:
            (root / path).mkdir()
        else:
            (root / path).write_bytes(data)


def mark_of(state: State) -> bytes:
    """Return what tells a state from others: locks are not part of it."""
    mark = hashlib.sha256()
    for path, data in sorted(state.items()):
        if not path.rpartition("/")[2].startswith("_writer") and "_lives/" not in path:
            mark.update(repr((path, data)).encode())
    return mark.digest()


def _read(path: Path) -> Node:
    if not path.is_dir():
        return Data(path.read_bytes())
    names = {below.name: _read(below) for below in path.iterdir()}
    return Folder(forced=dict(names), live=names)


def _seen(top: Node, choose: Choice, fill: Callable[[Data], bytes]) -> State:
    found: State = {}
    content: dict[Data, bytes] = {}

    def look(folder: Folder, above: str) -> None:
        changes = zip(choose(len(folder.pending)), folder.pending, strict=True)
        chosen = [names for is_there, (_, names) in changes if is_there]
        for name, node in _named(folder.forced, chosen).items():
            path = above + name
            if isinstance(node, Folder):
                found[path] = None
                look(node, f"{path}/")
            else:
                if node not in content:
                    content[node] = fill(node)
                found[path] = content[node]

    assert isinstance(top, Folder)  # noqa: S101 - for the type checker
    look(top, "")
    return found


def _named(names: Mapping[str, Node], changes: Sequence[dict[str, Node | None]]) -> dict[str, Node]:
    found: dict[str, Node | None] = dict(names)
    for change in changes:
        found.update(change)
    return {name: node for name, node in found.items() if node is not None}


def _written(data: bytes, writes: Sequence[Effect]) -> bytes:
    content = bytearray(data)
    for write in writes:
        end = write.at + len(write.data)
        if write.kind == "cut":
            del content[write.at :]
        content.extend(bytes(max(0, end - len(content))))
        content[write.at : end] = write.data
    return bytes(content)


def _none(count: int) -> Sequence[bool]:
    return [False] * count


def _all(count: int) -> Sequence[bool]:
    return [True] * count


def _drawn(rng: random.Random, odds: float) -> Choice:
    return lambda count: [rng.random() < odds for _ in range(count)]


def _none_of(file: Data) -> bytes:
    return file.forced


def _all_of(file: Data) -> bytes:
    return _written(file.forced, [write for _, write in file.pending])


def _zeros(file: Data) -> bytes:
    return file.forced.ljust(len(_all_of(file)), b"\0")


def _torn(rng: random.Random, odds: float) -> Callable[[Data], bytes]:
    """Return some of a file's writes, in whole or in part; what lies between them is zeros."""

    def fill(file: Data) -> bytes:
        writes = []
        for _, write in file.pending:
            if rng.random() < odds:
                whole = len(write.data) // _SECTOR
                kept = rng.choice((len(write.data), rng.randint(0, whole) * _SECTOR))
                writes.append(Effect(write.kind, write.path, data=write.data[:kept], at=write.at))
        return _written(file.forced, writes)

    return fill
