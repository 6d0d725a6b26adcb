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
