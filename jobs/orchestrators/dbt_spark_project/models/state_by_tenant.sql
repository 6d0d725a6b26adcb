SELECT tenant, _state AS state, count(*) AS items
FROM {{ source('queue', 'queue_status') }}
GROUP BY ALL
