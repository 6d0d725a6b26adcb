SELECT runnable, delayed, claimed, dead, oldest_age
FROM {{ source('queue', 'sq_overview') }}
