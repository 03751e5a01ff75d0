"""Holds the statements of ownership and presence, and reads that lock nothing.

Ownership is leases, claims, and the loading of claimed runs. Presence is advisory locks that live as long as the
sessions of their processes.
"""

# ruff: noqa: S608 - Every statement is put together here, from constants; values are parameters.
from __future__ import annotations

from fabric.runtime.ports.journal import CLAIM_ROWS
from fabric.runtime.quarantine.verdicts import SUSPECT_FROM, SUSPECTS_MAX
from fabric.stores.postgresql.statements import NOW, WAKE_CHANNEL, Statement
from fabric.stores.rows import ANNOUNCED_US, HOLDS_SQL, TERMINAL_SQL

_IN_TURN = f"(r.claims < {SUSPECT_FROM} OR (SELECT suspects < {SUSPECTS_MAX} FROM held))"

REGISTER = Statement(f"""
WITH {NOW}
INSERT INTO fabric_incarnation AS i (name, lease_until, started_at, host, pid, token)
SELECT :name::text, us + :lease::bigint, us, :host::text, :pid::int, :token::bigint FROM now
ON CONFLICT (name) DO UPDATE SET lease_until = excluded.lease_until
WHERE i.retired_at IS NULL AND i.token = excluded.token RETURNING 1
""")

CLOCK = Statement(f"WITH {NOW} SELECT us FROM now")

BEAT = Statement(f"""
WITH {NOW}
UPDATE fabric_incarnation SET lease_until = us + :lease::bigint, refused_writes = greatest(refused_writes, :refused::bigint) FROM now
WHERE name = :name::text AND retired_at IS NULL RETURNING us
""")

RETIRE = Statement(f"""
WITH {NOW}
UPDATE fabric_incarnation SET retired_at = us, lease_until = least(lease_until, us) FROM now
WHERE name = :name::text AND retired_at IS NULL
""")

