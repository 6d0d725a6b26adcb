-- line(seq, ahead, held_ahead, members_ahead)
-- How many items come before each that waits, if no other comes, in the order of service: those that may
-- run, and those that their group holds. What is overdue has a turn where the order has come to, and
-- each of a line a round behind the one before; of such a line the items take the turns by their seq.
-- `members_ahead` are the open items before it in its group.
-- rule again: order of service, weight of a key, overdue item, slots of a line
WITH waiting AS (
  SELECT
    s.seq,
    s.priority,
    s.fair_key,
    CASE WHEN r.reason IN ('runnable', 'limit', 'paused') THEN 1 ELSE 0 END AS may_run,
    CASE WHEN r.reason = 'held by group' THEN 1 ELSE 0 END AS is_held,
    coalesce(w.pin_turn, 0e0) + (s.round - coalesce(w.pin_tag, 0e0)) / coalesce(w.weight, 1e0) AS tag,
    coalesce(s.cost, 1e0) / coalesce(w.weight, 1e0) AS inc,
    p.turn AS v,
    p.seq AS last_seq
  FROM sq_reasons r
  JOIN sq_status s ON s.seq = r.seq
  LEFT JOIN sq_weights w ON s.fair_key = w.fair_key AND s.priority = w.priority
  LEFT JOIN sq_pointers p ON s.priority = p.priority
  WHERE r.reason NOT IN ('leased', 'expired', 'lease lost')
),
overdue AS (
  SELECT
    seq,
    v + inc * (row_number() OVER (PARTITION BY priority, fair_key ORDER BY seq) - 1) AS turn
  FROM waiting
  WHERE may_run = 1 AND (tag < v OR (tag = v AND seq <= last_seq))
),
turned AS (
  SELECT
    w.*,
    coalesce(o.turn, w.tag) AS turn,
    w.may_run = 1 AND count(o.seq) OVER (PARTITION BY w.priority, w.fair_key) > 0 AS is_moved
  FROM waiting w
  LEFT JOIN overdue o ON o.seq = w.seq
),
slots AS (
  SELECT
    seq,
    priority,
    fair_key,
    turn,
    row_number() OVER (PARTITION BY priority, fair_key ORDER BY turn, seq) AS nth,
    row_number() OVER (PARTITION BY priority, fair_key ORDER BY seq) AS nth_item
  FROM turned
  WHERE is_moved
),
members AS (
  SELECT seq, row_number() OVER (PARTITION BY group_key ORDER BY seq) - 1 AS ahead
  FROM sq_reasons
  WHERE group_key IS NOT NULL
)
SELECT
  t.seq,
  cast(coalesce(sum(t.may_run) OVER before, 0) AS bigint) AS ahead,
  cast(coalesce(sum(t.is_held) OVER before, 0) AS bigint) AS held_ahead,
  coalesce(m.ahead, 0) AS members_ahead
FROM turned t
LEFT JOIN slots i ON i.seq = t.seq
LEFT JOIN slots s
  ON s.priority = i.priority AND s.fair_key IS NOT DISTINCT FROM i.fair_key AND s.nth = i.nth_item
LEFT JOIN members m ON m.seq = t.seq
WINDOW before AS (
  ORDER BY t.priority DESC, coalesce(s.turn, t.turn), t.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
)
