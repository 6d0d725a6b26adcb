-- Views of a queue: each panel of a report, for dashboards and for one's own queries.
-- They are made by `python -m spark_queue.report.publishing main.ops.files`; give it another
-- queue's name. Each shows what is there when it is asked, of the hour before.

CREATE OR REPLACE VIEW sq_raw_settings AS
SELECT s._body AS body
FROM `main`.`ops`.`files_status` s
JOIN (SELECT max(_step) AS step FROM `main`.`ops`.`files_status` WHERE _kind = 'config') c ON c.step = s._step
WHERE s._kind = 'config';

-- What is asked: the hour until now, under the settings that are in force.
CREATE OR REPLACE VIEW sq_asked AS
WITH heads AS (
  SELECT max(_step) AS step FROM `main`.`ops`.`files_queue` WHERE _kind = 'head'
),
facts AS (
  SELECT q._body AS head
  FROM `main`.`ops`.`files_queue` q
  JOIN heads h ON h.step = q._step
  WHERE q._kind = 'head'
  UNION ALL
  SELECT '{}' FROM heads WHERE step IS NULL
)
SELECT
  now() AS now,
  now() - INTERVAL 1 HOUR AS since,
  coalesce(cast(get_json_object(f.head, '$.readers.0.since_step') AS bigint), 0) AS since_step,
  get_json_object(s.body, '$.paused') = 'true' AS paused,
  array_repeat(cast(0 AS bigint), 0) AS spared,
  cast(1 AS bigint) AS run,
  cast(get_json_object(s.body, '$.config.group_limit') AS bigint) AS group_limit,
  cast(get_json_object(s.body, '$.config.max_in_flight') AS bigint) AS max_in_flight,
  cast(round(coalesce(cast(get_json_object(s.body, '$.config.lease_grace') AS double), 0) * 1000000) AS bigint) AS lease_grace,
  cast(get_json_object(s.body, '$.config.max_attempts') AS bigint) AS max_attempts,
  cast(get_json_object(s.body, '$.config.max_losses') AS bigint) AS max_losses,
  cast(get_json_object(s.body, '$.config.max_deferrals') AS bigint) AS max_deferrals,
  get_json_object(s.body, '$.config.on_failure') = 'block' AS blocking,
  cast(
    cast(get_json_object(f.head, '$.readers.0.config.max_age') AS double) * 1e6 AS bigint
  ) AS max_age
FROM facts f
CROSS JOIN sq_raw_settings s;

-- The same, with times in microseconds since 1970, as all views of such a name.
CREATE OR REPLACE VIEW sq_raw_asked AS
SELECT
  unix_micros(now) AS now, unix_micros(since) AS since, paused, spared, run, max_age,
  group_limit, max_in_flight, lease_grace, max_attempts, max_losses, max_deferrals, blocking
FROM sq_asked;

CREATE OR REPLACE VIEW sq_raw_states AS
SELECT q._kind AS kind, q._seq AS seq, q._gen AS gen, q._step AS step, q._state AS state, q._lease AS lease, q._attempts AS attempts, q._losses AS losses, q._deferrals AS deferrals, q._claim_id AS claim_id, q._worker_id AS worker_id, unix_micros(q._at) AS at, unix_micros(q._lease_expires_at) AS lease_expires_at, q._error AS error, unix_micros(q._available_at) AS available_at, unix_micros(q._expires_at) AS expires_at, unix_micros(q._enqueued_at) AS enqueued_at
FROM `main`.`ops`.`files_status` q WHERE q._kind IN ('item', 'renewal');

CREATE OR REPLACE VIEW sq_raw_configs AS
SELECT q._step AS step, unix_micros(q._at) AS at, q._worker_id AS worker_id, q._error AS error, q._body AS body
FROM `main`.`ops`.`files_status` q WHERE q._kind = 'config';

CREATE OR REPLACE VIEW sq_raw_items AS
SELECT q._seq AS own, q._seq AS seq, q._gen AS gen, q._step AS step, q._errors AS errors, q._dedup_key AS dedup_key, q._duplicate_of AS duplicate_of, q._origin AS origin, q._priority AS priority, q._round AS round, q._cost AS cost, q._max_attempts AS max_attempts, q._fair_key AS fair_key, q._group_key AS group_key, q._flow_keys AS flow_keys, q._units AS units, q._chain AS chain, unix_micros(q._available_at) AS available_at, unix_micros(q._expires_at) AS expires_at, unix_micros(q._enqueued_at) AS enqueued_at
FROM `main`.`ops`.`files_queue` q CROSS JOIN sq_asked a WHERE q._step > a.since_step AND q._kind = 'item';

CREATE OR REPLACE VIEW sq_raw_rejected AS
SELECT q._seq AS own, q._seq AS seq, q._gen AS gen, q._step AS step, q._errors AS errors, q._dedup_key AS dedup_key, q._duplicate_of AS duplicate_of, q._origin AS origin, q._priority AS priority, q._round AS round, q._cost AS cost, q._max_attempts AS max_attempts, q._fair_key AS fair_key, q._group_key AS group_key, q._flow_keys AS flow_keys, q._units AS units, q._chain AS chain, unix_micros(q._available_at) AS available_at, unix_micros(q._expires_at) AS expires_at, unix_micros(q._enqueued_at) AS enqueued_at
FROM `main`.`ops`.`files_queue` q CROSS JOIN sq_asked a WHERE q._step > a.since_step AND q._kind = 'refused';

CREATE OR REPLACE VIEW sq_raw_rules AS
WITH settings AS (
  SELECT get_json_object(s.body, '$.config') AS config FROM sq_raw_settings s
),
counted AS (
  SELECT k.*, json_array_length(get_json_object(k.config, concat('$.', k.what))) AS items
  FROM (
    SELECT config, 'limits' AS what FROM settings UNION ALL SELECT config, 'rates' FROM settings
  ) k
),
numbered AS (
  SELECT
    k.config, k.what,
    explode(CASE WHEN k.items > 0 THEN sequence(0, cast(k.items - 1 AS int)) END) AS nth
  FROM counted k
),
rules AS (
  SELECT
    n.config, n.what, n.nth,
    get_json_object(n.config, concat('$.', n.what, '[', n.nth, ']')) AS rule
  FROM numbered n
),
texts AS (
  SELECT
    r.what, r.nth, r.rule, get_json_object(r.rule, '$.by') AS by,
    CASE get_json_object(r.rule, '$.by')
      WHEN get_json_object(r.config, '$.fair_key') THEN 0
      WHEN get_json_object(r.config, '$.group_key') THEN 1
      ELSE 2
    END AS kind,
    r.nth + CASE WHEN r.what = 'rates' THEN 1000000 ELSE 0 END AS ord
  FROM rules r
),
firsts AS (SELECT t.*, min(t.ord) OVER (PARTITION BY t.by) AS first FROM texts t),
stored AS (
  SELECT f.*, dense_rank() OVER (PARTITION BY f.kind, f.by IS NULL ORDER BY f.first) AS at
  FROM firsts f
)
SELECT
  s.what, s.nth, s.rule, s.by,
  CASE WHEN s.by IS NULL THEN -1 WHEN s.kind < 2 THEN s.kind ELSE s.at + 1 END AS place,
  concat('$[', s.at - 1, ']') AS path
FROM stored s;

CREATE OR REPLACE VIEW sq_raw_rule_overrides AS
SELECT
  o.what, o.nth,
  get_json_object(o.overrides, concat('$[', o.at, '][0]')) AS key,
  get_json_object(o.overrides, concat('$[', o.at, '][1]')) AS most
FROM (
  SELECT l.what, l.nth, l.overrides, explode(
    CASE WHEN json_array_length(l.overrides) > 0
      THEN sequence(0, cast(json_array_length(l.overrides) - 1 AS int)) END
  ) AS at
  FROM (
    SELECT r.what, r.nth, get_json_object(r.rule, '$.overrides') AS overrides FROM sq_raw_rules r
  ) l
) o;

CREATE OR REPLACE VIEW sq_raw_limited AS
SELECT r.nth, cast(get_json_object(r.rule, '$.default') AS bigint) AS most, r.place, r.path
FROM sq_raw_rules r
WHERE r.what = 'limits';

CREATE OR REPLACE VIEW sq_raw_overrides AS
SELECT o.nth, o.key, cast(o.most AS bigint) AS most
FROM sq_raw_rule_overrides o
WHERE o.what = 'limits';

CREATE OR REPLACE VIEW sq_raw_rates AS
SELECT
  u.nth, u.place, u.path, coalesce(u.by, '') AS by,
  CASE WHEN u.units IS NOT NULL
    THEN concat('$[', dense_rank() OVER (PARTITION BY u.units IS NULL ORDER BY u.first) - 1, ']')
  END AS units_path,
  cast(round(cast(get_json_object(u.rule, '$.per') AS double) * 1e6) AS bigint) * 1000 AS per,
  cast(get_json_object(u.rule, '$.limit') AS double) AS most,
  cast(get_json_object(u.rule, '$.burst') AS double) AS burst
FROM (
  SELECT r.*, min(r.nth) OVER (PARTITION BY r.units) AS first
  FROM (
    SELECT q.*, get_json_object(q.rule, '$.units') AS units
    FROM sq_raw_rules q
    WHERE q.what = 'rates'
  ) r
) u;

CREATE OR REPLACE VIEW sq_raw_rate_overrides AS
SELECT o.nth, o.key, cast(o.most AS double) AS most
FROM sq_raw_rule_overrides o
WHERE o.what = 'rates';

CREATE OR REPLACE VIEW sq_raw_debts AS
SELECT
  d._by AS by, d._key AS key, d._tat AS tat, unix_micros(d._at) * 1000 AS at,
  cast(coalesce(d._body, '0') AS bigint) AS righted, cast(NULL AS bigint) AS shut
FROM `main`.`ops`.`files_status` d
JOIN (
  SELECT _by, _key, max(_step) AS step FROM `main`.`ops`.`files_status` WHERE _kind = 'rate' GROUP BY _by, _key
) n ON d._by = n._by AND d._key = n._key AND d._step = n.step
WHERE d._kind = 'rate';

CREATE OR REPLACE VIEW sq_raw_taken AS
SELECT cast(0 AS bigint) AS seq WHERE false;

