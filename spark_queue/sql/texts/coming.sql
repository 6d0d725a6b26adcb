-- What time alone lets run: when the first lease ends, and which items are delayed until when.
-- rule again: next event
SELECT
  min(CASE WHEN t.state = 'claimed' THEN t.lease_expires_at END) AS held_until,
  count(CASE WHEN t.state = 'ready' AND t.available_at > a.now THEN 1 END) AS delayed,
  min(CASE WHEN t.state = 'ready' AND t.available_at > a.now THEN t.available_at END) AS due
FROM sq_turned t
CROSS JOIN sq_asked a
