-- Open items whose newest row does not say when they entered: a front leaves that out.
SELECT l.seq FROM sq_latest l WHERE l.state IN ('ready', 'claimed') AND l.enqueued_at IS NULL