CREATE OR REPLACE VIEW sq_raw_pauses AS
SELECT
  cast(get_json_object(k.pauses, concat('$[', k.at, '][6]')) AS bigint) AS nth,
  get_json_object(k.pauses, concat('$[', k.at, '][1]')) AS key,
  coalesce(
    cast(get_json_object(k.pauses, concat('$[', k.at, '][2]')) AS bigint), 9223372036854775807
  ) AS until
FROM (
  SELECT
    j.pauses,
    explode(CASE WHEN json_array_length(j.pauses) > 0
      THEN sequence(0, cast(json_array_length(j.pauses) - 1 AS int)) END) AS at
  FROM (SELECT get_json_object(s.body, '$.pauses') AS pauses FROM sq_raw_settings s) j
) k;

CREATE OR REPLACE VIEW sq_raw_paused_by AS
SELECT p.nth, p.nth AS place, concat('$[', p.nth - 2, ']') AS path
FROM (SELECT explode(sequence(cast(0 AS bigint), cast(9 AS bigint))) AS nth) p;

CREATE OR REPLACE VIEW sq_raw_renewals AS
SELECT lease, max_by(lease_expires_at, step) AS until
FROM sq_raw_states
WHERE kind = 'renewal'
GROUP BY lease;

CREATE OR REPLACE VIEW sq_raw_touched AS
SELECT
  s.seq,
  max(s.step) AS step,
  min(CASE WHEN s.state = 'claimed' AND s.lease = s.step THEN s.at END) AS first_claimed_at,
  max(CASE WHEN s.state = 'claimed' AND s.lease = s.step THEN s.at END) AS claimed_at,
  max(CASE WHEN s.error IS NOT NULL THEN s.step END) AS failed_step,
  max_by(s.error, CASE WHEN s.error IS NOT NULL THEN s.step END) AS failure
FROM sq_raw_states s
WHERE s.kind = 'item'
GROUP BY s.seq;

CREATE OR REPLACE VIEW sq_raw_status AS
SELECT /*+ BROADCAST(r) */
  i.own, i.seq, coalesce(m.state, 'ready') AS state,
  coalesce(m.attempts, i.errors, 0) AS attempts, coalesce(m.losses, 0) AS losses,
  coalesce(m.deferrals, 0) AS deferrals,
  i.dedup_key, i.fair_key, i.group_key, i.flow_keys, i.units, i.chain,
  i.priority, i.round, i.cost, i.max_attempts,
  CASE WHEN m.enqueued_at IS NULL THEN i.available_at ELSE m.available_at END AS available_at,
  CASE WHEN m.enqueued_at IS NULL THEN i.expires_at ELSE m.expires_at END AS expires_at,
  least(CASE WHEN m.enqueued_at IS NULL THEN i.expires_at ELSE m.expires_at END, i.enqueued_at + a.max_age) AS deadline,
  greatest(
    i.enqueued_at, CASE WHEN m.enqueued_at IS NULL THEN i.available_at ELSE m.available_at END
  ) AS waits_since,
  i.enqueued_at, t.first_claimed_at, t.claimed_at,
  t.first_claimed_at - greatest(i.enqueued_at, i.available_at) AS waited,
  CASE WHEN m.state NOT IN ('ready', 'claimed') THEN m.at END AS finished_at,
  CASE WHEN m.state = 'claimed' THEN m.lease END AS lease,
  CASE WHEN m.state = 'claimed' THEN m.worker_id END AS worker_id,
  CASE WHEN m.state = 'claimed' THEN coalesce(r.until, m.lease_expires_at) END AS lease_expires_at,
  t.failure AS error, i.origin, i.step, i.gen,
  m.step AS moved_step, coalesce(m.at, i.enqueued_at) AS moved_at, m.error AS moved_error,
  t.failed_step
FROM sq_raw_items i
CROSS JOIN sq_raw_asked a
LEFT JOIN sq_raw_touched t ON i.seq = t.seq
LEFT JOIN sq_raw_states m ON t.seq = m.seq AND t.step = m.step AND m.kind = 'item'
LEFT JOIN sq_raw_renewals r ON m.lease = r.lease;

-- One row an item: where it stands, and since when. A transition has all times, or those of a journal
-- none. `own` are the user's columns, or what leads to them; `deadline` is the sooner of its own and
-- the one that the reader's `max_age` sets. It waits since it entered, or since its delay ended, whichever
-- is later; `waited` is for how long it did until its first claim.
CREATE OR REPLACE VIEW sq_status AS
SELECT r.seq, r.state, r.attempts, r.losses, r.deferrals, r.dedup_key, r.fair_key, r.group_key, r.flow_keys, r.units, r.chain, r.priority, r.round, r.cost, r.max_attempts, timestamp_micros(r.available_at) AS available_at, timestamp_micros(r.expires_at) AS expires_at, timestamp_micros(r.deadline) AS deadline, timestamp_micros(r.waits_since) AS waits_since, timestamp_micros(r.enqueued_at) AS enqueued_at, timestamp_micros(r.first_claimed_at) AS first_claimed_at, timestamp_micros(r.claimed_at) AS claimed_at, r.waited, timestamp_micros(r.finished_at) AS finished_at, r.lease, r.worker_id, timestamp_micros(r.lease_expires_at) AS lease_expires_at, r.error, r.origin, r.step, r.gen, r.moved_step, timestamp_micros(r.moved_at) AS moved_at, r.moved_error, r.failed_step
FROM sq_raw_status r;

CREATE OR REPLACE VIEW sq_raw_deferred AS
SELECT d.seq, d.step
FROM (
  SELECT
    s.seq, s.step, s.state, s.deferrals,
    lag(s.deferrals) OVER (PARTITION BY s.seq ORDER BY s.step) AS deferrals_before
  FROM sq_raw_states s
  WHERE s.kind = 'item' AND s.deferrals > 0
) d
WHERE d.state = 'ready' AND d.deferrals > coalesce(d.deferrals_before, 0);

CREATE OR REPLACE VIEW sq_raw_transitions AS
SELECT
  h.seq, h.step, h.at, h.state, h.attempts, h.losses, coalesce(h.deferrals, 0) AS deferrals, h.lease,
  h.claim_id, h.worker_id, h.lease_expires_at, h.available_at, h.error,
  coalesce(h.state = 'claimed' AND h.lease = h.step, false) AS granted,
  h.error IS NOT NULL AND h.state IN ('ready', 'dead') AND d.seq IS NULL AS failed
FROM sq_raw_states h
LEFT JOIN sq_raw_deferred d ON h.seq = d.seq AND h.step = d.step
WHERE h.kind = 'item'
UNION ALL
SELECT
  h.seq, r.step, r.at, h.state, h.attempts, h.losses, coalesce(h.deferrals, 0), h.lease, h.claim_id,
  h.worker_id, r.lease_expires_at, h.available_at, h.error, false, false
FROM sq_raw_states r
JOIN sq_raw_states h
  ON h.lease = r.lease AND h.step < r.step AND h.kind = 'item' AND h.state = 'claimed'
WHERE
  r.kind = 'renewal'
  AND NOT EXISTS (
    SELECT /*+ MERGE(n) */ 1
    FROM sq_raw_states n
    WHERE n.seq = h.seq AND n.step > h.step AND n.step < r.step AND n.kind = 'item'
  );

-- The transitions of items, by their own rows and the renewals of the leases that these have: `granted`
-- is one by which a claim got it, `failed` one with an error that it is ready again after, or dead, and
-- no deferral.
CREATE OR REPLACE VIEW sq_transitions AS
SELECT r.seq, r.step, timestamp_micros(r.at) AS moment, r.state, r.attempts, r.losses, r.deferrals, r.lease, r.claim_id, r.worker_id, timestamp_micros(r.lease_expires_at) AS lease_expires_at, timestamp_micros(r.available_at) AS available_at, r.error, r.granted, r.failed
FROM sq_raw_transitions r;

CREATE OR REPLACE VIEW sq_raw_history AS
SELECT
  'queue' AS log, i.seq, i.step, i.enqueued_at AS at, 'ready' AS state, i.duplicate_of, i.origin,
  cast(NULL AS int) AS attempts, cast(NULL AS int) AS losses, cast(NULL AS int) AS deferrals, cast(NULL AS bigint) AS lease,
  cast(NULL AS string) AS claim_id, cast(NULL AS string) AS worker_id,
  cast(NULL AS bigint) AS lease_expires_at, cast(NULL AS bigint) AS available_at,
  cast(NULL AS string) AS error
FROM sq_raw_items i
UNION ALL
SELECT
  'queue', r.seq, r.step, r.enqueued_at, 'refused', r.duplicate_of, r.origin, NULL, NULL, NULL,
  NULL, NULL, NULL, NULL, NULL, NULL
FROM sq_raw_rejected r
UNION ALL
SELECT
  'status', t.seq, t.step, t.at, t.state, NULL, NULL, t.attempts, t.losses, t.deferrals, t.lease,
  t.claim_id, t.worker_id, t.lease_expires_at, t.available_at, t.error
FROM sq_raw_transitions t
ORDER BY seq, log, step;

-- How items entered or were refused, and every transition since, of each the oldest first.
CREATE OR REPLACE VIEW sq_history AS
SELECT r.log, r.seq, r.step, timestamp_micros(r.at) AS moment, r.state, r.duplicate_of, r.origin, r.attempts, r.losses, r.deferrals, r.lease, r.claim_id, r.worker_id, timestamp_micros(r.lease_expires_at) AS lease_expires_at, timestamp_micros(r.available_at) AS available_at, r.error
FROM sq_raw_history r;

CREATE OR REPLACE VIEW sq_raw_paused_items_of_status AS
SELECT k.seq, max(p.until) AS until
FROM (
  SELECT i.seq, m.nth, CASE m.place WHEN 0 THEN i.fair_key WHEN 1 THEN i.group_key
  ELSE get_json_object(i.flow_keys, m.path) END AS key
  FROM sq_raw_items i
  CROSS JOIN sq_raw_paused_by m
) k
JOIN sq_raw_pauses p ON k.nth = p.nth AND k.key = p.key
GROUP BY k.seq;

CREATE OR REPLACE VIEW sq_raw_kept_items_of_status AS
SELECT p.seq, p.until FROM sq_raw_paused_items_of_status p;

