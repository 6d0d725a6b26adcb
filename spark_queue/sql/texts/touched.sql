-- touched(seq, step, first_claimed_at instant, claimed_at instant, failed_step, failure)
-- Each item that has transitions: its newest, its first and last claim, and why it failed last.
-- rule again: newest row of an item
SELECT
  s.seq,
  max(s.step) AS step,
  min(CASE WHEN s.state = 'claimed' AND s.lease = s.step THEN s.at END) AS first_claimed_at,
  max(CASE WHEN s.state = 'claimed' AND s.lease = s.step THEN s.at END) AS claimed_at,
  max(CASE WHEN s.error IS NOT NULL THEN s.step END) AS failed_step,
  max_by(s.error, CASE WHEN s.error IS NOT NULL THEN s.step END) AS failure
FROM sq_states s
WHERE s.kind = 'item'
GROUP BY s.seq
