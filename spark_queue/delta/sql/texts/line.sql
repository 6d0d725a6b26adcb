-- line(seq, ahead, held_ahead, members_ahead)
-- How many items come before each that waits, if no other comes, in the order of service: those that may
-- run, and those that their group holds. Where it is overdue it stands where the order has come to, and
-- each a round behind the one before of its line. `members_ahead` are the open items before it in its
-- group.
-- rule again: order of service, weight of a key, overdue item
WITH waiting AS (
  SELECT
    s.seq,
    s.priority,
    s.fair_key,
    r.reason,
    coalesce(w.pin_turn, 0e0) + (s.round - coalesce(w.pin_tag, 0e0)) / coalesce(w.weight, 1e0) AS turn,
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
  WHERE turn < v OR (turn = v AND seq <= last_seq)
),
members AS (
  SELECT seq, row_number() OVER (PARTITION BY group_key ORDER BY seq) - 1 AS ahead
  FROM sq_reasons
  WHERE group_key IS NOT NULL
)
SELECT
  t.seq,
  cast(coalesce(sum(CASE WHEN t.reason IN ('runnable', 'limit', 'paused') THEN 1 ELSE 0 END) OVER before, 0) AS bigint)
    AS ahead,
  cast(coalesce(sum(CASE WHEN t.reason = 'held by group' THEN 1 ELSE 0 END) OVER before, 0) AS bigint)
    AS held_ahead,
  coalesce(m.ahead, 0) AS members_ahead
FROM waiting t
LEFT JOIN overdue o ON o.seq = t.seq
LEFT JOIN members m ON m.seq = t.seq
WINDOW before AS (
  ORDER BY t.priority DESC, coalesce(o.turn, t.turn), t.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
)
