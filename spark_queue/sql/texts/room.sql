-- How many items may start that have no slot yet; null for any number.
-- rule: room of a claim
SELECT
  CASE WHEN max(a.max_in_flight) IS NOT NULL
    THEN greatest(0, max(a.max_in_flight)
      - count(CASE WHEN j.over_by IS NULL AND j.place IN ('held', 'lost') THEN 1 END))
  END AS room
FROM sq_asked a
LEFT JOIN sq_judged j ON true