# 1. The owners are found one after the other in the index of owned runs: a lookup an owner, not a look at every run.
# 2. A quarantined run without an owner is due for an input that names this alone.
# 3. Facts read with the runs are summed up after the lock: surplus runs stay locked until the statement ends, and
#    stay as they are.
# 4. A worker owns one suspect at a time (``runtime/quarantine/verdicts.py``). While it owns one, the others are left
#    out, so that they hide no run.
# 5. Suspects that are requested anew are the worker's own and come first.
CLAIM = Statement(f"""
WITH RECURSIVE {NOW}, owner(name) AS (
  (SELECT incarnation FROM fabric_run WHERE incarnation IS NOT NULL ORDER BY incarnation LIMIT 1)
  UNION ALL
  SELECT (SELECT incarnation FROM fabric_run r WHERE r.incarnation > owner.name ORDER BY incarnation LIMIT 1)
  FROM owner WHERE owner.name IS NOT NULL
), alive AS MATERIALIZED (
  SELECT name, lease_until > us AS leased FROM fabric_incarnation, now WHERE retired_at IS NULL
), dead AS MATERIALIZED (
  SELECT name FROM owner WHERE name IS NOT NULL AND name NOT IN (SELECT name FROM alive WHERE leased OR NOT :steady::boolean)
), held AS MATERIALIZED (
  SELECT count(*) AS suspects
  FROM fabric_run r WHERE r.incarnation = :me::text AND r.claims > {SUSPECT_FROM}
    AND r.claim_ticket <> ALL (:lost::bigint[]) AND r.id <> ALL (:again::text[])
), due AS MATERIALIZED (
  SELECT scheduled.id, scheduled.claims
  FROM unnest(:queues::text[]) AS wanted(queue) CROSS JOIN generate_series(0, 3) AS level(priority) CROSS JOIN LATERAL (
    SELECT r.id, r.claims FROM fabric_run r
    WHERE r.incarnation IS NULL AND r.wake_at IS NOT NULL AND r.queue = wanted.queue AND r.priority = level.priority
      AND r.wake_at <= (SELECT us FROM now) AND r.format <= :format::smallint AND coalesce(r.state, '') <> 'quarantined'
      AND {_IN_TURN}
    ORDER BY r.wake_at LIMIT :span::bigint
  ) AS scheduled
  UNION
  (SELECT r.id, r.claims FROM fabric_inbox i JOIN fabric_run r ON r.id = i.run_id
   WHERE i.consumed_seq IS NULL AND i.visible_at <= (SELECT us FROM now) AND r.incarnation IS NULL
     AND r.queue = ANY (:queues::text[]) AND coalesce(r.state, '') NOT IN {TERMINAL_SQL}
     AND i.wakes >= CASE WHEN r.state = 'quarantined' THEN 2 ELSE 1 END
     AND i.format <= :format::smallint AND r.format <= :format::smallint AND {_IN_TURN}
   ORDER BY i.visible_at LIMIT :span::bigint)
  UNION
  (SELECT r.id, r.claims FROM fabric_run r
   WHERE r.incarnation = ANY (ARRAY(SELECT name::text FROM dead)) AND r.queue = ANY (:queues::text[])
     AND r.format <= :format::smallint AND coalesce(r.state, '') NOT IN {TERMINAL_SQL} AND {_IN_TURN} LIMIT :span::bigint)
  UNION
  (SELECT r.id, r.claims FROM fabric_run r
   WHERE cardinality(:lost::bigint[]) > 0 AND r.incarnation = :me::text AND r.claim_ticket = ANY (:lost::bigint[]))
  UNION
  (SELECT r.id, r.claims FROM fabric_run r WHERE r.id = ANY (:again::text[]) AND r.incarnation = :me::text)
), admitted AS MATERIALIZED (
  SELECT r.id FROM fabric_run r
  WHERE r.id = ANY (ARRAY(SELECT id::text FROM due WHERE claims >= {SUSPECT_FROM})) AND coalesce(r.state, '') NOT IN {TERMINAL_SQL}
  ORDER BY r.incarnation IS DISTINCT FROM :me::text, r.priority, r.id
  LIMIT (SELECT greatest(0, {SUSPECTS_MAX} - suspects) FROM held)
), picked AS MATERIALIZED (
  SELECT r.id, r.priority, r.last_seq, r.incarnation AS previous FROM fabric_run r
  WHERE r.id = ANY (ARRAY(SELECT id::text FROM due)) AND coalesce(r.state, '') NOT IN {TERMINAL_SQL}
    AND (r.claims < {SUSPECT_FROM} OR r.id IN (SELECT id FROM admitted))
    AND (r.incarnation IS NULL OR r.incarnation IN (SELECT name FROM dead)
         OR (r.incarnation = :me::text AND (r.claim_ticket = ANY (:lost::bigint[]) OR r.id = ANY (:again::text[]))))
    AND EXISTS (SELECT FROM alive WHERE name = :me::text AND leased)
  ORDER BY r.priority, r.id LIMIT :limit::bigint FOR UPDATE OF r SKIP LOCKED
), sized AS MATERIALIZED (
  SELECT id, previous, row_number() OVER urgency AS place, sum(last_seq - coalesce((
      SELECT s.seq - json_array_length(s.refs::json) FROM fabric_snapshot s
      WHERE s.run_id = picked.id AND :digest::text <> '' AND s.digest = :digest::text), 0)) OVER urgency AS total
  FROM picked WINDOW urgency AS (ORDER BY priority, id)
)
UPDATE fabric_run r SET incarnation = :me::text, fence = r.fence + 1, claims = r.claims + 1, claim_ticket = :ticket::bigint
FROM sized WHERE r.id = sized.id AND (sized.place = 1 OR sized.total <= {CLAIM_ROWS})
RETURNING r.priority, r.id, r.fence, r.revision_id, r.trace_id, r.seed, r.tier, sized.previous IS NOT NULL, r.claims,
  r.last_seq, r.head_hash, r.format, r.workspace_id, r.queue, r.session_key, r.parent_run_id, r.parent_command, r.fabric_id, r.created_by,
  r.caused_by, r.trace_context,
  EXISTS (SELECT FROM fabric_budget g WHERE g.scope = 'workspace:' || r.workspace_id),
  (SELECT coalesce(max(p.number), 0) FROM fabric_workspace_policy p WHERE p.workspace_id = r.workspace_id),
  (SELECT bool_or(place > 1 AND total > {CLAIM_ROWS}) FROM sized), (SELECT us FROM now)
""")

