-- Panels of a report: errors, retries, and the list of items.
-- Uses: log, status, history, standing.
-- Tables: asked.

-- failures(seq, step, at instant, attempts, said)
-- Every failure, with the begin of what its error says; all digits are 0 there, so that there are
-- few of them.
SELECT
  seq,
  step,
  m.at,
  attempts,
  translate(substr(split_part(error, chr(10), 1), 1, 300), '0123456789', '0000000000') AS said
FROM sq_transitions m
WHERE failed

-- wordings(said, wording)
-- What errors say without what differs from item to item: ids, paths and numbers. `said` is as in
-- `sq_failures`.
WITH distinct_texts AS (
  SELECT DISTINCT said FROM sq_failures
),
without_ids AS (
  SELECT
    said AS whole,
    regexp_replace(
      regexp_replace(
        said,
        '[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}',
        '<id>'
      ),
      '0[xX][0-9a-fA-F]+',
      '<id>'
    ) AS said
  FROM distinct_texts
),
without_paths AS (
  SELECT
    whole,
    regexp_replace(
      said,
      '(^|[^0-9A-Za-z<])(([A-Za-z][0-9A-Za-z]*:/)?/[^/ ",;:()<>' || chr(39) || ']+)+/?',
      '$1<path>'
    ) AS said
  FROM without_ids
),
without_hex AS (
  SELECT
    whole,
    regexp_replace(
      said,
      '(^|[^0-9A-Za-z])(([0-9]+[a-fA-F]|[a-fA-F]+[0-9])[0-9a-fA-F]{3,}|[0-9]*[a-fA-F][0-9a-fA-F]{11,})',
      '$1<id>'
    ) AS said
  FROM without_paths
)
SELECT
  whole AS said,
  regexp_replace(said, '[0-9]+([.][0-9]+)?', '<n>') AS wording
FROM without_hex

-- errors(wording, failures, in_window, items, attempts, dead, dead_in_window, first_at instant, last_at instant, first_seq, last_seq, newest_seq, sample, wordings)
-- What fails, by what the error says: how often, in the window and ever, since when, for how many
-- items. `dead` are those that it ended and that were not redriven; `first_seq`, `last_seq` and
-- `newest_seq` are items to look at, `sample` is what the newest failed with.
WITH worded AS (
  SELECT w.wording, f.seq, f.step, f.at, f.attempts
  FROM sq_failures f
  JOIN sq_wordings w ON w.said = f.said
),
grouped AS (
  SELECT
    f.wording,
    count(*) AS failures,
    count(CASE WHEN f.at > a.since THEN 1 END) AS in_window,
    count(DISTINCT f.seq) AS items,
    max(f.attempts) AS attempts,
    min(f.at) AS first_at,
    max(f.at) AS last_at,
    min(f.seq) AS first_seq,
    max(f.seq) AS last_seq,
    max(f.step) AS last_step
  FROM worded f
  CROSS JOIN sq_asked a
  GROUP BY f.wording
),
newest AS (
  SELECT g.wording, g.last_step AS step, max(f.seq) AS seq
  FROM grouped g
  JOIN worded f ON f.wording = g.wording AND f.step = g.last_step
  GROUP BY g.wording, g.last_step
),
ended AS (
  SELECT
    f.wording,
    count(*) AS dead,
    count(CASE WHEN s.finished_at > a.since THEN 1 END) AS dead_in_window
  FROM sq_status s
  JOIN worded f ON f.seq = s.seq AND f.step = s.failed_step
  LEFT JOIN sq_successors r ON r.origin = s.seq
  CROSS JOIN sq_asked a
  WHERE s.state = 'dead' AND r.origin IS NULL
  GROUP BY f.wording
)
SELECT
  g.wording,
  g.failures,
  g.in_window,
  g.items,
  g.attempts,
  coalesce(e.dead, 0) AS dead,
  coalesce(e.dead_in_window, 0) AS dead_in_window,
  g.first_at,
  g.last_at,
  g.first_seq,
  g.last_seq,
  n.seq AS newest_seq,
  m.error AS sample,
  count(*) OVER () AS wordings
