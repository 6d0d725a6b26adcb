-- How many candidates come within reach, by the priority at which they do.
-- rule: reach of a claim
SELECT r.rank_priority AS priority, count(*) AS items
FROM sq_ranked r
LEFT JOIN sq_pointers p ON r.rank_priority = p.priority
CROSS JOIN sq_asked a
WHERE r.rank_turn <= coalesce(p.turn, 0e0) + a.reach
GROUP BY r.rank_priority
