-- A claim that was granted under an id, and the items that it still holds.
-- Uses: log.
-- Tables: asked, states.

-- lease_of_claim(lease)
-- The newest lease that was granted under the id of a claim.
SELECT max(s.step) AS lease
FROM sq_states s
CROSS JOIN sq_asked a
WHERE s.kind = 'item' AND s.state = 'claimed' AND s.lease = s.step AND s.claim_id = a.claim_id

-- items_of_claim(seq, step, at instant, lease_expires_at instant, is_held, is_back)
-- The items of that lease: whether it holds them, and whether their next row made them ready without a
-- worker id, as a clone does.
SELECT
  g.seq, g.step, g.at, g.lease_expires_at,
  coalesce(l.state = 'claimed' AND l.lease = g.step, false) AS is_held,
  coalesce(b.state = 'ready' AND b.lease IS NULL AND b.error IS NULL, false) AS is_back
FROM sq_states g
JOIN sq_lease_of_claim c ON g.step = c.lease AND g.lease = c.lease
JOIN sq_newest_rows l ON g.seq = l.seq
LEFT JOIN (
  SELECT
    s.seq, s.state, s.lease, s.error,
    row_number() OVER (PARTITION BY s.seq ORDER BY s.step) AS place
  FROM sq_states s
  JOIN sq_lease_of_claim c ON s.step > c.lease
  WHERE s.kind = 'item' AND NOT coalesce(s.state = 'claimed' AND s.lease = c.lease, false)
) b ON g.seq = b.seq AND b.place = 1
WHERE g.kind = 'item' AND g.state = 'claimed'

-- claim_found(step, items, back, claimed_at instant, until instant)
-- The claim, if there was one.
SELECT
  g.step, count(*) AS items, count(CASE WHEN g.is_back THEN 1 END) AS back,
  max(g.at) AS claimed_at, max(g.lease_expires_at) AS until
FROM sq_items_of_claim g
GROUP BY g.step

-- items_lost_to_claim(seq)
-- The items that the claim no longer holds.
SELECT g.seq FROM sq_items_of_claim g WHERE NOT g.is_held ORDER BY g.seq