CREATE OR REPLACE VIEW sq_raw_with_turn_of_status AS
SELECT
  s.*, cast(NULL AS double) AS tag, cast(NULL AS double) AS inc, cast(NULL AS double) AS v,
  cast(NULL AS bigint) AS s
FROM sq_raw_status s
WHERE s.state IN ('ready', 'claimed');

CREATE OR REPLACE VIEW sq_raw_items_by_time_of_status AS
SELECT
  t.*,
  least(t.expires_at, t.enqueued_at + b.max_age) AS ends_at,
  CASE
    WHEN t.state = 'claimed' AND t.lease_expires_at + b.lease_grace <= b.now
      AND NOT array_contains(b.spared, t.lease) THEN 'lost'
    WHEN t.state = 'claimed' THEN 'held'
    WHEN t.available_at > b.now THEN 'delayed'
    ELSE 'due'
  END AS by_time
FROM sq_raw_with_turn_of_status t
CROSS JOIN sq_raw_asked b;

CREATE OR REPLACE VIEW sq_raw_timed_items_of_status AS
SELECT j.*, CASE
    WHEN j.by_time = 'held' THEN NULL
    WHEN j.ends_at <= a.now THEN 'expired'
    WHEN j.by_time = 'lost' AND j.losses + 1 >= a.max_losses THEN 'dead'
  END AS over_by, cast(NULL AS bigint) AS replaced_by, cast(NULL AS bigint) AS follows
FROM sq_raw_items_by_time_of_status j
CROSS JOIN sq_raw_asked a;

CREATE OR REPLACE VIEW sq_raw_with_place_of_status AS
SELECT
  t.*, k.until AS kept_until,
  CASE
    WHEN t.follows IS NULL AND (k.until IS NULL OR k.until <= a.now) THEN t.by_time
    WHEN t.by_time = 'due' THEN 'delayed'
    WHEN t.by_time = 'lost' THEN 'kept'
    ELSE t.by_time
  END AS place
FROM sq_raw_timed_items_of_status t
LEFT JOIN sq_raw_kept_items_of_status k ON t.seq = k.seq
CROSS JOIN sq_raw_asked a;

CREATE OR REPLACE VIEW sq_raw_first_members AS
SELECT
  j.group_key,
  min(CASE WHEN j.place IN ('held', 'kept') THEN j.seq END) AS held,
  min(CASE WHEN j.place = 'lost' THEN j.seq END) AS lost,
  min(CASE WHEN j.place = 'due' THEN j.seq END) AS due
FROM sq_raw_with_place_of_status j
WHERE j.over_by IS NULL AND j.group_key IS NOT NULL
GROUP BY j.group_key;

CREATE OR REPLACE VIEW sq_raw_group_slots_of_status AS
SELECT
  j.group_key,
  count(CASE WHEN j.place IN ('held', 'kept') THEN 1 END) AS held,
  count(CASE WHEN j.place = 'lost' THEN 1 END) AS lost,
  min(CASE WHEN j.place = 'delayed' THEN j.seq END) AS barrier
FROM sq_raw_with_place_of_status j
WHERE j.over_by IS NULL AND j.group_key IS NOT NULL
GROUP BY j.group_key;

CREATE OR REPLACE VIEW sq_raw_room_of_status AS
SELECT
  CASE WHEN max(a.max_in_flight) IS NOT NULL
    THEN greatest(0, max(a.max_in_flight)
      - count(CASE WHEN j.over_by IS NULL AND j.place IN ('held', 'kept', 'lost') THEN 1 END))
  END AS room
FROM sq_raw_asked a
LEFT JOIN sq_raw_with_place_of_status j ON true;

CREATE OR REPLACE VIEW sq_raw_startable_items_of_status AS
SELECT m.seq, m.priority, m.fair_key, m.group_key, m.flow_keys, m.tag, m.inc, m.v, m.s, m.place
FROM (
  SELECT j.*, row_number() OVER (PARTITION BY j.group_key, j.place ORDER BY j.seq) AS nth
  FROM sq_raw_with_place_of_status j
  WHERE j.over_by IS NULL AND j.group_key IS NOT NULL AND j.place IN ('due', 'lost')
) m
JOIN sq_raw_group_slots_of_status g ON m.group_key = g.group_key
CROSS JOIN sq_raw_asked a
WHERE
  m.nth <= CASE WHEN a.run > 1 AND g.held > 0 THEN 0 ELSE a.group_limit * a.run - g.held END
    - CASE WHEN m.place = 'due' THEN g.lost ELSE 0 END
  AND (NOT a.blocking OR g.barrier IS NULL OR m.seq < g.barrier)
UNION ALL
SELECT j.seq, j.priority, j.fair_key, j.group_key, j.flow_keys, j.tag, j.inc, j.v, j.s, j.place
FROM sq_raw_with_place_of_status j
WHERE j.over_by IS NULL AND j.group_key IS NULL AND j.place IN ('due', 'lost');

CREATE OR REPLACE VIEW sq_raw_starting_items AS
SELECT j.seq
FROM sq_raw_taken t
JOIN sq_raw_with_place_of_status j ON t.seq = j.seq
WHERE j.place = 'due';

CREATE OR REPLACE VIEW sq_raw_flights_of_status AS
SELECT
  k.nth, k.key, count(*) AS items,
  coalesce(min(CASE WHEN NOT k.starts THEN k.seq END), min(k.seq)) AS holder,
  count(CASE WHEN NOT k.starts THEN 1 END) AS used
FROM (
  SELECT j.seq, m.nth, CASE m.place WHEN 0 THEN j.fair_key WHEN 1 THEN j.group_key
  ELSE get_json_object(j.flow_keys, m.path) END AS key, t.seq IS NOT NULL AS starts
  FROM sq_raw_with_place_of_status j
  LEFT JOIN sq_raw_starting_items t ON j.seq = t.seq
  CROSS JOIN sq_raw_limited m
  WHERE j.over_by IS NULL AND (j.place IN ('held', 'kept', 'lost') OR t.seq IS NOT NULL)
) k
WHERE k.key IS NOT NULL
GROUP BY k.nth, k.key;

CREATE OR REPLACE VIEW sq_raw_units_asked_of_status AS
SELECT
  q.seq, q.group_key, q.nth, q.key, q.by, q.units, q.per,
  cast(least(ceil(q.units * q.per / q.most), 315576e13) AS bigint) AS cost,
  cast(least(ceil(coalesce(q.burst, greatest(1e0, q.most * 25e7 / q.per)) * ceil(q.per / q.most)), 315576e13)
    AS bigint) AS allowance
FROM (
  SELECT
    k.seq, k.group_key, k.nth, k.key, k.by, k.units, k.per, k.burst,
    CASE WHEN o.nth IS NULL THEN k.most ELSE o.most END AS most
  FROM (
    SELECT
      e.seq, e.group_key, m.nth, m.by, m.per, m.burst, m.most,
      CASE WHEN m.by = '' THEN '' ELSE CASE m.place WHEN 0 THEN j.fair_key WHEN 1 THEN j.group_key
  ELSE get_json_object(j.flow_keys, m.path) END END AS key,
      coalesce(cast(get_json_object(j.units, m.units_path) AS double), 1e0) AS units
    FROM sq_raw_startable_items_of_status e
    JOIN sq_raw_with_place_of_status j ON e.seq = j.seq
    CROSS JOIN sq_raw_rates m
  ) k
  LEFT JOIN sq_raw_rate_overrides o ON k.nth = o.nth AND k.key = o.key
  WHERE k.key IS NOT NULL
) q
WHERE q.most IS NOT NULL;

CREATE OR REPLACE VIEW sq_raw_lacking_units_of_status AS
SELECT l.seq, l.group_key, l.nth, l.key, l.by, l.units, l.missing
FROM (
  SELECT
    u.*,
    greatest(CASE
      WHEN d.ahead <= u.allowance THEN d.owed - greatest(0, u.allowance - u.cost)
      WHEN d.since_righted < u.per
        THEN least(d.owed - greatest(0, u.allowance - u.cost), u.per - d.since_righted)
      ELSE 0
    END, coalesce(d.shut, 0)) AS missing
  FROM sq_raw_units_asked_of_status u
  JOIN (
    SELECT
      o.by, o.key, o.tat - a.now * 1000 AS owed, o.at - a.now * 1000 AS ahead,
      a.now * 1000 - o.righted AS since_righted, o.shut - a.now * 1000 AS shut
    FROM sq_raw_debts o
    CROSS JOIN sq_raw_asked a
  ) d ON u.by = d.by AND u.key = d.key
) l
WHERE l.missing > 0;

CREATE OR REPLACE VIEW sq_raw_kept_back_of_status AS
SELECT l.seq, l.group_key, l.nth, l.key, l.used, l.most, l.holder
FROM (
  SELECT
    k.seq, k.group_key, k.nth, k.key, f.holder,
    coalesce(f.items, 0) AS items, coalesce(f.used, 0) AS used,
    CASE WHEN o.nth IS NULL THEN k.most ELSE o.most END AS most
  FROM (
    SELECT e.seq, e.group_key, m.nth, m.most, CASE m.place WHEN 0 THEN e.fair_key WHEN 1 THEN e.group_key
  ELSE get_json_object(e.flow_keys, m.path) END AS key
    FROM sq_raw_startable_items_of_status e
    CROSS JOIN sq_raw_limited m
    WHERE e.place = 'due' AND m.nth >= 0
  ) k
  LEFT JOIN sq_raw_overrides o ON k.nth = o.nth AND k.key = o.key
  LEFT JOIN sq_raw_flights_of_status f ON k.nth = f.nth AND k.key = f.key
  WHERE k.key IS NOT NULL
) l
WHERE l.items >= l.most;

CREATE OR REPLACE VIEW sq_raw_short_keys AS
SELECT k.seq, k.nth, k.key, k.by, k.units, k.missing, k.items
FROM (
  SELECT
    l.*,
    row_number() OVER (PARTITION BY l.seq ORDER BY l.by = '', l.nth) AS place,
    count(*) OVER (PARTITION BY l.seq) AS items
  FROM sq_raw_lacking_units_of_status l
) k
WHERE k.place = 1;

