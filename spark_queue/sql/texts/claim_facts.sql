-- What is known of a claim.
SELECT
  g.step, count(*) AS items, count(CASE WHEN g.is_back THEN 1 END) AS back,
  max(g.at) AS claimed_at, max(g.lease_expires_at) AS until
FROM sq_granted_items g
GROUP BY g.step
