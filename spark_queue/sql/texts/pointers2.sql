-- Where the order stands after the first stage.
-- rule: turns handed out
SELECT u.priority, max(u.turn) AS turn, max(CASE WHEN u.turn = u.top THEN u.seq END) AS seq
FROM (
  SELECT b.*, max(b.turn) OVER (PARTITION BY b.priority) AS top
  FROM (
    SELECT priority, turn, seq FROM sq_pointers
    UNION ALL
    SELECT priority, turn, seq FROM sq_first
  ) b
) u
GROUP BY u.priority