FROM grouped g
JOIN newest n ON n.wording = g.wording
JOIN sq_transitions m ON m.seq = n.seq AND m.step = n.step
LEFT JOIN ended e ON e.wording = g.wording
ORDER BY g.in_window DESC, g.failures DESC, g.wording
LIMIT 100

-- retries(moment instant, failures, dead, claimed, claimed_again, replaced)
-- The window in sixty parts, of a minute each where it is an hour: failures, what of them was final,
-- what was claimed, what of that had failed or been lost before, and what others of its key replaced.
WITH parts AS (
  SELECT 10 * a.n + b.n AS part
  FROM (VALUES (0), (1), (2), (3), (4), (5)) AS a(n)
  CROSS JOIN (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) AS b(n)
),
asked AS (
  SELECT
    since,
    (now - since) / 60e0 AS part_us
  FROM sq_asked
),
placed AS (
  SELECT
    least(59, cast(floor((m.at - a.since) / a.part_us) AS bigint)) AS part,
    m.failed,
    m.granted,
    m.state,
    m.attempts + m.losses + m.deferrals > 0 AS again,
    m.state = 'cancelled' AND coalesce(m.error LIKE 'replaced by %', false) AS replaced
  FROM sq_transitions m
  CROSS JOIN asked a
  WHERE m.at > a.since AND (m.failed OR m.granted OR m.state = 'cancelled')
),
counted AS (
  SELECT
    part,
    count(CASE WHEN failed THEN 1 END) AS failures,
    count(CASE WHEN failed AND state = 'dead' THEN 1 END) AS dead,
    count(CASE WHEN granted THEN 1 END) AS claimed,
    count(CASE WHEN granted AND again THEN 1 END) AS claimed_again,
    count(CASE WHEN replaced THEN 1 END) AS replaced
  FROM placed
  GROUP BY part
)
SELECT
  cast(a.since + p.part * a.part_us AS bigint) AS moment,
  coalesce(c.failures, 0) AS failures,
  coalesce(c.dead, 0) AS dead,
  coalesce(c.claimed, 0) AS claimed,
  coalesce(c.claimed_again, 0) AS claimed_again,
  coalesce(c.replaced, 0) AS replaced
FROM parts p
CROSS JOIN asked a
LEFT JOIN counted c ON c.part = p.part
ORDER BY moment

-- listed(seq, state, why, since instant, attempts, losses, deferrals, dedup_key, fair_key, group_key, worker_id, held_until instant, error, tenant_id, group_id, error_id)
-- The items with what they are found by: their fair key, their group, and the wording of the error that
-- they failed with last, each by its digest, since any text may be one. `why` is why an open item is
-- not running; of one that ended it is the state, or that it was enqueued again.
SELECT
  s.seq,
  s.state,
  CASE
    WHEN r.reason IS NOT NULL THEN r.reason
    WHEN x.origin IS NOT NULL AND s.state <> 'acked' THEN 'redriven'
    ELSE s.state
  END AS why,
  s.moved_at AS since,
  s.attempts,
  s.losses,
  s.deferrals,
  s.dedup_key,
  s.fair_key,
  s.group_key,
  s.worker_id,
  CASE WHEN r.reason = 'leased' THEN r.until ELSE s.lease_expires_at END AS held_until,
  s.error,
  md5(coalesce('=' || s.fair_key, '')) AS tenant_id,
  md5(coalesce('=' || s.group_key, '')) AS group_id,
  md5('=' || w.wording) AS error_id
FROM sq_status s
LEFT JOIN sq_reasons r ON r.seq = s.seq
LEFT JOIN sq_successors x ON x.origin = s.seq
LEFT JOIN sq_failures f ON f.seq = s.seq AND f.step = s.failed_step
LEFT JOIN sq_wordings w ON w.said = f.said
