"""System calls of a program on one directory, recorded by strace."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_CALLS = (
    "openat,open,creat,write,pwrite64,writev,pwritev,pwritev2,lseek,close,dup,dup2,dup3,fcntl,mmap,"
    "ftruncate,truncate,fallocate,copy_file_range,sendfile,fsync,fdatasync,sync,syncfs,"
    "mkdir,mkdirat,rmdir,link,linkat,symlink,symlinkat,unlink,unlinkat,rename,renameat,renameat2"
)

#: Bytes of a text that strace prints.
_LONGEST = 1 << 24

_LINE = re.compile(r"(?P<task>\d+)\s+(?P<rest>.*)")
_RESUMED = re.compile(r"<\.\.\. \w+ resumed>(?P<rest>.*)")
_WHOLE = re.compile(r"(?P<name>\w+)\((?P<given>.*)\)\s+= (?P<result>-?\d+)(?P<more>.*)")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_FILE = re.compile(r"(?P<number>\w+)<(?P<path>(?:\\x[0-9a-f]{2})*)>")

_UNFINISHED = " <unfinished ...>"


@dataclass(frozen=True, slots=True)
class Effect:
    """What one call has done to the files of the directory."""

    kind: str
    """``make``, ``name``, ``remove``, ``rename``, ``write``, ``cut``, ``force``, ``tell``."""
    path: str = ""
    other: str = ""
    """The second path of a link or a rename; for a directory that is made ``directory``."""
    data: bytes = b""
    at: int = 0
    """Where the data lie; for ``cut`` the new length."""
    begun: int = 0
    """How many effects there were when the call began: it forces no later ones."""


@dataclass
class _Open:
    """An open file."""

    at: int = 0
    appends: bool = False


@dataclass
class _Reader:
    root: str
    told: str
    effects: list[Effect] = field(default_factory=list)
    open: dict[str, _Open] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    def read(self, name: str, given: str, result: int, more: str, begun: int) -> None:
        """Note the effect of a call that has succeeded."""
        texts, files = list(map(_bytes, _TEXT.findall(given))), list(_FILE.finditer(given))
        paths = [text.decode(errors="replace") for text in texts]
        if name in ("openat", "open", "creat"):
            self._opened(paths[0], given, str(result), more)
        elif name in ("dup", "dup2", "dup3") or "F_DUPFD" in given:
            self.open[str(result)] = self.open.get(files[0]["number"], _Open())
        elif name == "lseek":
            self.open.setdefault(files[0]["number"], _Open()).at = result
        elif name.startswith(("mkdir", "link", "rename", "unlink", "rmdir")):
            self._named(name, paths, files)
        elif files:
            self._on_file(name, files[0], given, texts, result, begun)

    def _named(self, name: str, paths: Sequence[str], files: Sequence[re.Match[str]]) -> None:
        if name.startswith("mkdir"):
            self._add(Effect("make", paths[0], "directory"))
        elif name.startswith("rename"):
            self._add(Effect("rename", paths[0], paths[1]))
        elif name.startswith("link"):
            self._add(Effect("name", paths[0], paths[1]))
        else:
            self._add(Effect("remove", self._beside(paths[0], files)))

    def _opened(self, path: str, given: str, number: str, more: str) -> None:
        place = _FILE.search(f"{number}{more}")
        path = path if place is None else _path(place["path"])
        self.open[number] = _Open(appends="O_APPEND" in given)
        if (
            path == self.told
            or not self._is_ours(path)
            or "O_RDONLY" in given
            or "O_DIRECTORY" in given
        ):
            return
        if path not in self.sizes and "O_CREAT" in given:
            self.sizes[path] = 0
            self._add(Effect("make", path))
        if "O_TRUNC" in given:
            self._add(Effect("cut", path, at=0))

    def _on_file(
        self,
        name: str,
        file: re.Match[str],
        given: str,
        texts: Sequence[bytes],
        result: int,
        begun: int,
    ) -> None:
        path = _path(file["path"])
        if not self._is_ours(path) or name == "close":
            return
        opened = self.open.setdefault(file["number"], _Open())
        if name in ("fsync", "fdatasync"):
            self._add(Effect("force", path, begun=begun))
        elif name in ("write", "pwrite64"):
            place = int(given.rsplit(", ", 1)[1]) if name == "pwrite64" else opened.at
            self._write(path, texts[0][:result], None if opened.appends else place)
            opened.at += result if name == "write" else 0
        elif name == "ftruncate":
            self._add(Effect("cut", path, at=int(given.rsplit(", ", 1)[1])))
        elif name not in ("mmap", "fcntl") or ("PROT_WRITE" in given and "MAP_SHARED" in given):
            raise NotImplementedError(f"{name} of {path}")

    def _write(self, path: str, data: bytes, at: int | None) -> None:
        if path == self.told:
            self._add(Effect("tell", data=data))
            return
        at = self.sizes.get(path, 0) if at is None else at
        self._add(Effect("write", path, data=data, at=at))

    def _add(self, effect: Effect) -> None:
        if effect.kind != "tell" and not self._is_ours(effect.path):
            return
        if effect.kind == "write":
            end = effect.at + len(effect.data)
            self.sizes[effect.path] = max(self.sizes.get(effect.path, 0), end)
        elif effect.kind == "cut":
            self.sizes[effect.path] = effect.at
        elif effect.kind in ("rename", "name"):
            moved = [path for path in self.sizes if f"{path}/".startswith(f"{effect.path}/")]
            for path in moved:
                self.sizes[effect.other + path.removeprefix(effect.path)] = self.sizes[path]
        if effect.kind in ("rename", "remove"):
            for path in [path for path in self.sizes if f"{path}/".startswith(f"{effect.path}/")]:
                del self.sizes[path]
        self.effects.append(effect)

    def _is_ours(self, path: str) -> bool:
        return path in (self.told, self.root) or path.startswith(f"{self.root}/")

    @staticmethod
    def _beside(path: str, files: Sequence[re.Match[str]]) -> str:
        """Return the path of what is named from an open directory."""
        return path if path.startswith("/") or not files else f"{_path(files[0]['path'])}/{path}"


def record(command: Sequence[str], root: Path, told: Path) -> list[Effect]:
    """Run a program, and return what it has done beneath a directory, in the order of its calls.

    Parameters
    ----------
    command : sequence of str
        The program, which starts no other one.
    root : Path
        The directory.
    told : Path
        A file outside; what is written to it is what the program tells.
    """
    trace = told.with_suffix(".trace")
    sizes = {str(path): path.stat().st_size for path in root.rglob("*") if path.is_file()}
    looking = ("strace", "-f", "-qq", "-y", "-xx", "-s", str(_LONGEST), "-e", f"trace={_CALLS}")
    subprocess.run((*looking, "-o", str(trace), *command), check=True)  # noqa: S603 - our own
    return effects_of(trace, root, told, sizes)


def effects_of(trace: Path, root: Path, told: Path, sizes: Mapping[str, int]) -> list[Effect]:
    """Return the effects that a trace tells of; ``sizes`` are those of the files before it."""
    reader = _Reader(str(root), str(told), sizes=dict(sizes))
    begun: dict[str, tuple[str, int]] = {}
    with trace.open(encoding="ascii", errors="replace") as lines:
        for line in lines:
            found = _LINE.match(line.rstrip("\n"))
            if found is None:
                continue
            task, rest = found["task"], found["rest"]
            if rest.endswith(_UNFINISHED):
                begun[task] = (rest.removesuffix(_UNFINISHED), len(reader.effects))
                continue
            resumed, since = _RESUMED.match(rest), len(reader.effects)
            if resumed is not None and task in begun:
                head, since = begun.pop(task)
                rest = head + resumed["rest"]
            call = _WHOLE.match(rest)
            if call is not None and int(call["result"]) >= 0:
                reader.read(call["name"], call["given"], int(call["result"]), call["more"], since)
    return reader.effects


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def _path(text: str) -> str:
    return _bytes(text).decode(errors="replace")
