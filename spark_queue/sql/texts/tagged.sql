-- Their tags: each behind the one before it in its line, by its cost. What is added up are numbers of
-- which any engine has the same sum. An item that keeps its place moves none. `line` tells most lines apart, as a number.
-- rule: tag of a new item
SELECT t.*, coalesce(t.round, t.tag) AS stored
FROM (
  SELECT
    q.*,
    q.start_tag + sum(
      CASE WHEN q.round IS NULL THEN greatest($unit, q.cost + $rounder - $rounder) ELSE 0e0 END
    ) OVER (PARTITION BY q.line, q.lowest, q.fair_key ORDER BY q.seq ROWS UNBOUNDED PRECEDING) AS tag
  FROM (SELECT /*+ REPARTITION($parts, line) */ l.* FROM sq_lined l) q
) t
