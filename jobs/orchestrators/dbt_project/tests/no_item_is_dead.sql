-- What was redriven does not count.
SELECT dead FROM {{ ref('condition') }} WHERE dead > 0
