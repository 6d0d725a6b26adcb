-- The newest lease that was granted under an id of a claim.
SELECT max(s.step) AS lease
FROM sq_states s
CROSS JOIN sq_asked a
WHERE s.kind = 'item' AND s.state = 'claimed' AND s.lease = s.step AND s.claim_id = a.claim_id
