// pg-boss in a trial of flow_peers.py: `node flow_pgboss.mjs JSON` puts jobs, or works them off.
import { PgBoss } from 'pg-boss'

const trial = JSON.parse(process.argv[2])
const boss = new PgBoss({
  host: trial.socket, user: 'postgres', database: 'postgres', supervise: false, schedule: false
})
boss.on('error', error => console.error(error))
const wait = seconds => new Promise(resolve => setTimeout(resolve, seconds * 1000))
const now = () => (performance.timeOrigin + performance.now()) / 1000

await boss.start()
if (trial.verb === 'put') {
  await boss.createQueue(trial.queue)
  const rows = Array.from({ length: trial.items }, (_, n) => trial.keys[n % trial.keys.length])
  await boss.insert(trial.queue, rows.map(key => ({ data: { key }, group: { id: key } })))
  process.exit()
}

const until = now() + trial.seconds
const handle = async job => {
  const start = now()
  await wait(trial.handling)
  console.log(job.data.key, start, now())
}

if (trial.how === 'work') {
  const options = { localConcurrency: trial.hands, groupConcurrency: trial.limit, pollingIntervalSeconds: 0.5 }
  await boss.work(trial.queue, options, ([job]) => handle(job))
  await wait(trial.seconds)
} else {
  const hand = async () => {
    while (now() < until) {
      const [job] = await boss.fetch(trial.queue, { groupConcurrency: trial.limit })
      if (job === undefined) await wait(0.02)
      else await handle(job).then(() => boss.complete(trial.queue, job))
    }
  }
  await Promise.all(Array.from({ length: trial.hands }, hand))
}
process.exit()
