-- What each line was given: the highest regular and the highest overdue turn.
-- rule: turns handed out
SELECT
  l.priority, l.fair_key,
  max(CASE WHEN NOT l.overdue THEN l.turn END) AS regular,
  max(CASE WHEN l.overdue THEN l.turn END) AS late
FROM sq_states l
WHERE l.kind = 'served' OR (l.kind = 'item' AND l.state = 'claimed')
GROUP BY l.priority, l.fair_key