CREATE OR REPLACE VIEW sq_raw_full_keys AS
SELECT k.seq, k.nth, k.key, k.used, k.most, k.holder, n.items
FROM sq_raw_kept_back_of_status k
JOIN (
  SELECT f.seq, min(f.nth) AS nth, count(*) AS items FROM sq_raw_kept_back_of_status f GROUP BY f.seq
) n ON k.seq = n.seq AND k.nth = n.nth;

CREATE OR REPLACE VIEW sq_raw_kept_heads AS
SELECT k.group_key, min(k.seq) AS seq
FROM (
  SELECT b.group_key, b.seq FROM sq_raw_kept_back_of_status b
  UNION ALL
  SELECT l.group_key, l.seq FROM sq_raw_lacking_units_of_status l
) k
WHERE k.group_key IS NOT NULL AND NOT EXISTS (SELECT 1 FROM sq_raw_taken t WHERE t.seq = k.seq)
GROUP BY k.group_key;

CREATE OR REPLACE VIEW sq_raw_reasons AS
SELECT
  r.seq,
  r.state,
  r.reason,
  CASE WHEN r.reason = 'held by group'
    THEN CASE WHEN r.is_startable THEN r.kept
      ELSE coalesce(CASE WHEN a.blocking AND g.barrier < r.seq THEN g.barrier END, f.held, f.lost, f.due) END
    WHEN r.reason = 'key limit' THEN r.holder
    WHEN r.reason = 'replaced' THEN r.replaced_by
    WHEN r.reason = 'follows' THEN r.follows
  END AS held_by,
  CASE WHEN r.reason = 'key limit' THEN r.nth END AS full_limit,
  CASE WHEN r.reason = 'key limit' THEN r.key END AS full_key,
  CASE WHEN r.reason = 'key limit' THEN r.used END AS used,
  CASE WHEN r.reason = 'key limit' THEN r.most END AS most,
  CASE WHEN r.reason IN ('key rate', 'rate') THEN r.rate END AS rate,
  CASE WHEN r.reason IN ('key rate', 'rate') THEN r.rate_key END AS rate_key,
  CASE WHEN r.reason IN ('key rate', 'rate') THEN r.rate_units END AS rate_units,
  CASE r.reason
    WHEN 'leased' THEN r.lease_expires_at + a.lease_grace
    WHEN 'key paused' THEN nullif(r.kept_until, 9223372036854775807)
    WHEN 'delayed' THEN r.available_at
    WHEN 'key rate' THEN a.now + cast(ceil(r.missing / 1e3) AS bigint)
    WHEN 'rate' THEN a.now + cast(ceil(r.missing / 1e3) AS bigint)
  END AS until,
  CASE WHEN r.reason IN ('leased', 'runnable') THEN 0 ELSE r.reasons - 1 END AS more,
  r.place = 'lost' AS is_lapsed,
  r.fair_key,
  r.group_key,
  r.flow_keys,
  r.enqueued_at,
  r.moved_at,
  r.waits_since,
  r.available_at,
  r.ends_at AS expires_at,
  r.attempts,
  r.losses,
  r.deferrals,
  r.lease,
  r.worker_id,
  r.claimed_at,
  r.lease_expires_at,
  r.failed_step
FROM (
  SELECT
    j.*, e.seq IS NOT NULL AS is_startable, h.seq AS kept, k.nth, k.key, k.used, k.most, k.holder,
    s.nth AS rate, s.key AS rate_key, s.units AS rate_units, s.missing,
    CASE WHEN b.paused THEN 1 ELSE 0 END + CASE
      WHEN j.over_by IS NOT NULL THEN 1
      WHEN j.place IN ('delayed', 'kept') THEN CASE WHEN j.kept_until > b.now THEN 1 ELSE 0 END
        + CASE WHEN j.follows IS NOT NULL THEN 1 ELSE 0 END
        + CASE WHEN j.by_time = 'delayed' THEN 1 ELSE 0 END
      WHEN e.seq IS NULL OR h.seq < j.seq THEN 1
      ELSE coalesce(k.items, 0) + coalesce(s.items, 0)
        + CASE WHEN j.place = 'due' AND m.room <= n.starting THEN 1 ELSE 0 END
    END AS reasons,
    CASE
      WHEN j.place = 'held' THEN 'leased'
      WHEN b.paused THEN 'paused'
      WHEN j.over_by = 'expired' THEN 'expired'
      WHEN j.over_by = 'dead' THEN 'lease lost'
      WHEN j.over_by = 'cancelled' THEN 'replaced'
      WHEN j.kept_until > b.now THEN 'key paused'
      WHEN j.follows IS NOT NULL THEN 'follows'
      WHEN j.place = 'delayed' THEN 'delayed'
      WHEN t.seq IS NOT NULL THEN 'runnable'
      WHEN e.seq IS NULL OR h.seq < j.seq THEN 'held by group'
      WHEN k.seq IS NOT NULL THEN 'key limit'
      WHEN s.by = '' THEN 'rate'
      WHEN s.seq IS NOT NULL THEN 'key rate'
      WHEN j.place = 'due' AND m.room <= n.starting THEN 'limit'
      ELSE 'runnable'
    END AS reason
  FROM sq_raw_with_place_of_status j
  LEFT JOIN sq_raw_startable_items_of_status e ON j.seq = e.seq
  LEFT JOIN sq_raw_taken t ON j.seq = t.seq
  LEFT JOIN sq_raw_kept_heads h ON j.group_key = h.group_key
  LEFT JOIN sq_raw_full_keys k ON j.seq = k.seq
  LEFT JOIN sq_raw_short_keys s ON j.seq = s.seq
  CROSS JOIN sq_raw_room_of_status m
  CROSS JOIN (SELECT count(*) AS starting FROM sq_raw_starting_items) n
  CROSS JOIN sq_raw_asked b
) r
LEFT JOIN sq_raw_group_slots_of_status g ON r.group_key = g.group_key
LEFT JOIN sq_raw_first_members f ON r.group_key = f.group_key
CROSS JOIN sq_raw_asked a;

-- Why each open item is not running, as `explain` says it: the first of lease, pause, end, pause of
-- a key, delay, group, limit of a key, rate of a key, rate of the queue and limit of the queue, and how many
-- `more` there are. `held_by` is the item that is in the way: of its group one
-- that waits for its time, or else the earliest in flight, or else the first that a limit or a rate keeps back; or the
-- first in flight of `full_key`, by the limit at the place `full_limit`, which has `used` of `most`. What
-- the next claim ends is in nobody's way. `rate_key` lacks the `rate_units` of the rate at the place `rate`.
-- A claim of any length would take what is runnable.
CREATE OR REPLACE VIEW sq_reasons AS
SELECT r.seq, r.state, r.reason, r.held_by, r.full_limit, r.full_key, r.used, r.most, r.rate, r.rate_key, r.rate_units, timestamp_micros(r.until) AS until, r.more, r.is_lapsed, r.fair_key, r.group_key, r.flow_keys, timestamp_micros(r.enqueued_at) AS enqueued_at, timestamp_micros(r.moved_at) AS moved_at, timestamp_micros(r.waits_since) AS waits_since, timestamp_micros(r.available_at) AS available_at, timestamp_micros(r.expires_at) AS expires_at, r.attempts, r.losses, r.deferrals, r.lease, r.worker_id, timestamp_micros(r.claimed_at) AS claimed_at, timestamp_micros(r.lease_expires_at) AS lease_expires_at, r.failed_step
FROM sq_raw_reasons r;

CREATE OR REPLACE VIEW sq_raw_runnable AS
WITH done_with AS (
  SELECT group_key, max(moved_at) AS moved_at
  FROM sq_raw_status
  WHERE group_key IS NOT NULL AND state <> 'ready'
  GROUP BY group_key
)
SELECT
  r.seq,
  r.fair_key,
  greatest(r.waits_since, r.moved_at, d.moved_at) AS since
FROM sq_raw_reasons r
LEFT JOIN done_with d ON d.group_key = r.group_key
WHERE r.state = 'ready' AND r.reason = 'runnable';

-- Ready items that nothing but their turn keeps from a claim, and since when: of a group not before
-- anything was last done with one of it.
CREATE OR REPLACE VIEW sq_runnable AS
SELECT r.seq, r.fair_key, timestamp_micros(r.since) AS since
FROM sq_raw_runnable r;

CREATE OR REPLACE VIEW sq_raw_failures AS
SELECT
  seq,
  step,
  m.at,
  attempts,
  translate(substr(split_part(error, chr(10), 1), 1, 300), '0123456789', '0000000000') AS said
FROM sq_raw_transitions m
WHERE failed;

-- Every failure, with the begin of what its error says; all digits are 0 there, so that there are
-- few of them.
CREATE OR REPLACE VIEW sq_failures AS
SELECT r.seq, r.step, timestamp_micros(r.at) AS moment, r.attempts, r.said
FROM sq_raw_failures r;

CREATE OR REPLACE VIEW sq_raw_wordings AS
WITH distinct_texts AS (
  SELECT DISTINCT said FROM sq_raw_failures
),
without_ids AS (
  SELECT
    said AS whole,
    regexp_replace(
      regexp_replace(
        said,
        '[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}',
        '<id>'
      ),
      '0[xX][0-9a-fA-F]+',
      '<id>'
    ) AS said
  FROM distinct_texts
),
without_paths AS (
  SELECT
    whole,
    regexp_replace(
      said,
      '(^|[^0-9A-Za-z<])(([A-Za-z][0-9A-Za-z]*:/)?/[^/ ",;:()<>' || chr(39) || ']+)+/?',
      '$1<path>'
    ) AS said
  FROM without_ids
),
without_hex AS (
  SELECT
    whole,
    regexp_replace(
      said,
      '(^|[^0-9A-Za-z])(([0-9]+[a-fA-F]|[a-fA-F]+[0-9])[0-9a-fA-F]{3,}|[0-9]*[a-fA-F][0-9a-fA-F]{11,})',
      '$1<id>'
    ) AS said
  FROM without_paths
)
SELECT
  whole AS said,
  regexp_replace(said, '[0-9]+([.][0-9]+)?', '<n>') AS wording
FROM without_hex;

-- What errors say without what differs from item to item: ids, paths and numbers. `said` is as in
-- `sq_failures`.
CREATE OR REPLACE VIEW sq_wordings AS
SELECT r.said, r.wording
FROM sq_raw_wordings r;

