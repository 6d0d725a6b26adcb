-- The newest row of each item that has one, with when it was claimed, and why it failed last.
-- rule again: newest row of an item
SELECT w.*
FROM (
  SELECT
    s.*,
    row_number() OVER (PARTITION BY s.seq ORDER BY s.step DESC) AS age,
    min(CASE WHEN s.state = 'claimed' AND s.lease = s.step THEN s.at END)
      OVER (PARTITION BY s.seq) AS first_claimed_at,
    max(CASE WHEN s.state = 'claimed' AND s.lease = s.step THEN s.at END)
      OVER (PARTITION BY s.seq) AS claimed_at,
    max_by(s.error, CASE WHEN s.error IS NOT NULL THEN s.step END)
      OVER (PARTITION BY s.seq) AS failure
  FROM sq_states s
  WHERE s.kind = 'item'
) w
WHERE w.age = 1
