-- The walk of a batch: duplicates, room, places in the order, and ends of lines and groups.
-- Uses: log.
-- Tables: asked, batch, busy, candidates, ends, keyed, line_rows, members, open, pointers, there, weights.

-- repeated_hashes(dedup_hash)
-- Hashes that a batch has twice, of one key or of two: hardly any, as a rule.
SELECT b.dedup_hash
FROM (
  SELECT /*+ REPARTITION($parts, dedup_hash) */ x.dedup_hash
  FROM sq_batch x
  WHERE x.dedup_hash IS NOT NULL
) b
GROUP BY b.dedup_hash
HAVING count(*) > 1

-- key_matches(seq, step, priority, round, fair_key, group_key, dedup_key, dedup_hash, enqueued_at instant, errors, chain, chain_at instant)
-- Items that have a key of the batch.
SELECT k.*
FROM sq_keyed k
WHERE EXISTS (
  SELECT 1 FROM sq_batch b WHERE b.dedup_hash = k.dedup_hash AND b.dedup_key = k.dedup_key
)

-- newest_key_matches(seq, step, priority, round, fair_key, group_key, dedup_key, dedup_hash, enqueued_at instant, errors, chain, chain_at instant)
-- The newest item of each key of the batch, and those that it may have replaced, or follow.
-- rule: one item of a key
SELECT k.*
FROM sq_key_matches k
JOIN (
  SELECT i.dedup_key, max(coalesce(i.chain, i.seq)) AS chain
  FROM sq_key_matches i
  GROUP BY i.dedup_key
) n ON k.dedup_key = n.dedup_key AND k.seq >= n.chain

-- visible_candidates(seq)
-- The candidates that a reader sees.
SELECT c.seq FROM sq_candidates c CROSS JOIN sq_asked a WHERE c.step > a.since_step

-- open_candidates(seq)
-- The candidates that a reader has open.
SELECT c.seq
FROM (
  SELECT
    u.seq, u.step, l.seq AS touched, l.state,
    $turn(u.round, w) AS tag,
    coalesce(p.checkpoint_turn, 0e0) AS checkpoint_turn,
    coalesce(p.checkpoint_seq, 0) AS checkpoint_seq
  FROM sq_candidates u
  LEFT JOIN sq_newest_rows l ON u.seq = l.seq
  LEFT JOIN sq_weights w ON u.fair_key = w.fair_key AND u.priority = w.priority
  LEFT JOIN sq_pointers p ON u.priority = p.priority
) c
CROSS JOIN sq_asked a
WHERE
  c.step > a.since_step
  AND (
    c.state IN ('ready', 'claimed')
    OR (
      c.touched IS NULL
      AND $unknown(c, a)
    )
  )

-- busy_candidates(seq)
-- The candidates that a reader has begun.
-- rule: busy item of a key
SELECT c.seq
FROM sq_candidates c
LEFT JOIN sq_newest_rows l ON c.seq = l.seq
WHERE
  l.state = 'claimed'
  OR (
    coalesce(l.state, 'ready') = 'ready'
    AND coalesce(l.attempts, c.errors, 0) + coalesce(l.losses, 0) + coalesce(l.deferrals, 0) > 0
  )

-- key_holders(dedup_key, seq)
-- The holders of keys of the batch: an item holds its key while it is open, and for as long as the scope
-- says.
-- rule: scope of a key
SELECT n.dedup_key, coalesce(max(o.seq), max(n.seq)) AS seq
FROM sq_newest_key_matches n
LEFT JOIN (SELECT DISTINCT e.seq FROM sq_open e) o ON n.seq = o.seq
CROSS JOIN sq_asked a
WHERE (a.now - n.enqueued_at) / 1e6 < a.kept_for OR o.seq IS NOT NULL
GROUP BY n.dedup_key

-- older_items(dedup_key, seq, follows, chain, began instant, priority, round, fair_key, group_key)
-- Of each key of the batch the item that a row replaces, or follows as it has begun: then those that wait
-- for each other are new ones.
-- rule: replaced item of a key
SELECT
  n.dedup_key, n.seq,
  CASE WHEN b.seq IS NOT NULL THEN n.seq END AS follows,
  coalesce(n.chain, n.seq) AS chain,
  CASE WHEN b.seq IS NULL THEN coalesce(n.chain_at, n.enqueued_at) ELSE a.now END AS began,
  n.priority, n.round, n.fair_key, n.group_key