# Kinds of a row by its first column; the others have the values of that kind.
ROW, INPUT, ANNOUNCED, SNAPSHOT, KEPT = range(5)

_INPUTS = f"""
SELECT CASE WHEN visible_at <= us THEN {INPUT} ELSE {ANNOUNCED} END, run_id, visible_at, input_id, format, body, int8send(created_at), NULL, NULL
FROM (SELECT run_id, visible_at, input_id, format, body, created_at, us FROM fabric_inbox, now
      WHERE run_id = ANY (:runs::text[]) AND coalesce(consumed_seq, -1) = -1 AND visible_at <= us + {ANNOUNCED_US}
      ORDER BY created_at, input_id) AS waiting"""

LOAD = Statement(f"""
WITH {NOW}
SELECT {ROW}, run_id, seq::bigint, kind, version, header, payload, payload_hash, hash
FROM fabric_event WHERE run_id = ANY (:runs::text[])
UNION ALL{_INPUTS}
""")

# With what has been folded already by a program of that digest: the journal from there on, and what the state still
# needs of the rest. OFFSET 0 keeps each a lookup by run and number, on empty tables too: joined, they would be sought
# in the whole journal.
LOAD_ON = Statement(f"""
WITH {NOW}, snap AS MATERIALIZED (
  SELECT run_id, seq, digest, head, state, refs FROM fabric_snapshot WHERE run_id = ANY (:runs::text[]) AND digest = :digest::text
)
SELECT {ROW}, e.run_id, e.seq::bigint, e.kind, e.version, e.header, e.payload, e.payload_hash, e.hash
FROM unnest(:runs::text[]) AS wanted(run_id) LEFT JOIN snap ON snap.run_id = wanted.run_id CROSS JOIN LATERAL (
  SELECT * FROM fabric_event WHERE run_id = wanted.run_id AND seq > coalesce(snap.seq, 0) OFFSET 0
) AS e
UNION ALL
SELECT {KEPT}, e.run_id, e.seq::bigint, e.kind, e.version, e.header, e.payload, e.payload_hash, e.hash
FROM snap CROSS JOIN LATERAL json_array_elements_text(snap.refs::json) AS ref(seq) CROSS JOIN LATERAL (
  SELECT * FROM fabric_event WHERE run_id = snap.run_id AND seq = ref.seq::int OFFSET 0
) AS e
UNION ALL
SELECT {SNAPSHOT}, run_id, seq::bigint, digest, NULL, state, convert_to(refs, 'UTF8'), head, NULL FROM snap
UNION ALL{_INPUTS}
""")

INBOX = Statement(f"""
WITH {NOW}
SELECT i.run_id, i.input_id, i.body, i.visible_at, i.visible_at > us, i.format, i.created_at
FROM now, fabric_inbox i JOIN fabric_run r ON r.id = i.run_id
WHERE i.consumed_seq IS NULL AND i.visible_at <= (SELECT us + {ANNOUNCED_US} FROM now)
  AND coalesce(r.incarnation, '') = :name::text
ORDER BY i.created_at, i.input_id
""")

OWNED_BY = Statement("SELECT id FROM fabric_run WHERE incarnation = :name::text ORDER BY id")

# Form of an advisory lock on one number of 64 bits in pg_locks.
_HELD = """held AS MATERIALIZED (
  SELECT (classid::bigint << 32) | objid::bigint AS key, pid FROM pg_locks
  WHERE locktype = 'advisory' AND objsubid = 1 AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
)"""

HOLD = Statement("SELECT pg_try_advisory_lock(:key::bigint), pg_backend_pid()")