CREATE OR REPLACE VIEW sq_raw_redriven AS
SELECT i.origin, i.seq FROM sq_raw_items i WHERE i.origin IS NOT NULL;

CREATE OR REPLACE VIEW sq_raw_successors AS
SELECT r.origin, max(r.seq) AS seq FROM sq_raw_redriven r GROUP BY r.origin;

CREATE OR REPLACE VIEW sq_raw_lasting AS
SELECT s.seq, s.fair_key, s.state, s.enqueued_at, s.finished_at
FROM sq_raw_status s
LEFT JOIN (SELECT origin, enqueued_at FROM sq_raw_status WHERE origin IS NOT NULL) back
  ON back.origin = s.seq AND back.enqueued_at = s.enqueued_at
WHERE back.origin IS NULL;

CREATE OR REPLACE VIEW sq_raw_forecast AS
WITH edges AS (
  SELECT e.seconds
  FROM (
    VALUES (20), (40), (60), (80), (120), (180), (240), (300), (460), (600), (900), (1200), (1800), (2700),
      (3600), (7200), (14400), (28800), (43200), (86400)
  ) AS e(seconds)
),
asked AS (
  SELECT now, greatest(600e0, (now - since) / 1e6) AS seconds FROM sq_raw_asked
),
events AS (
  SELECT enqueued_at AS moment, 1 AS items, 1 AS entered, 0 AS ended, 0 AS acked FROM sq_raw_lasting
  UNION ALL
  SELECT finished_at, -1, 0, 1, CASE WHEN state = 'acked' THEN 1 ELSE 0 END
  FROM sq_raw_lasting
  WHERE finished_at IS NOT NULL
),
-- By how many seconds before now they happened: in up to 20, in up to 40, and so on.
parts AS (
  SELECT
    20 * cast(greatest(1e0, ceil((a.now - e.moment) / 2e7)) AS bigint) AS seconds,
    sum(e.items) AS items,
    sum(e.entered) AS entered,
    sum(e.ended) AS ended,
    sum(e.acked) AS acked
  FROM events e
  CROSS JOIN asked a
  WHERE e.moment > a.now - a.seconds * 1e6
  GROUP BY 1
),
opened AS (
  SELECT count(CASE WHEN finished_at IS NULL THEN 1 END) AS items, min(enqueued_at) AS first_at
  FROM sq_raw_lasting
),
falls AS (
  SELECT
    g.seconds,
    cast(-coalesce(sum(p.items), 0) AS bigint) AS fall,
    cast(coalesce(sum(p.ended), 0) AS bigint) AS ended
  FROM edges g
  JOIN asked a ON g.seconds <= a.seconds
  LEFT JOIN parts p ON p.seconds <= g.seconds
  GROUP BY g.seconds
),
span AS (
  SELECT
    CASE WHEN max(CASE WHEN f.seconds <= 600 THEN f.ended END) >= 30 THEN 600 ELSE max(f.seconds) END
      AS seconds,
    max(CASE WHEN f.seconds <= 600 THEN f.ended END) = 0 AND max(f.ended) >= 30 AS is_over
  FROM falls f
),
seen AS (
  SELECT f.seconds, f.fall, s.seconds AS span, s.is_over
  FROM falls f
  JOIN span s ON f.seconds <= s.seconds
),
peaks AS (
  SELECT max(fall) AS fall, min(CASE WHEN seconds <= 600 THEN fall END) AS rise FROM seen
),
-- Since there was most; where it was so for a while, half of the time counts.
peak AS (
  SELECT
    greatest(min(s.seconds), least(max(s.span) / 2e0, max(s.seconds))) AS seconds,
    max(s.span) AS span,
    max(CASE WHEN s.is_over THEN 0 ELSE p.fall END) AS fall,
    max(p.rise) AS rise
  FROM peaks p
  JOIN seen s ON s.fall = p.fall
),
estimates AS (
  SELECT
    count(CASE WHEN s.fall <= 0 AND s.seconds <= p.seconds THEN 1 END) AS still,
    min(CASE WHEN s.fall > 0 THEN s.seconds / cast(s.fall AS double) END) AS least,
    max(CASE WHEN s.fall > 0 THEN s.seconds / cast(s.fall AS double) END) AS most
  FROM seen s
  JOIN peak p ON s.seconds * 5 >= p.span OR s.seconds = p.seconds
),
lately AS (
  SELECT
    coalesce(sum(p.acked), 0) / max(t.seconds) AS acked,
    coalesce(sum(p.entered), 0) / max(t.seconds) AS entered
  FROM (
    SELECT least(3e2, (a.now - o.first_at) / 1e6) AS seconds FROM opened o CROSS JOIN asked a
  ) t
  LEFT JOIN parts p ON p.seconds <= 300
  WHERE t.seconds > 0
)
SELECT
  CASE
    WHEN o.items = 0 THEN 'done'
    WHEN k.fall > 0 THEN 'falls'
    WHEN k.rise < 0 THEN 'rises'
    ELSE 'stays'
  END AS trend,
  CASE WHEN o.items = 0 THEN 0e0 WHEN k.fall > 0 THEN o.items * k.seconds / k.fall END AS time_left,
  CASE
    WHEN o.items > 0 AND k.fall > 0 THEN o.items * least(e.least, k.seconds / cast(k.fall AS double))
  END AS time_left_least,
  CASE
    WHEN o.items > 0 AND k.fall > 0 AND e.still = 0
      THEN o.items * greatest(e.most, k.seconds / cast(k.fall AS double))
  END AS time_left_most,
  l.acked AS acked_per_second_now,
  l.entered AS enqueued_per_second_now
FROM opened o
CROSS JOIN peak k
CROSS JOIN estimates e
LEFT JOIN lately l ON true;

CREATE OR REPLACE VIEW sq_raw_overview AS
WITH waiting AS (
  SELECT
    count(CASE WHEN reason = 'runnable' AND state = 'ready' THEN 1 END) AS runnable,
    count(CASE WHEN reason = 'delayed' THEN 1 END) AS delayed,
    count(CASE WHEN reason = 'held by group' AND state = 'ready' THEN 1 END) AS held_by_group,
    count(CASE WHEN reason = 'key limit' THEN 1 END) AS over_a_key_limit,
    count(DISTINCT CASE WHEN reason = 'key limit' THEN concat(cast(full_limit AS string), ' ', full_key) END)
      AS keys_at_a_limit,
    count(CASE WHEN reason IN ('key rate', 'rate') AND state = 'ready' THEN 1 END) AS over_a_rate,
    count(CASE WHEN reason = 'key paused' AND state = 'ready' THEN 1 END) AS of_paused_keys,
    count(CASE WHEN reason = 'limit' THEN 1 END) AS over_a_limit,
    count(CASE WHEN reason = 'paused' AND state = 'ready' THEN 1 END) AS paused_items,
    count(CASE WHEN reason = 'expired' AND state = 'ready' THEN 1 END) AS past_their_time,
    count(CASE WHEN state = 'claimed' THEN 1 END) AS claimed,
    count(CASE WHEN is_lapsed THEN 1 END) AS late,
    min(CASE WHEN state = 'ready' THEN waits_since END) AS oldest
  FROM sq_raw_reasons
),
flow AS (
  SELECT
    count(CASE WHEN s.state = 'acked' THEN 1 END) AS acked,
    count(CASE WHEN s.state = 'dead' AND r.origin IS NULL THEN 1 END) AS dead,
    count(CASE WHEN s.state = 'dead' AND r.origin IS NULL AND s.finished_at > a.since THEN 1 END)
      AS dead_in_window,
    min(CASE WHEN s.state = 'dead' AND r.origin IS NULL AND s.finished_at > a.since THEN s.finished_at END)
      AS dead_since,
    count(CASE WHEN s.state = 'expired' AND r.origin IS NULL THEN 1 END) AS expired,
    count(CASE WHEN s.state = 'cancelled' AND r.origin IS NULL THEN 1 END) AS cancelled,
    count(CASE WHEN s.state IN ('dead', 'expired', 'cancelled') THEN r.origin END) AS redriven,
    count(CASE WHEN s.finished_at > a.since AND s.state = 'acked' THEN 1 END) AS done,
    max(s.claimed_at) AS last_claim_at,
    max(CASE WHEN s.state = 'acked' THEN s.finished_at END) AS last_ack_at,
    (max(a.now) - greatest(max(a.since), min(s.enqueued_at)))
      / 1e6 AS seconds
  FROM sq_raw_status s
  LEFT JOIN sq_raw_successors r ON r.origin = s.seq
  CROSS JOIN sq_raw_asked a
),
entered AS (
  SELECT count(*) AS items
  FROM sq_raw_lasting l
  CROSS JOIN sq_raw_asked a
  WHERE l.enqueued_at > a.since
)
SELECT
  w.runnable,
  w.delayed,
  w.held_by_group,
  w.over_a_key_limit, w.keys_at_a_limit, w.over_a_rate, w.of_paused_keys,
  w.over_a_limit,
  w.paused_items,
  w.past_their_time,
  w.claimed,
  w.late,
  f.acked,
  f.dead,
  f.dead_in_window,
  f.dead_since,
  f.expired,
  f.cancelled,
  f.redriven,
  CASE WHEN w.oldest <= a.now THEN (a.now - w.oldest) / 1e6 END AS oldest_age,
  r.since AS runnable_since,
  f.last_claim_at,
  f.last_ack_at,
  n.items AS enqueued_in_window,
  f.done AS done_in_window,
  CASE WHEN f.seconds > 0 THEN n.items / f.seconds END AS enqueued_per_second,
  CASE WHEN f.seconds > 0 THEN f.done / f.seconds END AS done_per_second,
  f.seconds,
  c.enqueued_per_second_now,
  c.acked_per_second_now AS done_per_second_now,
  c.trend,
  c.time_left,
  c.time_left_least,
  c.time_left_most
FROM waiting w
CROSS JOIN flow f
CROSS JOIN entered n
CROSS JOIN sq_raw_forecast c
CROSS JOIN (SELECT min(since) AS since FROM sq_raw_runnable) r
CROSS JOIN sq_raw_asked a;

