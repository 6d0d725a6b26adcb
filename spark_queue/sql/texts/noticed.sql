-- Of the items that were touched: how many open ones do not say when they entered, as a front leaves
-- that out, and how many are leased by claims whose time is over.
-- rule again: place at an instant
SELECT
  count(CASE WHEN l.state IN ('ready', 'claimed') AND l.enqueued_at IS NULL THEN 1 END) AS untimed,
  count(CASE WHEN l.state = 'claimed' AND l.held_until <= a.now THEN 1 END) AS ranout
FROM sq_latest l
CROSS JOIN sq_asked a
