-- configured(step, moment instant, who, settings)
-- The settings that came into force, in their order, and who has set them.
SELECT c.step, c.at AS moment, c.worker_id AS who, c.body AS settings
FROM sq_configs c
ORDER BY c.step
