-- Starving keys, outranked priorities, stuck items.
-- Uses: status, history, standing, claim.
-- Tables: asked, items, rate_overrides, rates, taken.

-- starving(fair_key, items, since instant, seq, turns, turns_of_others)
-- The fair keys with items that nothing but their turn keeps from a claim, for the whole window, and
-- that got no turn in it, or less than a twentieth of what each other key got: how many could run,
-- since when, and the first of them. The longest first.
WITH turns AS (
  SELECT s.fair_key, count(*) AS turns
  FROM sq_transitions m
  JOIN sq_status s ON s.seq = m.seq
  CROSS JOIN sq_asked a
  WHERE m.at > a.since AND m.granted
  GROUP BY s.fair_key
),
every_turn AS (
  SELECT cast(sum(turns) AS bigint) AS turns, count(*) AS served FROM turns
),
waiting AS (
  SELECT fair_key, count(*) AS items, min(since) AS since FROM sq_runnable GROUP BY fair_key
),
compared AS (
  SELECT
    w.*,
    coalesce(t.turns, 0) AS turns,
    e.turns - coalesce(t.turns, 0) AS turns_of_others,
    e.served - CASE WHEN t.turns IS NULL THEN 0 ELSE 1 END AS others
  FROM waiting w
  LEFT JOIN turns t ON t.fair_key IS NOT DISTINCT FROM w.fair_key
  CROSS JOIN every_turn e
),
starving AS (
  SELECT c.*
  FROM compared c
  CROSS JOIN sq_asked a
  WHERE c.since <= a.since AND c.turns * 20 * c.others < c.turns_of_others
)
SELECT s.fair_key, s.items, s.since, min(r.seq) AS seq, s.turns, s.turns_of_others
FROM starving s
JOIN sq_runnable r ON r.fair_key IS NOT DISTINCT FROM s.fair_key AND r.since = s.since
GROUP BY s.fair_key, s.items, s.since, s.turns, s.turns_of_others
ORDER BY s.since, seq
LIMIT 100

-- outranked(priority, items, since instant, seq, turns_above)
-- The priorities with items that could run for the whole window, and that got no turn in it, while
-- higher ones did: how many could run, since when, and the first of them. The longest first.
WITH turns AS (
  SELECT i.priority, count(*) AS turns
  FROM sq_transitions m
  JOIN sq_items i ON i.seq = m.seq
  CROSS JOIN sq_asked a
  WHERE m.at > a.since AND m.granted
  GROUP BY i.priority
),
ordered AS (
  SELECT
    i.priority,
    r.since,
    first_value(r.seq) OVER (PARTITION BY i.priority ORDER BY r.since, r.seq) AS seq
  FROM sq_runnable r
  JOIN sq_items i ON i.seq = r.seq
),
waiting AS (
  SELECT priority, count(*) AS items, min(since) AS since, min(seq) AS seq
  FROM ordered
  GROUP BY priority
)
SELECT w.priority, w.items, w.since, w.seq, cast(sum(t.turns) AS bigint) AS turns_above
FROM waiting w
JOIN turns t ON t.priority > w.priority
LEFT JOIN turns own ON own.priority = w.priority
CROSS JOIN sq_asked a
WHERE own.turns IS NULL AND w.since <= a.since
GROUP BY w.priority, w.items, w.since, w.seq
ORDER BY w.since, w.seq
LIMIT 100

-- full_limits(nth, key, used, most, items, seq, since instant)
-- The keys with items that their limit has kept back for the whole window, how many, since when they
-- could have run but for that, and the first of them. The longest first.
WITH waiting AS (
  SELECT
    r.full_limit AS nth, r.full_key AS key, max(r.used) AS used, max(r.most) AS most, count(*) AS items,
    min(r.seq) AS seq, min(greatest(r.waits_since, r.moved_at)) AS since
  FROM sq_reasons r
  WHERE r.reason = 'key limit' AND r.used >= r.most
  GROUP BY r.full_limit, r.full_key
)
SELECT w.nth, w.key, w.used, w.most, w.items, w.seq, w.since
FROM waiting w
CROSS JOIN sq_asked a
WHERE w.since <= a.since
ORDER BY w.since, w.seq
LIMIT 100

-- paced_keys(nth, key, until instant, keys)
-- The keys of rates of which none of the items that could start has its units, when the first of them has, and
-- how many such keys its rate has. Of each rate a hundred at most; first those that may start next.
SELECT k.nth, k.key, k.until, k.keys
FROM (
  SELECT
    p.nth, p.key, $in_nanoseconds(p.missing, a) AS until,
    count(*) OVER (PARTITION BY p.nth) AS keys,
    row_number() OVER (PARTITION BY p.nth ORDER BY p.missing, p.key) AS place
  FROM (
    SELECT u.nth, u.key, min(l.missing) AS missing
    FROM sq_units_asked_of_status u
    LEFT JOIN sq_lacking_units_of_status l ON u.nth = l.nth AND u.seq = l.seq
    LEFT JOIN sq_taken t ON u.seq = t.seq
    GROUP BY u.nth, u.key
    HAVING count(l.seq) = count(*) AND count(t.seq) = 0
  ) p
  CROSS JOIN sq_asked a
) k
WHERE k.place <= 100
ORDER BY k.nth, k.place

