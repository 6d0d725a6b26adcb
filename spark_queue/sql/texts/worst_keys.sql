-- Keys with dead letters, most first; then those that have waited longest.
SELECT k.*
FROM sq_keys k
ORDER BY k.dead DESC, k.oldest_age DESC NULLS LAST, k.fair_key ASC NULLS LAST
LIMIT $limit
