-- Lines whose overdue turns are sums that depend on how an engine adds: of three or more numbers
-- that are not all multiples of 2^-20 below 2^31.
SELECT count(*) AS found
FROM (
  SELECT n.priority, n.fair_key
  FROM (
    SELECT
      p.priority, p.fair_key, p.inc,
      greatest(p.v, coalesce(p.late, p.v)) AS base,
      p.v * 1048576e0 = floor(p.v * 1048576e0)
        AND coalesce(p.late * 1048576e0 = floor(p.late * 1048576e0), true)
        AND p.inc * 1048576e0 = floor(p.inc * 1048576e0) AS exact
    FROM sq_placed p
    WHERE p.overdue
  ) n
  GROUP BY n.priority, n.fair_key
  HAVING count(*) > 2 AND (NOT bool_and(n.exact) OR max(n.base) + sum(n.inc) > 2147483648e0)
) l
