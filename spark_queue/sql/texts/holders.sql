-- Who holds a key of the batch before it: a live item does, and one of as long as the scope says.
-- rule: scope of a key
SELECT n.dedup_key, n.seq
FROM sq_newest_of_keys n
CROSS JOIN sq_asked a
WHERE
  a.is_forever
  OR n.enqueued_at > a.held_since
  OR EXISTS (SELECT 1 FROM sq_open o WHERE o.seq = n.seq)
