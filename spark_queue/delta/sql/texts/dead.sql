-- The dead letters, each with the newest item that it was redriven as.
SELECT s.*, r.seq AS successor
FROM sq_status s
LEFT JOIN sq_successors r ON s.seq = r.origin
WHERE s.state = 'dead'
