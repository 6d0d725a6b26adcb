#!/usr/bin/env bash
# fsspec 2026.9.0: of calls of pipe_file(path, content, mode="create") that meet on a local disk, several
# succeed; put_file(…, mode="create") overwrites there without any meeting.
#
# Done: eight threads create one file, 200 times, by pipe_file(mode="create"), and by open(path, "xb").
# Then one put_file(mode="create") after another, on a local disk and in the memory file system.
# Expected: one winner each time, and FileExistsError for the others: "create" is one conditional request
# in s3fs, and the operating system has such a call for files. That is what a lock or a log of numbered
# files asks for.
# Instead: in tens of the 200 rounds several are told that they created the file, and all but one
# content is lost. LocalFileSystem has the general way: it looks whether the file is there, and then
# writes. Its put_file knows no mode: the second call overwrites; the memory file system refuses it.
# "xb" has one winner each time.
# Documented in a comment of the source alone ("non-atomic but simple way").
# Way out: open(path, "xb"), which s3fs takes, too.
set -euo pipefail

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
python3 -m venv "$place/env"
"$place/env/bin/pip" install --quiet "fsspec==2026.9.0"

cat > look.py <<'PY'
import os
import threading
from pathlib import Path

import fsspec

files = fsspec.filesystem("file")


def by_pipe(path, content):
    files.pipe_file(path, content, mode="create")


def by_open(path, content):
    with files.open(path, "xb") as file:
        file.write(content)


def winners(create, path):
    start, won = threading.Barrier(8), []

    def run(number):
        start.wait()
        try:
            create(path, b"%d" % number)
        except FileExistsError:
            return
        won.append(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(won)


def put_twice(files, path):
    for content in (b"one", b"two"):
        Path("source").write_bytes(content)
        try:
            files.put_file("source", path, mode="create")
        except FileExistsError:
            return "refused"
    return files.cat_file(path).decode()


here = os.getcwd()
for create in (by_pipe, by_open):
    several = sum(winners(create, f"{here}/{create.__name__}{n}") > 1 for n in range(200))
    print(f"{create.__name__}: several winners {'often' if several > 3 else several}")
print("put_file on disk:", put_twice(files, f"{here}/put"))
print("put_file in memory:", put_twice(fsspec.filesystem("memory"), "/put"))
PY

said=$("$place/env/bin/python" look.py 2> log) || { cat log; exit 1; }
printf '%s\n' "$said"

grep -q "^by_pipe: several winners often$" <<< "$said"
grep -q "^by_open: several winners 0$" <<< "$said"
grep -q "^put_file on disk: two$" <<< "$said"
grep -q "^put_file in memory: refused$" <<< "$said"
