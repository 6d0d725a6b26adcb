-- lasting(seq, fair_key, state, enqueued_at instant, finished_at instant)
-- The items but those that an undo brought back as another one, which has the time of the first enqueue:
-- that counts in their place, as if they had never been over.
SELECT s.seq, s.fair_key, s.state, s.enqueued_at, s.finished_at
FROM sq_status s
LEFT JOIN (SELECT origin, enqueued_at FROM sq_status WHERE origin IS NOT NULL) back
  ON back.origin = s.seq AND back.enqueued_at = s.enqueued_at
WHERE back.origin IS NULL
