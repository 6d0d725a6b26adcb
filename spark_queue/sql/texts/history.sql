-- Transitions of items, and steps of operators.
-- Uses: status.
-- Tables: asked, configs, items, rejected, states.

-- deferred(seq, step)
-- The transitions by which holders deferred items that are ready again.
SELECT d.seq, d.step
FROM (
  SELECT
    s.seq, s.step, s.state, s.deferrals,
    lag(s.deferrals) OVER (PARTITION BY s.seq ORDER BY s.step) AS deferrals_before
  FROM sq_states s
  WHERE s.kind = 'item' AND s.deferrals > 0
) d
WHERE d.state = 'ready' AND d.deferrals > coalesce(d.deferrals_before, 0)

-- transitions(seq, step, at instant, state, attempts, losses, deferrals, lease, claim_id, worker_id, lease_expires_at instant, available_at instant, error, granted, failed)
-- The transitions of items, by their own rows and the renewals of the leases that these have: `granted`
-- is one by which a claim got it, `failed` one with an error that it is ready again after, or dead, and
-- no deferral.
-- rule again: renewal of a lease
SELECT
  h.seq, h.step, h.at, h.state, h.attempts, h.losses, coalesce(h.deferrals, 0) AS deferrals, h.lease,
  h.claim_id, h.worker_id, h.lease_expires_at, h.available_at, h.error,
  coalesce(h.state = 'claimed' AND h.lease = h.step, false) AS granted,
  h.error IS NOT NULL AND h.state IN ('ready', 'dead') AND d.seq IS NULL AS failed
FROM sq_states h
LEFT JOIN sq_deferred d ON h.seq = d.seq AND h.step = d.step
WHERE h.kind = 'item'
UNION ALL
SELECT
  h.seq, r.step, r.at, h.state, h.attempts, h.losses, coalesce(h.deferrals, 0), h.lease, h.claim_id,
  h.worker_id, r.lease_expires_at, h.available_at, h.error, false, false
FROM sq_states r
JOIN sq_states h
  ON h.lease = r.lease AND h.step < r.step AND h.kind = 'item' AND h.state = 'claimed'
WHERE
  r.kind = 'renewal'
  AND NOT EXISTS (
    SELECT /*+ MERGE(n) */ 1
    FROM sq_states n
    WHERE n.seq = h.seq AND n.step > h.step AND n.step < r.step AND n.kind = 'item'
  )

-- history(log, seq, step, at instant, state, duplicate_of, origin, attempts, losses, deferrals, lease, claim_id, worker_id, lease_expires_at instant, available_at instant, error)
-- How items entered or were refused, and every transition since, of each the oldest first.
SELECT
  'queue' AS log, i.seq, i.step, i.enqueued_at AS at, 'ready' AS state, i.duplicate_of, i.origin,
  cast(NULL AS int) AS attempts, cast(NULL AS int) AS losses, cast(NULL AS int) AS deferrals, cast(NULL AS bigint) AS lease,
  cast(NULL AS string) AS claim_id, cast(NULL AS string) AS worker_id,
  cast(NULL AS bigint) AS lease_expires_at, cast(NULL AS bigint) AS available_at,
  cast(NULL AS string) AS error
FROM sq_items i
UNION ALL
SELECT
  'queue', r.seq, r.step, r.enqueued_at, 'refused', r.duplicate_of, r.origin, NULL, NULL, NULL,
  NULL, NULL, NULL, NULL, NULL, NULL
FROM sq_rejected r
UNION ALL
SELECT
  'status', t.seq, t.step, t.at, t.state, NULL, NULL, t.attempts, t.losses, t.deferrals, t.lease,
  t.claim_id, t.worker_id, t.lease_expires_at, t.available_at, t.error
FROM sq_transitions t
ORDER BY seq, log, step

