-- behind(items, open_items, oldest_age, first_step)
-- How far the reader is behind: what it is not done with, what of that is in its hands, and the step
-- of the item log from which on there is any.
SELECT
  count(*) AS items,
  count(CASE WHEN s.state = 'claimed' THEN 1 END) AS open_items,
  max(CASE WHEN s.state = 'ready' AND s.waits_since <= a.now THEN a.now - s.waits_since END) / 1e6
    AS oldest_age,
  min(s.step) AS first_step
FROM sq_status s
CROSS JOIN sq_asked a
WHERE s.state IN ('ready', 'claimed')
