SELECT fair_key AS tenant, state, count(*) AS items, min(waits_since) AS since
FROM {{ source('queue', 'sq_status') }}
GROUP BY ALL