-- How much is where, what comes and goes, and how long what is open will take (`sq_forecast`). What was
-- enqueued again after its end is `redriven`, and neither dead, expired nor cancelled. The speeds are of the
-- `seconds` of the window in which there was an item.
CREATE OR REPLACE VIEW sq_overview AS
SELECT r.runnable, r.delayed, r.held_by_group, r.over_a_key_limit, r.keys_at_a_limit, r.over_a_rate, r.of_paused_keys, r.over_a_limit, r.paused_items, r.past_their_time, r.claimed, r.late, r.acked, r.dead, r.dead_in_window, timestamp_micros(r.dead_since) AS dead_since, r.expired, r.cancelled, r.redriven, r.oldest_age, timestamp_micros(r.runnable_since) AS runnable_since, timestamp_micros(r.last_claim_at) AS last_claim_at, timestamp_micros(r.last_ack_at) AS last_ack_at, r.enqueued_in_window, r.done_in_window, r.enqueued_per_second, r.done_per_second, r.seconds, r.enqueued_per_second_now, r.done_per_second_now, r.trend, r.time_left, r.time_left_least, r.time_left_most
FROM sq_raw_overview r;

CREATE OR REPLACE VIEW sq_raw_depth AS
WITH edges AS (
  SELECT 8 * a.n + b.n AS edge
  FROM (VALUES (0), (1), (2), (3), (4), (5)) AS a(n)
  CROSS JOIN (VALUES (0), (1), (2), (3), (4), (5), (6), (7)) AS b(n)
),
events AS (
  SELECT enqueued_at AS moment, 1 AS items FROM sq_raw_lasting
  UNION ALL
  SELECT finished_at AS moment, -1 AS items FROM sq_raw_lasting WHERE finished_at IS NOT NULL
),
placed AS (
  SELECT
    greatest(0e0, ceil(47 - (a.now - e.moment) / 1.8e9)) AS edge,
    e.items
  FROM events e
  CROSS JOIN sq_raw_asked a
),
summed AS (
  SELECT edge, sum(items) AS items FROM placed GROUP BY edge
)
SELECT
  max(a.now) - (47 - e.edge) * cast(1800000000 AS bigint) AS moment,
  cast(coalesce(sum(s.items), 0) AS bigint) AS items
FROM edges e
CROSS JOIN sq_raw_asked a
LEFT JOIN summed s ON s.edge <= e.edge
GROUP BY e.edge
ORDER BY moment;

-- How many items were open, every half hour of the last day. What was made ready again after its end
-- counts as if it had never been over.
CREATE OR REPLACE VIEW sq_depth AS
SELECT timestamp_micros(r.moment) AS moment, r.items
FROM sq_raw_depth r;

CREATE OR REPLACE VIEW sq_raw_flow AS
WITH parts AS (
  SELECT 10 * a.n + b.n AS part
  FROM (VALUES (0), (1), (2), (3), (4), (5)) AS a(n)
  CROSS JOIN (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) AS b(n)
),
asked AS (
  SELECT
    since,
    (now - since) / 60e0 AS part_us
  FROM sq_raw_asked
),
events AS (
  SELECT enqueued_at AS moment, 1 AS items, 1 AS entered, 0 AS done, 0 AS failed FROM sq_raw_lasting
  UNION ALL
  SELECT finished_at, -1, 0, CASE WHEN state = 'acked' THEN 1 ELSE 0 END, 0
  FROM sq_raw_lasting
  WHERE finished_at IS NOT NULL
  UNION ALL
  SELECT m.at, 0, 0, 0, 1 FROM sq_raw_transitions m WHERE m.failed
),
placed AS (
  SELECT
    cast(
      greatest(-1e0, least(59e0, ceil((e.moment - a.since) / a.part_us) - 1)) AS bigint
    ) AS part,
    e.items,
    e.entered,
    e.done,
    e.failed
  FROM events e
  CROSS JOIN asked a
),
summed AS (
  SELECT
    part,
    sum(items) AS items,
    sum(entered) AS entered,
    sum(done) AS done,
    sum(failed) AS failed
  FROM placed
  GROUP BY part
)
SELECT
  cast(max(a.since + p.part * a.part_us) AS bigint) AS moment,
  cast(coalesce(sum(CASE WHEN s.part = p.part THEN s.entered END), 0) AS bigint) AS entered,
  cast(coalesce(sum(CASE WHEN s.part = p.part THEN s.done END), 0) AS bigint) AS done,
  cast(coalesce(sum(CASE WHEN s.part = p.part THEN s.failed END), 0) AS bigint) AS failed,
  cast(coalesce(sum(s.items), 0) AS bigint) AS items
FROM parts p
CROSS JOIN asked a
LEFT JOIN summed s ON s.part <= p.part
GROUP BY p.part
ORDER BY moment;

-- The window in sixty parts, of a minute each where it is an hour: items that entered, that were
-- acked, attempts that failed, and how many items were open at its end. What was made ready again after
-- its end counts as if it had never been over, as in the depth of a day.
CREATE OR REPLACE VIEW sq_flow AS
SELECT timestamp_micros(r.moment) AS moment, r.entered, r.done, r.failed, r.items
FROM sq_raw_flow r;

CREATE OR REPLACE VIEW sq_raw_starving AS
WITH turns AS (
  SELECT s.fair_key, count(*) AS turns
  FROM sq_raw_transitions m
  JOIN sq_raw_status s ON s.seq = m.seq
  CROSS JOIN sq_raw_asked a
  WHERE m.at > a.since AND m.granted
  GROUP BY s.fair_key
),
every_turn AS (
  SELECT cast(sum(turns) AS bigint) AS turns, count(*) AS served FROM turns
),
waiting AS (
  SELECT fair_key, count(*) AS items, min(since) AS since FROM sq_raw_runnable GROUP BY fair_key
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
  CROSS JOIN sq_raw_asked a
  WHERE c.since <= a.since AND c.turns * 20 * c.others < c.turns_of_others
)
SELECT s.fair_key, s.items, s.since, min(r.seq) AS seq, s.turns, s.turns_of_others
FROM starving s
JOIN sq_raw_runnable r ON r.fair_key IS NOT DISTINCT FROM s.fair_key AND r.since = s.since
GROUP BY s.fair_key, s.items, s.since, s.turns, s.turns_of_others
ORDER BY s.since, seq
LIMIT 100;

-- The fair keys with items that nothing but their turn keeps from a claim, for the whole window, and
-- that got no turn in it, or less than a twentieth of what each other key got: how many could run,
-- since when, and the first of them. The longest first.
CREATE OR REPLACE VIEW sq_starving AS
SELECT r.fair_key, r.items, timestamp_micros(r.since) AS since, r.seq, r.turns, r.turns_of_others
FROM sq_raw_starving r;

CREATE OR REPLACE VIEW sq_raw_service_times AS
SELECT
  g.seq,
  g.worker_id,
  t.at AS ended_at,
  t.state = 'acked' AS acked,
  (t.at - g.at) / 1e6 AS seconds
FROM sq_raw_transitions t
JOIN sq_raw_transitions g ON g.seq = t.seq AND g.lease = t.lease AND g.granted
CROSS JOIN sq_raw_asked a
WHERE t.at > a.since AND t.step > g.step AND t.losses = g.losses AND (t.state = 'acked' OR t.failed);

CREATE OR REPLACE VIEW sq_raw_tenants AS
WITH turns AS (
  SELECT
    s.fair_key,
    count(CASE WHEN m.granted THEN 1 END) AS turns,
    count(CASE WHEN m.failed THEN 1 END) AS failures
  FROM sq_raw_transitions m
  JOIN sq_raw_status s ON s.seq = m.seq
  CROSS JOIN sq_raw_asked a
  WHERE m.at > a.since AND (m.granted OR m.failed)
  GROUP BY s.fair_key
),
waits AS (
  SELECT
    s.fair_key,
    s.waited / 1e6 AS wait
  FROM sq_raw_status s
  CROSS JOIN sq_raw_asked a
  WHERE s.first_claimed_at > a.since
),
waited AS (
  SELECT
    fair_key,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY wait) AS wait_p50,
    percentile_disc(0.95) WITHIN GROUP (ORDER BY wait) AS wait_p95,
    max(wait) AS wait_max
  FROM waits
  GROUP BY fair_key
),
worked AS (
  SELECT
    s.fair_key,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY w.seconds) AS work_p50,
    percentile_disc(0.95) WITHIN GROUP (ORDER BY w.seconds) AS work_p95
  FROM sq_raw_service_times w
  JOIN sq_raw_status s ON s.seq = w.seq
  GROUP BY s.fair_key
),
standing AS (
  SELECT
    s.fair_key,
    count(CASE WHEN s.state = 'ready' THEN 1 END) AS ready,
    count(CASE WHEN s.state = 'claimed' THEN 1 END) AS claimed,
    count(CASE WHEN s.state = 'dead' AND r.origin IS NULL THEN 1 END) AS dead,
    max(CASE WHEN s.state = 'ready' AND s.waits_since <= a.now THEN a.now - s.waits_since END) / 1e6
      AS oldest_age
  FROM sq_raw_status s
  LEFT JOIN sq_raw_successors r ON r.origin = s.seq
  CROSS JOIN sq_raw_asked a
  GROUP BY s.fair_key
),
every_turn AS (
  SELECT cast(sum(turns) AS bigint) AS turns FROM turns
),
joined AS (
  SELECT
    s.fair_key,
    s.ready,
    s.claimed,
    s.dead,
    coalesce(t.turns, 0) AS turns,
    CASE WHEN e.turns > 0 THEN coalesce(t.turns, 0) / cast(e.turns AS double) END AS share,
    w.wait_p50,
    w.wait_p95,
    w.wait_max,
    k.work_p50,
    k.work_p95,
    s.oldest_age,
    coalesce(t.failures, 0) AS failures,
    x.items IS NOT NULL AS starving,
    s.ready + s.claimed + coalesce(t.turns, 0) + coalesce(t.failures, 0) = 0 AS idle
  FROM standing s
  LEFT JOIN turns t ON t.fair_key IS NOT DISTINCT FROM s.fair_key
  LEFT JOIN waited w ON w.fair_key IS NOT DISTINCT FROM s.fair_key
  LEFT JOIN worked k ON k.fair_key IS NOT DISTINCT FROM s.fair_key
  LEFT JOIN sq_raw_starving x ON x.fair_key IS NOT DISTINCT FROM s.fair_key
  CROSS JOIN every_turn e
),
ranked AS (
  SELECT
    *,
    row_number() OVER (
      ORDER BY greatest(coalesce(oldest_age, 0e0), coalesce(wait_p95, 0e0)) DESC, fair_key
    ) AS slow,
    row_number() OVER (ORDER BY failures DESC, dead DESC, fair_key) AS noisy,
    count(*) OVER () AS keys,
    count(CASE WHEN idle THEN 1 END) OVER () AS idle_keys,
    cast(sum(CASE WHEN idle THEN dead ELSE 0 END) OVER () AS bigint) AS idle_dead
  FROM joined
)
SELECT
  fair_key,
  ready,
  claimed,
  dead,
  turns,
  share,
  wait_p50,
  wait_p95,
  wait_max,
  work_p50,
  work_p95,
  oldest_age,
  failures,
  starving,
  idle,
  keys,
  idle_keys,
  idle_dead