PROVE = Statement(f"""
WITH {_HELD} SELECT pg_backend_pid(), EXISTS (SELECT FROM held WHERE key = :key::bigint AND pid = pg_backend_pid())
""")

TELL = Statement("""
UPDATE fabric_incarnation SET lock_key = :key::bigint WHERE name = :name::text AND retired_at IS NULL RETURNING 1
""")

# Reads alone, so that it costs no commit. A lapsed lease needs no watching: any worker may claim its runs.
WATCH = Statement(f"""
WITH {NOW}, {_HELD}
SELECT us, name FROM now LEFT JOIN fabric_incarnation
  ON retired_at IS NULL AND lock_key IS NOT NULL AND lease_until > us AND lock_key NOT IN (SELECT key FROM held)
""")

END = Statement(f"""
WITH {NOW}, {_HELD}, gone AS (
  UPDATE fabric_incarnation SET retired_at = us, lease_until = least(lease_until, us) FROM now
  WHERE name = ANY (:names::text[]) AND retired_at IS NULL AND lock_key IS NOT NULL AND lock_key NOT IN (SELECT key FROM held)
  RETURNING name
)
SELECT name, pg_notify('{WAKE_CHANNEL}', '') IS NULL FROM gone
""")

HOLDS = Statement(f"""
SELECT ({HOLDS_SQL.format(workspace="r.workspace_id", name="asked.name")})
FROM unnest(:runs::text[], :names::text[]) WITH ORDINALITY AS asked(run_id, name, n) LEFT JOIN fabric_run r ON r.id = asked.run_id
ORDER BY asked.n
""")
HEADS = Statement("SELECT id, fence, last_seq, head_hash FROM fabric_run WHERE id = ANY (:runs::text[])")

JOURNAL = Statement("""
SELECT seq, kind, version, header, payload, payload_hash, hash FROM fabric_event
WHERE run_id = :run_id::text AND seq > :after::bigint ORDER BY seq LIMIT :limit::bigint
""")

# A family shows what was attached to its root.
DOCUMENTS = Statement("""
SELECT name, text, origin FROM fabric_attachment
WHERE run_id = (SELECT coalesce(root_run_id, id) FROM fabric_run WHERE id = :run_id::text) ORDER BY position
""")

# The earliest of each queue and priority, each a lookup. An input that its run's owner can already see is the owner's
# business; any process may claim a future one.
NEXT_DUE = Statement(f"""
WITH RECURSIVE {NOW}, wanted(queue) AS (
  (SELECT queue FROM fabric_run WHERE incarnation IS NULL AND wake_at IS NOT NULL ORDER BY queue LIMIT 1)
  UNION ALL
  SELECT (SELECT r.queue FROM fabric_run r
          WHERE r.incarnation IS NULL AND r.wake_at IS NOT NULL AND r.queue > wanted.queue ORDER BY r.queue LIMIT 1)
  FROM wanted WHERE wanted.queue IS NOT NULL
)
SELECT least(
  (SELECT min(first.wake_at) FROM wanted CROSS JOIN generate_series(0, 3) AS level(priority) CROSS JOIN LATERAL (
     SELECT r.wake_at FROM fabric_run r
     WHERE r.incarnation IS NULL AND r.wake_at IS NOT NULL AND r.queue = wanted.queue AND r.priority = level.priority
       AND coalesce(r.state, '') <> 'quarantined'
     ORDER BY r.wake_at LIMIT 1
   ) AS first),
  (SELECT i.visible_at FROM fabric_inbox i JOIN fabric_run r ON r.id = i.run_id
   WHERE i.consumed_seq IS NULL AND (coalesce(r.incarnation, '') = '' OR i.visible_at > us)
     AND coalesce(r.state, '') NOT IN {TERMINAL_SQL} AND i.wakes >= CASE WHEN r.state = 'quarantined' THEN 2 ELSE 1 END
   ORDER BY i.visible_at LIMIT 1)
) - us FROM now
""")
