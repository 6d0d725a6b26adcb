-- Their place now, and why they are over, if they are. A lease that ran out and is spared is still
-- its holder's.
-- rule: place at an instant, deadline of an item, loss of a lease
SELECT
  p.*,
  CASE
    WHEN p.place = 'held' THEN NULL
    WHEN p.ends_at <= a.now THEN 'expired'
    WHEN p.place = 'lost' AND p.losses + 1 >= a.max_losses THEN 'dead'
  END AS over_by
FROM (
  SELECT
    t.*,
    least(t.expires_at, t.enqueued_at + b.max_age) AS ends_at,
    CASE
      WHEN t.state = 'claimed' AND t.lease_expires_at <= b.now
        AND NOT array_contains(b.spared, t.lease) THEN 'lost'
      WHEN t.state = 'claimed' THEN 'held'
      WHEN t.available_at > b.now THEN 'delayed'
      ELSE 'due'
    END AS place
  FROM sq_turned t
  CROSS JOIN sq_asked b
) p
CROSS JOIN sq_asked a