FROM ranked
ORDER BY starving DESC, idle, least(slow, noisy), slow
LIMIT 100;

-- The fair keys: turns in the window and the share of all, how long those waited that got their first
-- turn in it, failures in it. Those that starve come first (`sq_starving`); then the slowest and the
-- one that fails most often, then the second of each; the idle ones last, of which nothing is open and
-- nothing happened in the window.
CREATE OR REPLACE VIEW sq_tenants AS
SELECT r.fair_key, r.ready, r.claimed, r.dead, r.turns, r.share, r.wait_p50, r.wait_p95, r.wait_max, r.work_p50, r.work_p95, r.oldest_age, r.failures, r.starving, r.idle, r.keys, r.idle_keys, r.idle_dead
FROM sq_raw_tenants r;

CREATE OR REPLACE VIEW sq_raw_errors AS
WITH worded AS (
  SELECT w.wording, f.seq, f.step, f.at, f.attempts
  FROM sq_raw_failures f
  JOIN sq_raw_wordings w ON w.said = f.said
),
grouped AS (
  SELECT
    f.wording,
    count(*) AS failures,
    count(CASE WHEN f.at > a.since THEN 1 END) AS in_window,
    count(DISTINCT f.seq) AS items,
    max(f.attempts) AS attempts,
    min(f.at) AS first_at,
    max(f.at) AS last_at,
    min(f.seq) AS first_seq,
    max(f.seq) AS last_seq,
    max(f.step) AS last_step
  FROM worded f
  CROSS JOIN sq_raw_asked a
  GROUP BY f.wording
),
newest AS (
  SELECT g.wording, g.last_step AS step, max(f.seq) AS seq
  FROM grouped g
  JOIN worded f ON f.wording = g.wording AND f.step = g.last_step
  GROUP BY g.wording, g.last_step
),
ended AS (
  SELECT
    f.wording,
    count(*) AS dead,
    count(CASE WHEN s.finished_at > a.since THEN 1 END) AS dead_in_window
  FROM sq_raw_status s
  JOIN worded f ON f.seq = s.seq AND f.step = s.failed_step
  LEFT JOIN sq_raw_successors r ON r.origin = s.seq
  CROSS JOIN sq_raw_asked a
  WHERE s.state = 'dead' AND r.origin IS NULL
  GROUP BY f.wording
)
SELECT
  g.wording,
  g.failures,
  g.in_window,
  g.items,
  g.attempts,
  coalesce(e.dead, 0) AS dead,
  coalesce(e.dead_in_window, 0) AS dead_in_window,
  g.first_at,
  g.last_at,
  g.first_seq,
  g.last_seq,
  n.seq AS newest_seq,
  m.error AS sample,
  count(*) OVER () AS wordings
FROM grouped g
JOIN newest n ON n.wording = g.wording
JOIN sq_raw_transitions m ON m.seq = n.seq AND m.step = n.step
LEFT JOIN ended e ON e.wording = g.wording
ORDER BY g.in_window DESC, g.failures DESC, g.wording
LIMIT 100;

-- What fails, by what the error says: how often, in the window and ever, since when, for how many
-- items. `dead` are those that it ended and that were not redriven; `first_seq`, `last_seq` and
-- `newest_seq` are items to look at, `sample` is what the newest failed with.
CREATE OR REPLACE VIEW sq_errors AS
SELECT r.wording, r.failures, r.in_window, r.items, r.attempts, r.dead, r.dead_in_window, timestamp_micros(r.first_at) AS first_at, timestamp_micros(r.last_at) AS last_at, r.first_seq, r.last_seq, r.newest_seq, r.sample, r.wordings
FROM sq_raw_errors r;

CREATE OR REPLACE VIEW sq_raw_retries AS
WITH parts AS (
  SELECT 10 * a.n + b.n AS part
  FROM (VALUES (0), (1), (2), (3), (4), (5)) AS a(n)
  CROSS JOIN (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) AS b(n)
),
asked AS (
  SELECT
    since,
    (now - since) / 60e0 AS part_us
  FROM sq_raw_asked
),
placed AS (
  SELECT
    least(59, cast(floor((m.at - a.since) / a.part_us) AS bigint)) AS part,
    m.failed,
    m.granted,
    m.state,
    m.attempts + m.losses + m.deferrals > 0 AS again,
    m.state = 'cancelled' AND coalesce(m.error LIKE 'replaced by %', false) AS replaced
  FROM sq_raw_transitions m
  CROSS JOIN asked a
  WHERE m.at > a.since AND (m.failed OR m.granted OR m.state = 'cancelled')
),
counted AS (
  SELECT
    part,
    count(CASE WHEN failed THEN 1 END) AS failures,
    count(CASE WHEN failed AND state = 'dead' THEN 1 END) AS dead,
    count(CASE WHEN granted THEN 1 END) AS claimed,
    count(CASE WHEN granted AND again THEN 1 END) AS claimed_again,
    count(CASE WHEN replaced THEN 1 END) AS replaced
  FROM placed
  GROUP BY part
)
SELECT
  cast(a.since + p.part * a.part_us AS bigint) AS moment,
  coalesce(c.failures, 0) AS failures,
  coalesce(c.dead, 0) AS dead,
  coalesce(c.claimed, 0) AS claimed,
  coalesce(c.claimed_again, 0) AS claimed_again,
  coalesce(c.replaced, 0) AS replaced
FROM parts p
CROSS JOIN asked a
LEFT JOIN counted c ON c.part = p.part
ORDER BY moment;

-- The window in sixty parts, of a minute each where it is an hour: failures, what of them was final,
-- what was claimed, what of that had failed or been lost before, and what others of its key replaced.
CREATE OR REPLACE VIEW sq_retries AS
SELECT timestamp_micros(r.moment) AS moment, r.failures, r.dead, r.claimed, r.claimed_again, r.replaced
FROM sq_raw_retries r;

CREATE OR REPLACE VIEW sq_raw_groups AS
WITH behind AS (
  SELECT group_key, held_by, count(*) AS behind, min(waits_since) AS oldest
  FROM sq_raw_reasons
  WHERE reason = 'held by group' AND held_by IS NOT NULL
  GROUP BY group_key, held_by
),
failed AS (
  SELECT m.seq, max_by(m.error, m.step) AS error
  FROM behind b
  JOIN sq_raw_transitions m ON m.seq = b.held_by AND m.failed
  JOIN sq_raw_transitions g ON g.seq = m.seq AND g.step = m.lease AND g.attempts < m.attempts
  GROUP BY m.seq
)
SELECT
  b.group_key,
  b.held_by AS head,
  h.reason AS why,
  CASE WHEN h.state = 'claimed' THEN h.claimed_at ELSE h.moved_at END AS since,
  CASE WHEN h.state = 'claimed' THEN h.lease_expires_at + a.lease_grace ELSE h.until END AS until,
  b.behind,
  greatest(0e0, (a.now - b.oldest) / 1e6) AS oldest_age,
  h.attempts,
  h.losses,
  h.worker_id,
  f.error,
  count(*) OVER () AS heads
FROM behind b
JOIN sq_raw_reasons h ON h.seq = b.held_by
LEFT JOIN failed f ON f.seq = h.seq
CROSS JOIN sq_raw_asked a
ORDER BY b.behind DESC, b.held_by
LIMIT 100;

-- The groups that wait for one of their own: which item is in the way and why, since when and until
-- when, and how many are behind it. Its error is that of its last failure; a loss has none.
CREATE OR REPLACE VIEW sq_groups AS
SELECT r.group_key, r.head, r.why, timestamp_micros(r.since) AS since, timestamp_micros(r.until) AS until, r.behind, r.oldest_age, r.attempts, r.losses, r.worker_id, r.error, r.heads
FROM sq_raw_groups r;

CREATE OR REPLACE VIEW sq_raw_workers AS
WITH held AS (
  SELECT
    worker_id,
    count(*) AS items,
    count(DISTINCT lease) AS leases,
    min(claimed_at) AS since,
    min(lease_expires_at + a.lease_grace) AS until,
    count(CASE WHEN is_lapsed THEN 1 END) AS late
  FROM sq_raw_reasons
  CROSS JOIN sq_raw_asked a
  WHERE state = 'claimed'
  GROUP BY worker_id
),
got AS (
  SELECT m.worker_id, count(*) AS claimed, max(m.at) AS last_at
  FROM sq_raw_transitions m
  CROSS JOIN sq_raw_asked a
  WHERE m.granted AND m.at > a.since
  GROUP BY m.worker_id
),
followed AS (
  SELECT
    m.at,
    m.losses,
    lag(m.losses) OVER item AS losses_before,
    lag(m.worker_id) OVER item AS worker_before
  FROM sq_raw_transitions m
  JOIN (SELECT DISTINCT seq FROM sq_raw_transitions WHERE losses > 0) l ON l.seq = m.seq
  WINDOW item AS (PARTITION BY m.seq ORDER BY m.step)
),
lost AS (
  SELECT f.worker_before AS worker_id, count(*) AS lost
  FROM followed f
  CROSS JOIN sq_raw_asked a
  WHERE f.losses > f.losses_before AND f.at > a.since
  GROUP BY f.worker_before
),
worked AS (
  SELECT
    w.worker_id,
    count(CASE WHEN w.acked THEN 1 END) AS acked,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY w.seconds) AS work_p50,
    percentile_disc(0.95) WITHIN GROUP (ORDER BY w.seconds) AS work_p95
  FROM sq_raw_service_times w
  GROUP BY w.worker_id
),
named AS (
  SELECT worker_id FROM held
  UNION
  SELECT worker_id FROM got
  UNION
  SELECT worker_id FROM lost
)
SELECT
  n.worker_id,
  coalesce(h.items, 0) AS items,
  coalesce(h.leases, 0) AS leases,
  h.since,
  h.until,
  coalesce(h.late, 0) AS late,
  coalesce(l.lost, 0) AS lost,
  coalesce(g.claimed, 0) AS claimed,
  g.last_at AS last_claim_at,
  coalesce(w.acked, 0) AS acked,
  w.work_p50,
  w.work_p95,
  count(*) OVER () AS workers
