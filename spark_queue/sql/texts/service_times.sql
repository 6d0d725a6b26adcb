-- service_times(seq, worker_id, ended_at instant, acked, seconds)
-- For how long items were worked on in the window: from their claim to its settle, by an ack or a failure.
-- What was given back, or lost, was not.
SELECT
  g.seq,
  g.worker_id,
  t.at AS ended_at,
  t.state = 'acked' AS acked,
  (t.at - g.at) / 1e6 AS seconds
FROM sq_transitions t
JOIN sq_transitions g ON g.seq = t.seq AND g.lease = t.lease AND g.granted
CROSS JOIN sq_asked a
WHERE t.at > a.since AND t.step > g.step AND t.losses = g.losses AND (t.state = 'acked' OR t.failed)
