// BullMQ in a trial of flow_peers.py: `node flow_bullmq.mjs JSON` puts jobs, or works them off.
import { Queue, Worker } from 'bullmq'

const trial = JSON.parse(process.argv[2])
const connection = { path: trial.redis, maxRetriesPerRequest: null }
const wait = seconds => new Promise(resolve => setTimeout(resolve, seconds * 1000))
const now = () => (performance.timeOrigin + performance.now()) / 1000

if (trial.verb === 'put') {
  const queue = new Queue(trial.queue, { connection })
  await queue.addBulk(Array.from({ length: trial.items }, () => ({ name: 'item', data: {} })))
  if (trial.limit) await queue.setGlobalConcurrency(trial.limit)
  process.exit()
}

const limiter = trial.rate && { max: trial.rate * trial.per, duration: trial.per * 1000 }
const worker = new Worker(trial.queue, async () => {
  const start = now()
  await wait(trial.handling)
  console.log(trial.keys[0], start, now())
}, { connection, concurrency: trial.hands, ...(limiter && { limiter }) })
worker.on('error', error => console.error(error))
await wait(trial.seconds)
process.exit()
