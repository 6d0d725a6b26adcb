-- Hashes of keys that a batch has twice, or that look alike: hardly any, as a rule.
SELECT b.dedup_hash
FROM (
  SELECT /*+ REPARTITION($parts, dedup_hash) */ x.dedup_hash
  FROM sq_batch x
  WHERE x.dedup_hash IS NOT NULL
) b
GROUP BY b.dedup_hash
HAVING count(*) > 1