FROM sq_newest_key_matches n
JOIN sq_key_holders h ON n.seq = h.seq
JOIN (SELECT DISTINCT o.seq FROM sq_open o) e ON n.seq = e.seq
LEFT JOIN (SELECT DISTINCT u.seq FROM sq_busy u) b ON n.seq = b.seq
CROSS JOIN sq_asked a
WHERE b.seq IS NULL OR a.is_live

-- taken_keys_when_replacing(seq, dedup_key, duplicate_of)
-- The rows of a batch whose key an item holds that they do not replace, or that a later row replaces.
-- rule: replaced item of a key
SELECT q.seq, q.dedup_key, q.duplicate_of
FROM (
  SELECT
    b.seq, b.dedup_key,
    CASE WHEN h.seq IS NOT NULL AND i.seq IS NULL THEN h.seq WHEN l.seq > b.seq THEN l.seq END AS duplicate_of
  FROM sq_batch b
  LEFT JOIN sq_key_holders h ON b.dedup_key = h.dedup_key
  LEFT JOIN sq_older_items i ON b.dedup_key = i.dedup_key
  LEFT JOIN (
    SELECT c.dedup_key, max(c.seq) AS seq
    FROM sq_batch c
    JOIN sq_repeated_hashes r ON c.dedup_hash = r.dedup_hash
    GROUP BY c.dedup_key
  ) l ON b.dedup_key = l.dedup_key
) q
WHERE q.duplicate_of IS NOT NULL

-- taken_keys(seq, dedup_key, duplicate_of)
-- The rows of a batch whose key an item holds already, or an earlier row of the batch (`f` is the first
-- of each). A row that was the item which holds its key (`o`) takes that item's place.
-- rule: one item of a key
SELECT q.seq, q.dedup_key, q.duplicate_of
FROM (
  SELECT
    b.seq, b.dedup_key,
    CASE
      WHEN b.seq = o.seq THEN NULL
      WHEN b.seq > o.seq THEN coalesce(s.seq, o.seq)
      ELSE coalesce(greatest(h.seq, s.seq), CASE WHEN b.seq > f.seq THEN f.seq END)
    END AS duplicate_of
  FROM sq_batch b
  LEFT JOIN sq_key_holders h ON b.dedup_key = h.dedup_key
  LEFT JOIN (
    SELECT c.dedup_key, min(c.seq) AS seq
    FROM sq_batch c
    JOIN sq_repeated_hashes r ON c.dedup_hash = r.dedup_hash
    GROUP BY c.dedup_key
  ) f ON b.dedup_key = f.dedup_key
  LEFT JOIN (
    SELECT c.dedup_key, min(c.seq) AS seq
    FROM sq_batch c
    JOIN sq_key_holders g ON c.dedup_key = g.dedup_key
    WHERE c.origin = g.seq
    GROUP BY c.dedup_key
  ) o ON b.dedup_key = o.dedup_key
  LEFT JOIN sq_successors s ON b.origin = s.origin
) q
WHERE q.duplicate_of IS NOT NULL

-- duplicates(seq, dedup_key, duplicate_of, holder)
-- The same, with where the item is that holds the key: null where that is a later row of the batch.
-- rule: holder of a key
SELECT
  t.*,
  CASE
    WHEN t.duplicate_of > t.seq THEN NULL
    WHEN b.seq IS NOT NULL THEN 'busy'
    WHEN h.seq IS NOT NULL AND o.seq IS NULL THEN 'over'
    ELSE 'waits'
  END AS holder
FROM sq_taken_keys t
LEFT JOIN sq_key_holders h ON t.duplicate_of = h.seq
LEFT JOIN (SELECT DISTINCT e.seq FROM sq_open e) o ON t.duplicate_of = o.seq
LEFT JOIN (SELECT DISTINCT u.seq FROM sq_busy u) b ON t.duplicate_of = b.seq