FROM named n
LEFT JOIN held h ON h.worker_id IS NOT DISTINCT FROM n.worker_id
LEFT JOIN got g ON g.worker_id IS NOT DISTINCT FROM n.worker_id
LEFT JOIN lost l ON l.worker_id IS NOT DISTINCT FROM n.worker_id
LEFT JOIN worked w ON w.worker_id IS NOT DISTINCT FROM n.worker_id
ORDER BY late DESC, lost DESC, items DESC, n.worker_id
LIMIT 100;

-- Who holds items now, or got or lost some in the window. `late` are items whose lease ran out.
-- `lost` counts those that were taken from a holder, or given up for it, in the window. How
-- long it works on an item is by those that it settled there.
CREATE OR REPLACE VIEW sq_workers AS
SELECT r.worker_id, r.items, r.leases, timestamp_micros(r.since) AS since, timestamp_micros(r.until) AS until, r.late, r.lost, r.claimed, timestamp_micros(r.last_claim_at) AS last_claim_at, r.acked, r.work_p50, r.work_p95, r.workers
FROM sq_raw_workers r;

CREATE OR REPLACE VIEW sq_raw_steps AS
WITH configured AS (
  SELECT
    step,
    q.at AS moment,
    worker_id AS who,
    error AS about,
    cast(nullif(split_part(error, ' ', 2), '') AS bigint) AS undone,
    body AS settings,
    lag(body) OVER (ORDER BY step) AS settings_before
  FROM sq_raw_configs q
),
ended AS (
  SELECT DISTINCT seq FROM sq_raw_transitions WHERE state IN ('dead', 'expired', 'cancelled')
),
moved AS (
  SELECT
    m.step,
    m.at AS moment,
    m.state,
    m.worker_id,
    m.error,
    lag(m.state) OVER (PARTITION BY m.seq ORDER BY m.step) AS state_before
  FROM sq_raw_transitions m
  JOIN ended e ON e.seq = m.seq
)
SELECT
  'status' AS log,
  step,
  moment,
  CASE
    WHEN about LIKE 'purge %' THEN 'purged'
    WHEN about LIKE 'retention %' THEN 'dropped'
    ELSE 'configured'
  END AS action,
  who,
  CASE WHEN about LIKE 'purge %' OR about LIKE 'retention %' THEN undone ELSE 0 END AS items,
  CASE WHEN about = concat('undo ', cast(undone AS string)) THEN undone END AS undone,
  settings,
  settings_before,
  CASE WHEN about LIKE 'purge %' OR about LIKE 'retention %' THEN about END AS record
FROM configured
UNION ALL
SELECT 'status', step, max(moment), 'cancelled', max(worker_id), count(*), NULL, NULL, NULL, NULL
FROM moved
WHERE state = 'cancelled' AND error IS NULL
GROUP BY step
UNION ALL
SELECT
  'status',
  m.step,
  max(m.moment),
  CASE WHEN max(c.undone) IS NULL THEN 'redriven' ELSE 'undone' END,
  coalesce(max(m.worker_id), max(c.who)),
  count(*),
  max(c.undone),
  NULL,
  NULL,
  NULL
FROM moved m
LEFT JOIN configured c ON c.about LIKE concat('undo % by status ', cast(m.step AS string))
WHERE m.state = 'ready' AND m.state_before IN ('cancelled', 'dead', 'expired')
GROUP BY m.step
UNION ALL
SELECT
  'queue',
  i.step,
  coalesce(max(c.moment), max(i.enqueued_at)),
  CASE WHEN max(c.undone) IS NULL THEN 'redriven' ELSE 'undone' END,
  max(c.who),
  count(*),
  max(c.undone),
  NULL,
  NULL,
  NULL
FROM sq_raw_status i
LEFT JOIN configured c
  ON c.about = cast(i.step AS string)
  OR c.about LIKE concat('undo % by queue ', cast(i.step AS string))
WHERE i.origin IS NOT NULL
GROUP BY i.step
ORDER BY moment DESC, step DESC
LIMIT 100;

-- What operators did, newest first. Of settings the row has all of them, and those before; `who` is
-- there where the row of the step names somebody; of a redrive or an undo a row of settings may do,
-- which has its step. `undone` is the step that was taken back. What took items away has a `record` of the
-- steps before, whose rows may be gone.
CREATE OR REPLACE VIEW sq_steps AS
SELECT r.log, r.step, timestamp_micros(r.moment) AS moment, r.action, r.who, r.items, r.undone, r.settings, r.settings_before, r.record
FROM sq_raw_steps r;

CREATE OR REPLACE VIEW sq_raw_behind AS
SELECT
  count(*) AS items,
  count(CASE WHEN s.state = 'claimed' THEN 1 END) AS open_items,
  max(CASE WHEN s.state = 'ready' AND s.waits_since <= a.now THEN a.now - s.waits_since END) / 1e6
    AS oldest_age,
  min(s.step) AS first_step
FROM sq_raw_status s
CROSS JOIN sq_raw_asked a
WHERE s.state IN ('ready', 'claimed');

-- How far the reader is behind: what it is not done with, what of that is in its hands, and the step
-- of the item log from which on there is any.
CREATE OR REPLACE VIEW sq_behind AS
SELECT r.items, r.open_items, r.oldest_age, r.first_step
FROM sq_raw_behind r;

CREATE OR REPLACE VIEW sq_raw_outranked AS
WITH turns AS (
  SELECT i.priority, count(*) AS turns
  FROM sq_raw_transitions m
  JOIN sq_raw_items i ON i.seq = m.seq
  CROSS JOIN sq_raw_asked a
  WHERE m.at > a.since AND m.granted
  GROUP BY i.priority
),
ordered AS (
  SELECT
    i.priority,
    r.since,
    first_value(r.seq) OVER (PARTITION BY i.priority ORDER BY r.since, r.seq) AS seq
  FROM sq_raw_runnable r
  JOIN sq_raw_items i ON i.seq = r.seq
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
CROSS JOIN sq_raw_asked a
WHERE own.turns IS NULL AND w.since <= a.since
GROUP BY w.priority, w.items, w.since, w.seq
ORDER BY w.since, w.seq
LIMIT 100;

-- The priorities with items that could run for the whole window, and that got no turn in it, while
-- higher ones did: how many could run, since when, and the first of them. The longest first.
CREATE OR REPLACE VIEW sq_outranked AS
SELECT r.priority, r.items, timestamp_micros(r.since) AS since, r.seq, r.turns_above
FROM sq_raw_outranked r;

CREATE OR REPLACE VIEW sq_raw_stuck AS
WITH granted AS (
  SELECT
    seq,
    step,
    m.lease_expires_at - m.at AS lease_us,
    count(*) OVER (PARTITION BY seq) AS grants
  FROM sq_raw_transitions m
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
  FROM sq_raw_transitions m
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
  FROM sq_raw_reasons r
  JOIN granted g ON g.seq = r.seq AND g.step = r.lease
  CROSS JOIN sq_raw_asked a
  WHERE
    r.reason = 'leased' AND a.now - r.claimed_at >= 3 * g.lease_us
)
SELECT
  r.seq,
  r.worker_id,
  r.claimed_at AS since,
  coalesce(b.times, 0) AS given_back,
  h.lease
FROM sq_raw_reasons r
LEFT JOIN given_back b ON b.seq = r.seq
LEFT JOIN held h ON h.seq = r.seq
WHERE b.times IS NOT NULL OR h.lease IS NOT NULL
ORDER BY h.lease IS NULL, r.claimed_at, given_back DESC, r.seq
LIMIT 100;

-- Open items that were given back untouched ten times and more, and those that somebody holds for three
-- of the leases that he asked for, and longer. Those that are held come first, the longest first.
CREATE OR REPLACE VIEW sq_stuck AS
SELECT r.seq, r.worker_id, timestamp_micros(r.since) AS since, r.given_back, r.lease
FROM sq_raw_stuck r;

CREATE OR REPLACE VIEW sq_raw_listed AS
SELECT
  s.seq,
  s.state,
  CASE
    WHEN r.reason IS NOT NULL THEN r.reason
    WHEN x.origin IS NOT NULL AND s.state <> 'acked' THEN 'redriven'
    ELSE s.state
  END AS why,
  s.moved_at AS since,
  s.attempts,
  s.losses,
  s.deferrals,
  s.dedup_key,
  s.fair_key,
  s.group_key,
  s.worker_id,
  CASE WHEN r.reason = 'leased' THEN r.until ELSE s.lease_expires_at END AS held_until,
  s.error,
  md5(coalesce('=' || s.fair_key, '')) AS tenant_id,
  md5(coalesce('=' || s.group_key, '')) AS group_id,
  md5('=' || w.wording) AS error_id
FROM sq_raw_status s
LEFT JOIN sq_raw_reasons r ON r.seq = s.seq
LEFT JOIN sq_raw_successors x ON x.origin = s.seq
LEFT JOIN sq_raw_failures f ON f.seq = s.seq AND f.step = s.failed_step
LEFT JOIN sq_raw_wordings w ON w.said = f.said;

-- The items with what they are found by: their fair key, their group, and the wording of the error that
-- they failed with last, each by its digest, since any text may be one. `why` is why an open item is
-- not running; of one that ended it is the state, or that it was enqueued again.
CREATE OR REPLACE VIEW sq_listed AS
SELECT r.seq, r.state, r.why, timestamp_micros(r.since) AS since, r.attempts, r.losses, r.deferrals, r.dedup_key, r.fair_key, r.group_key, r.worker_id, timestamp_micros(r.held_until) AS held_until, r.error, r.tenant_id, r.group_id, r.error_id
FROM sq_raw_listed r;