-- service_times(seq, worker_id, ended_at instant, acked, seconds)
-- For how long items were worked on in the window: from their claim to its settle, by an ack or a failure.
-- What was given back, or lost, was not.
SELECT
  g.seq,
  g.worker_id,
  t.at AS ended_at,
  t.state = 'acked' AS acked,
  (t.at - g.at) / 1e6 AS seconds
FROM sq_transitions t
JOIN sq_transitions g ON g.seq = t.seq AND g.lease = t.lease AND g.granted
CROSS JOIN sq_asked a
WHERE t.at > a.since AND t.step > g.step AND t.losses = g.losses AND (t.state = 'acked' OR t.failed)

-- settings_changes(step, moment instant, who, settings)
-- The settings in the order in which they came into force, and who set them.
SELECT c.step, c.at AS moment, c.worker_id AS who, c.body AS settings
FROM sq_configs c
ORDER BY c.step

-- steps(log, step, moment instant, action, who, items, undone, settings, settings_before, record)
-- What operators did, newest first. Of settings the row has all of them, and those before; `who` is
-- there where the row of the step names somebody; of a redrive or an undo a row of settings may do,
-- which has its step. `undone` is the step that was taken back. What took items away has a `record` of the
-- steps before, whose rows may be gone.
WITH configured AS (
  SELECT
    step,
    q.at AS moment,
    worker_id AS who,
    error AS about,
    cast(nullif(split_part(error, ' ', 2), '') AS bigint) AS undone,
    body AS settings,
    lag(body) OVER (ORDER BY step) AS settings_before
  FROM sq_configs q
),
ended AS (
  SELECT DISTINCT seq FROM sq_transitions WHERE state IN ('dead', 'expired', 'cancelled')
),
moved AS (
  SELECT
    m.step,
    m.at AS moment,
    m.state,
    m.worker_id,
    m.error,
    lag(m.state) OVER (PARTITION BY m.seq ORDER BY m.step) AS state_before
  FROM sq_transitions m
  JOIN ended e ON e.seq = m.seq
)
SELECT
  'status' AS log,
  step,
  moment,
  CASE
    WHEN about LIKE 'purge %' THEN 'purged'
    WHEN about LIKE 'retention %' THEN 'dropped'
    ELSE 'configured'
  END AS action,
  who,
  CASE WHEN about LIKE 'purge %' OR about LIKE 'retention %' THEN undone ELSE 0 END AS items,
  CASE WHEN about = concat('undo ', cast(undone AS string)) THEN undone END AS undone,
  settings,
  settings_before,
  CASE WHEN about LIKE 'purge %' OR about LIKE 'retention %' THEN about END AS record
FROM configured
UNION ALL
SELECT 'status', step, max(moment), 'cancelled', max(worker_id), count(*), NULL, NULL, NULL, NULL
FROM moved
WHERE state = 'cancelled' AND error IS NULL
GROUP BY step
UNION ALL
SELECT
  'status',
  m.step,
  max(m.moment),
  CASE WHEN max(c.undone) IS NULL THEN 'redriven' ELSE 'undone' END,
  coalesce(max(m.worker_id), max(c.who)),
  count(*),
  max(c.undone),
  NULL,
  NULL,
  NULL
FROM moved m
LEFT JOIN configured c ON c.about LIKE concat('undo % by status ', cast(m.step AS string))
WHERE m.state = 'ready' AND m.state_before IN ('cancelled', 'dead', 'expired')
GROUP BY m.step
UNION ALL
SELECT
  'queue',
  i.step,
  coalesce(max(c.moment), max(i.enqueued_at)),
  CASE WHEN max(c.undone) IS NULL THEN 'redriven' ELSE 'undone' END,
  max(c.who),
  count(*),
  max(c.undone),
  NULL,
  NULL,
  NULL
FROM sq_status i
LEFT JOIN configured c
  ON c.about = cast(i.step AS string)
  OR c.about LIKE concat('undo % by queue ', cast(i.step AS string))
WHERE i.origin IS NOT NULL
GROUP BY i.step
ORDER BY moment DESC, step DESC
LIMIT 100
