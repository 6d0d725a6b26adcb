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
