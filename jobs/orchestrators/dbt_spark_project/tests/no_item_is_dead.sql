-- What was redriven does not count.
SELECT path, _error FROM {{ source('queue', 'queue_dead') }} WHERE _successor IS NULL