-- first_duplicate(dedup_key, duplicate_of, holder, items, busy)
-- The first duplicate, with the number of all, and of those of items that have begun.
SELECT d.dedup_key, d.duplicate_of, d.holder, n.items, n.busy
FROM sq_duplicates d
JOIN (
  SELECT min(c.seq) AS seq, count(*) AS items, count(CASE WHEN c.holder = 'busy' THEN 1 END) AS busy
  FROM sq_duplicates c
) n ON d.seq = n.seq

-- first_row_without_room(seq)
-- The first row that finds no room: an item is taken while there are fewer bytes than the limit.
SELECT min(q.seq) AS seq
FROM (
  SELECT
    b.seq,
    row_number() OVER (ORDER BY b.seq) AS items,
    sum(b.bytes) OVER (ORDER BY b.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
  FROM sq_batch b
  WHERE NOT EXISTS (SELECT 1 FROM sq_duplicates d WHERE d.seq = b.seq)
) q
CROSS JOIN sq_asked a
WHERE q.items > a.room_items OR coalesce(q.before, 0) >= a.room_bytes

-- refused_rows(seq, duplicate_of, holder)
-- The rows of a batch that are refused: duplicates, and all from the first without room.
SELECT d.seq, d.duplicate_of, d.holder
FROM sq_duplicates d
CROSS JOIN sq_asked a
WHERE a.cut IS NULL OR d.seq < a.cut
UNION ALL
SELECT b.seq, cast(NULL AS bigint) AS duplicate_of, cast(NULL AS string) AS holder
FROM sq_batch b
CROSS JOIN sq_asked a
WHERE b.seq >= a.cut

-- refused_counts(items, duplicates, busy)
-- How many rows are refused.
SELECT
  count(*) AS items, count(r.duplicate_of) AS duplicates,
  count(CASE WHEN r.holder = 'busy' THEN 1 END) AS busy
FROM sq_refused_rows r

-- accepted_rows(priority, fair_key, group_key, cost, dedup_key, dedup_hash, origin, round, given, seq, bytes, line)
-- The rows of a batch that are accepted.
SELECT b.* FROM sq_batch b WHERE NOT EXISTS (SELECT 1 FROM sq_refused_rows r WHERE r.seq = b.seq)

-- accepted_rows_when_all(priority, fair_key, group_key, cost, dedup_key, dedup_hash, origin, round, given, seq, bytes, line)
-- The same if all are.
SELECT b.* FROM sq_batch b

-- accepted_rows_when_replacing(priority, fair_key, group_key, cost, dedup_key, dedup_hash, origin, round, given, seq, bytes, line)
-- The same, each at the place of the item that it replaces where they are in one line, and in no group.
-- rule: replaced item of a key
SELECT
  b.priority, b.fair_key, b.group_key, b.cost, b.dedup_key, b.dedup_hash, b.origin,
  CASE
    WHEN i.follows IS NULL AND i.group_key IS NULL AND b.group_key IS NULL
      AND i.priority = b.priority AND i.fair_key IS NOT DISTINCT FROM b.fair_key THEN i.round
  END AS round,
  b.given, b.seq, b.bytes, b.line
FROM sq_batch b
LEFT JOIN sq_older_items i ON b.dedup_key = i.dedup_key
WHERE NOT EXISTS (SELECT 1 FROM sq_refused_rows r WHERE r.seq = b.seq)

-- replacing_rows(seq, replaces, duplicate_of, chain, chain_at instant, available_at instant)
-- What accepted rows say of the items that they replace or follow, and when they may be claimed.
-- rule: replaced item of a key, debounce of a key
SELECT
  b.seq, i.seq AS replaces, i.follows AS duplicate_of, i.chain, i.began AS chain_at,
  least(a.now + a.debounce, coalesce(i.began, a.now) + a.at_most) AS available_at
FROM sq_accepted_rows b
LEFT JOIN sq_older_items i ON b.dedup_key = i.dedup_key
CROSS JOIN sq_asked a
WHERE i.seq IS NOT NULL OR a.debounce IS NOT NULL

-- replacing_count(items)
-- How many of them replace or follow an item.
SELECT count(r.replaces) AS items FROM sq_replacing_rows r

-- batch_priorities(priority)
-- The priorities of a batch.
SELECT DISTINCT b.priority FROM sq_batch b

-- batch_groups(group_key)
-- The groups of a batch.
SELECT DISTINCT b.group_key FROM sq_batch b WHERE b.group_key IS NOT NULL

-- newest_members(seq, step, priority, round, fair_key, group_key)
-- The newest of some members of each group.
SELECT q.seq, q.step, q.priority, q.round, q.fair_key, q.group_key
FROM (
  SELECT m.*, row_number() OVER (PARTITION BY m.group_key ORDER BY m.seq DESC) AS newest
  FROM sq_members m
) q
WHERE q.newest = 1

-- members_ahead(seq, step, priority, round, fair_key, group_key, turn, v, s)
-- Members of groups ahead of the order, with their turns.
-- rule: place of a new member
SELECT q.*
FROM (
  SELECT
    m.*,
    $turn(m.round, w) AS turn,
    coalesce(p.turn, 0e0) AS v,
    coalesce(p.seq, 0) AS s
  FROM sq_members m
  LEFT JOIN sq_weights w ON m.fair_key = w.fair_key AND m.priority = w.priority
  LEFT JOIN sq_pointers p ON m.priority = p.priority
) q
WHERE $ahead(q.turn, q.seq, q.v, q.s)

-- members_in_log(seq, step, priority, round, fair_key, group_key)
-- The members that are still in the log.
SELECT m.* FROM sq_members m WHERE EXISTS (SELECT 1 FROM sq_there t WHERE t.seq = m.seq)

-- open_members(seq, step, priority, round, fair_key, group_key)
-- The members that some reader has open.
SELECT m.* FROM sq_members m WHERE EXISTS (SELECT 1 FROM sq_open o WHERE o.seq = m.seq)

-- groups_without_end(group_key)
-- Groups whose last member is not known yet.
SELECT DISTINCT m.group_key
FROM sq_members m
WHERE NOT EXISTS (SELECT 1 FROM sq_ends e WHERE e.group_key = m.group_key)

-- with_priority(priority, fair_key, group_key, cost, dedup_key, dedup_hash, origin, round, given, seq, bytes, line, end_priority, end_turn, least_priority, lowest)
-- Accepted rows with their priority, which never rises within a group.
-- rule: place of a new member
SELECT
  q.*,
  CASE WHEN q.group_key IS NULL THEN q.priority ELSE least(q.least_priority, q.end_priority) END AS lowest
FROM (
  SELECT
    d.*, e.priority AS end_priority, e.turn AS end_turn,
    min(d.priority) OVER (
      PARTITION BY d.group_key, CASE WHEN d.group_key IS NULL THEN d.seq END
      ORDER BY d.seq ROWS UNBOUNDED PRECEDING
    ) AS least_priority
  FROM sq_accepted_rows d
  LEFT JOIN sq_ends e ON d.group_key = e.group_key
) q

-- with_priority_without_groups(priority, fair_key, group_key, cost, dedup_key, dedup_hash, origin, round, given, seq, bytes, line, lowest)
-- The same in a queue without groups.
SELECT d.*, d.priority AS lowest FROM sq_accepted_rows d

-- line_spans(priority, fair_key, total, start_tag)
-- The lines that rows enter: each begins where the order stands, or behind its last tag.
-- rule: tag of a new item
SELECT
  l.priority, l.fair_key, l.total,
  greatest($stored(coalesce(p.turn, 0e0), w), coalesce(k.tag, 0e0)) AS start_tag
FROM (
  SELECT d.lowest AS priority, d.fair_key, sum(greatest($unit, d.cost + $rounder - $rounder)) AS total
  FROM sq_with_priority d
  WHERE d.round IS NULL
  GROUP BY d.lowest, d.fair_key
) l
LEFT JOIN sq_weights w ON l.fair_key = w.fair_key AND l.priority = w.priority
LEFT JOIN sq_pointers p ON l.priority = p.priority
LEFT JOIN (
  SELECT r.priority, r.fair_key, max(r.round) AS tag
  FROM sq_line_rows r
  GROUP BY r.priority, r.fair_key
) k ON l.priority = k.priority AND l.fair_key IS NOT DISTINCT FROM k.fair_key

-- line_ends(priority, fair_key, round)
-- The last tag of each line after the batch.
SELECT s.priority, s.fair_key, s.start_tag + s.total AS round FROM sq_line_spans s

-- priority_tops(priority, top, lines)
-- The highest tag at each priority, and the number of its lines.
SELECT e.priority, max(e.round) AS top, count(*) AS lines FROM sq_line_ends e GROUP BY e.priority

-- with_tag(priority, fair_key, group_key, cost, dedup_key, dedup_hash, origin, round, given, seq, bytes, line, end_priority, end_turn, least_priority, lowest, start_tag, tag, stored)
-- Accepted rows with their tags: each behind the one before it in its line, by its cost. Any engine adds
-- these numbers to the same sum. An item that keeps its place moves no other. `line` is a number that
-- tells most lines apart.
-- rule: tag of a new item
SELECT t.*, coalesce(t.round, t.tag) AS stored
FROM (
  SELECT
    q.*,
    q.start_tag + sum(
      CASE WHEN q.round IS NULL THEN greatest($unit, q.cost + $rounder - $rounder) ELSE 0e0 END
    ) OVER (PARTITION BY q.line, q.lowest, q.fair_key ORDER BY q.seq ROWS UNBOUNDED PRECEDING) AS tag
  FROM (
    SELECT /*+ REPARTITION($parts, line) */ l.*
    FROM (
      SELECT /*+ BROADCAST(s) */ d.*, s.start_tag
      FROM sq_with_priority d
      LEFT JOIN sq_line_spans s ON d.lowest = s.priority AND d.fair_key IS NOT DISTINCT FROM s.fair_key
    ) l
  ) q
) t

-- with_tag_by_seq(priority, fair_key, group_key, cost, dedup_key, dedup_hash, origin, round, given, seq, bytes, line, end_priority, end_turn, least_priority, lowest, tag, stored)
-- Without a fair key there is one line, and the tag is the seq.
-- rule: one line without keys
SELECT q.*, coalesce(q.round, q.tag) AS stored
FROM (SELECT d.*, cast(d.seq AS double) AS tag FROM sq_with_priority d) q

-- placed_rows(seq, lowest, fair_key, group_key, given, place)
-- Accepted rows with their stored tags: turns never fall within a group and priority. A tag that is
-- taken to a turn and back may differ in its last digit: so only a raised one is.
-- rule: place of a new member
SELECT
  r.seq, r.lowest, r.fair_key, r.group_key, r.given,
  CASE
    WHEN r.group_key IS NOT NULL AND r.highest > r.turn
      THEN $stored(r.highest, r)
    ELSE r.stored
  END AS place
FROM (
  SELECT
    q.*,
    greatest(
      max(q.turn) OVER (
        PARTITION BY q.group_key, CASE WHEN q.group_key IS NULL THEN q.seq END, q.lowest
        ORDER BY q.seq ROWS UNBOUNDED PRECEDING
      ),
      CASE WHEN q.end_priority = q.lowest THEN q.end_turn END
    ) AS highest
  FROM (
    SELECT
      t.*, w.weight, w.pin_tag, w.pin_turn, $turn(t.stored, w) AS turn
    FROM sq_with_tag t
    LEFT JOIN sq_weights w ON t.fair_key = w.fair_key AND t.lowest = w.priority
  ) q
) r

-- placed_rows_without_groups(seq, lowest, fair_key, group_key, given, place)
-- The same in a queue without groups.
SELECT t.seq, t.lowest, t.fair_key, t.group_key, t.given, t.stored AS place
FROM sq_with_tag t

-- placed_priorities(priority)
-- The priorities at which rows entered.
SELECT DISTINCT r.lowest AS priority FROM sq_placed_rows r

-- group_ends(group_key, priority, fair_key, round, seq)
-- The last member of each group after the batch. One engine skips nulls in max_by, the other does not.
SELECT
  r.group_key,
  max_by(r.lowest, r.seq) AS priority,
  CASE WHEN NOT max_by(r.fair_key IS NULL, r.seq) THEN max_by(coalesce(r.fair_key, ''), r.seq) END AS fair_key,
  max_by(r.place, r.seq) AS round,
  max(r.seq) AS seq
FROM sq_placed_rows r
WHERE r.group_key IS NOT NULL
GROUP BY r.group_key
