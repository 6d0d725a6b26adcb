-- Where one member of a group starts at a time it comes when it stands.
-- rule: later member of a group
SELECT t.*, t.slot AS turn, t.priority AS rank_priority, t.slot AS rank_turn FROM sq_timed t
