SELECT oldest_age FROM {{ ref('condition') }} WHERE oldest_age > {{ var('oldest', 3600) }}