-- claim_steps(apart)
-- How many seconds lie between a claim of the window and the next, on average; null for fewer than two.
SELECT (max(m.at) - min(m.at)) / 1e6 / nullif(count(DISTINCT m.step) - 1, 0) AS apart
FROM sq_transitions m
CROSS JOIN sq_asked a
WHERE m.at > a.since AND m.granted

-- units_of_rates(nth, key, seq, state, enqueued_at instant, units, starts)
-- What each item has of each rate that its key has: its units, and how many of the key may start in a second.
SELECT u.nth, u.key, u.seq, u.state, u.enqueued_at, u.units, u.starts
FROM (
  SELECT
    k.*, CASE WHEN o.nth IS NULL THEN k.most ELSE o.most END * 1e9 / k.per AS starts
  FROM (
    SELECT
      s.seq, s.state, s.enqueued_at, m.nth, m.most, m.per,
      CASE WHEN m.by = '' THEN '' ELSE $limited_key(s, m) END AS key,
      coalesce(cast(get_json_object(s.units, m.units_path) AS double), 1e0) AS units
    FROM sq_status s
    CROSS JOIN sq_rates m
  ) k
  LEFT JOIN sq_rate_overrides o ON k.nth = o.nth AND k.key = o.key
  WHERE k.key IS NOT NULL
) u
WHERE u.starts IS NOT NULL

-- started(nth, units)
-- How many units of each rate started in the window.
SELECT u.nth, sum(u.units) AS units
FROM sq_units_of_rates u
JOIN sq_transitions m ON u.seq = m.seq
CROSS JOIN sq_asked a
WHERE m.granted AND m.at > a.since
GROUP BY u.nth

-- halves(nth, key, starts, ready, newer, newest)
-- Of each key of a rate the units that may start in a second, that wait, that came in the second half of the
-- window, and in all of it.
SELECT
  u.nth,
  u.key,
  max(u.starts) AS starts,
  sum(CASE WHEN u.state = 'ready' THEN u.units ELSE 0e0 END) AS ready,
  sum(CASE WHEN u.enqueued_at > a.since + (a.now - a.since) / 2 THEN u.units ELSE 0e0 END) AS newer,
  sum(CASE WHEN u.enqueued_at > a.since THEN u.units ELSE 0e0 END) AS newest
FROM sq_units_of_rates u
CROSS JOIN sq_asked a
GROUP BY u.nth, u.key

-- entering(nth, key, ready, comes, starts)
-- The keys of rates of which more comes, in units a second, than may start: twice as many as came in the half
-- of the window in which fewer did, so that one large batch is none. Of each rate a hundred at most; first
-- those of which what waits doubles soonest.
SELECT k.nth, k.key, k.ready, k.comes, k.starts
FROM (
  SELECT c.*, row_number() OVER (PARTITION BY c.nth ORDER BY c.ready / (c.comes - c.starts), c.key) AS place
  FROM (
    SELECT
      h.nth, h.key, h.ready, h.starts,
      2e6 * least(h.newer, h.newest - h.newer) / (a.now - a.since) AS comes
    FROM sq_halves h
    CROSS JOIN sq_asked a
    WHERE h.ready > 0
  ) c
  WHERE c.comes > c.starts
) k
WHERE k.place <= 100
ORDER BY k.nth, k.place

-- stuck(seq, worker_id, since instant, given_back, lease)
-- Open items that were given back untouched ten times and more, and those that somebody holds for three
-- of the leases that he asked for, and longer. Those that are held come first, the longest first.
WITH granted AS (
  SELECT
    seq,
    step,
    m.lease_expires_at - m.at AS lease_us,
    count(*) OVER (PARTITION BY seq) AS grants
  FROM sq_transitions m
  WHERE granted
),
followed AS (
  SELECT
    m.seq,
    m.state,
    m.attempts,
    m.losses,
    m.deferrals,
    lag(m.state) OVER item AS state_before,
    lag(m.attempts) OVER item AS attempts_before,
    lag(m.losses) OVER item AS losses_before,
    lag(m.deferrals) OVER item AS deferrals_before
  FROM sq_transitions m
  JOIN (SELECT DISTINCT seq FROM granted WHERE grants >= 10) g ON g.seq = m.seq
  WINDOW item AS (PARTITION BY m.seq ORDER BY m.step)
),
given_back AS (
  SELECT seq, count(*) AS times
  FROM followed
  WHERE
    state = 'ready'
    AND state_before = 'claimed'
    AND attempts = attempts_before
    AND losses = losses_before
    AND deferrals = deferrals_before
  GROUP BY seq
  HAVING count(*) >= 10
),
held AS (
  SELECT r.seq, g.lease_us / 1e6 AS lease
  FROM sq_reasons r
  JOIN granted g ON g.seq = r.seq AND g.step = r.lease
  CROSS JOIN sq_asked a
  WHERE
    r.reason = 'leased' AND a.now - r.claimed_at >= 3 * g.lease_us
)
SELECT
  r.seq,
  r.worker_id,
  r.claimed_at AS since,
  coalesce(b.times, 0) AS given_back,
  h.lease
FROM sq_reasons r
LEFT JOIN given_back b ON b.seq = r.seq
LEFT JOIN held h ON h.seq = r.seq
WHERE b.times IS NOT NULL OR h.lease IS NOT NULL
ORDER BY h.lease IS NULL, r.claimed_at, given_back DESC, r.seq
LIMIT 100
