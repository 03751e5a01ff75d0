"""The statements of the SQLite store. A write holds the file's one write lock, so its reads are still true when it
writes.
"""

# ruff: noqa: S608 - Every statement is put together here, from constants; values are parameters.

from __future__ import annotations

from functools import cache

from fabric.runtime.ports.batch_parts import COLUMNS
from fabric.runtime.ports.journal import TAKEN_BACK
from fabric.runtime.quarantine.verdicts import SUSPECT_FROM, SUSPECTS_MAX
from fabric.stores import rows
from fabric.stores.rows import ANNOUNCED_US, PRIORITIES, REVIEW_CHANGED, TERMINAL_SQL

CREATE = """
INSERT INTO fabric_run (
  id, workspace_id, fabric_id, revision_id, session_key, start_key, title, trace_id, seed, tier, queue, priority, created_at,
  created_by, state, stage, epoch, cost_usd_micros, tokens, reason, recovered, truncated, deadline_at, last_seq, head_hash, fence,
  wake_at, claims, claim_ticket, format, parent_run_id, parent_command, root_run_id, cap_usd_micros, origin_run_id, origin_seq,
  caused_by, trace_context
) VALUES (
  :run_id, :workspace_id, (SELECT fabric_id FROM fabric_revision WHERE id = :revision_id), :revision_id, :session_key, :start_key,
  :title, :trace_id, :seed, :tier, :queue, :priority, :now, :requested_by, 'queued', '', 0, 0, 0, '', 0, 0, :deadline_at, 0, :head,
  0, :now, 0, 0, :format, :parent_run_id, :parent_command, :root_run_id, :cap, :origin_run_id, :origin_seq,
  :caused_by, :trace_context
)
"""
EXISTING = """
SELECT * FROM (
  SELECT id FROM fabric_run
  WHERE id = :run_id OR (workspace_id = :workspace_id AND start_key = :start_key AND NOT (start_key = ''))
  ORDER BY id = :run_id LIMIT 1
) UNION ALL SELECT NULL WHERE EXISTS (
  SELECT 1 FROM fabric_start_stop
  WHERE workspace_id = :workspace_id AND ended_at IS NULL AND (until_at IS NULL OR until_at > :now)
  AND (fabric_id IS NULL OR fabric_id = (SELECT fabric_id FROM fabric_revision WHERE id = :revision_id))
)
"""
"""The run that has the start key, or the id. After it comes a row of NULL while a stop of new runs stands."""
ATTACH = "INSERT INTO fabric_attachment (run_id, workspace_id, position, name, text, bytes, origin) VALUES (?, ?, ?, ?, ?, ?, ?)"
LABEL = "INSERT INTO fabric_run_label (run_id, workspace_id, key, value) VALUES (?, ?, ?, ?)"
PUT_INPUT = f"""
INSERT INTO fabric_inbox (run_id, workspace_id, input_id, body, created_at, visible_at, consumed_seq, wakes, format)
SELECT id, workspace_id, :input_id, :body, :now, :now + :delay, CASE WHEN state IN {TERMINAL_SQL} THEN last_seq END, :wakes, :format
FROM fabric_run WHERE id = :run_id ON CONFLICT DO NOTHING
"""
AUDIT = """
INSERT INTO fabric_audit (id, workspace_id, at, actor, via, kind, subject, body, address)
SELECT :entry_id, workspace_id, :now, :actor, :via, :act, :subject, :entry_body, NULLIF(:address, '') FROM fabric_run WHERE id = :run_id
"""
HAS_RUN = "SELECT 1 FROM fabric_run WHERE id = ?"
# A row that was taken back stays: its id is not free for other bytes, which an owner that read the first would take
# for them.
WITHDRAW = f"UPDATE fabric_inbox SET consumed_seq = {TAKEN_BACK} WHERE run_id = :run_id AND input_id = :input_id AND consumed_seq IS NULL"
HASTEN = """
UPDATE fabric_inbox SET visible_at = :now
WHERE run_id = :run_id AND input_id = :input_id AND consumed_seq IS NULL AND visible_at > :now
"""
CONSUMED = (
    f"SELECT 1 FROM fabric_inbox WHERE run_id = :run_id AND input_id = :input_id AND consumed_seq <> {TAKEN_BACK}"
)

REGISTER = """
INSERT INTO fabric_incarnation (name, lease_until, started_at, host, pid, token, refused_writes)
VALUES (:name, :now + :lease, :now, :host, :pid, :token, 0)
ON CONFLICT (name) DO UPDATE SET lease_until = excluded.lease_until WHERE retired_at IS NULL AND token = excluded.token
"""
BEAT = """
UPDATE fabric_incarnation SET lease_until = ?, refused_writes = max(refused_writes, ?) WHERE name = ? AND retired_at IS NULL
"""
RETIRE = "UPDATE fabric_incarnation SET retired_at = :now, lease_until = min(lease_until, :now) WHERE name = :name AND retired_at IS NULL"
RETIRE_OTHERS = RETIRE.replace("name = :name", "name <> :name")

_IN_TURN = f"(r.claims < {SUSPECT_FROM} OR (SELECT suspects < {SUSPECTS_MAX} FROM held))"

# 1. The owners are found one after the other in the index of owned runs: a lookup an owner, not a look at every run.
# 2. A quarantined run without an owner is due for an input that names this alone.
# 3. Each part looks further than the limit, so that urgency decides and not the part.
# 4. A worker owns one suspect at a time (``runtime/quarantine/verdicts.py``). While it owns one, the others are left
#    out, so that they hide no run.
# 5. Suspects that are requested anew are the worker's own and come first.
_CLAIMABLE = f"""
WITH RECURSIVE owner(name) AS (
  SELECT min(incarnation) FROM fabric_run WHERE incarnation IS NOT NULL
  UNION ALL
  SELECT (SELECT min(incarnation) FROM fabric_run WHERE incarnation > owner.name) FROM owner WHERE owner.name IS NOT NULL
), alive AS MATERIALIZED (
  SELECT name, lease_until > :now AS leased FROM fabric_incarnation WHERE retired_at IS NULL
), dead AS MATERIALIZED (
  SELECT name FROM owner WHERE name IS NOT NULL AND name NOT IN (SELECT name FROM alive WHERE leased OR NOT :steady)
), held(suspects) AS MATERIALIZED (
  SELECT count(*) FROM fabric_run
  WHERE incarnation = :me AND claims > {SUSPECT_FROM}
    AND claim_ticket NOT IN (SELECT value FROM json_each(:lost)) AND id NOT IN (SELECT value FROM json_each(:again))
), due(id, claims) AS MATERIALIZED (
  {{scheduled}}
  SELECT * FROM (
    SELECT r.id, r.claims FROM fabric_inbox i JOIN fabric_run r ON r.id = i.run_id
    WHERE i.consumed_seq IS NULL AND i.visible_at <= :now AND r.incarnation IS NULL AND r.state NOT IN {TERMINAL_SQL}
      AND r.queue IN ({{queues}}) AND i.wakes >= CASE WHEN r.state = 'quarantined' THEN 2 ELSE 1 END
      AND i.format <= :format AND r.format <= :format AND {_IN_TURN}
    ORDER BY i.visible_at LIMIT :span)
  UNION ALL
  SELECT id, claims FROM fabric_run WHERE incarnation IN (SELECT name FROM dead) AND format <= :format
  UNION ALL
  SELECT id, claims FROM fabric_run
  WHERE :lost <> '[]' AND incarnation = :me AND claim_ticket IN (SELECT value FROM json_each(:lost))
  UNION ALL
  SELECT id, claims FROM fabric_run WHERE id IN (SELECT value FROM json_each(:again)) AND incarnation = :me
), admitted(id) AS MATERIALIZED (
  SELECT id FROM fabric_run
  WHERE id IN (SELECT id FROM due WHERE claims >= {SUSPECT_FROM}) AND state NOT IN {TERMINAL_SQL} AND queue IN ({{queues}})
  ORDER BY incarnation IS NOT :me, priority, id LIMIT (SELECT max(0, {SUSPECTS_MAX} - suspects) FROM held)
)
SELECT id, fence + 1, revision_id, trace_id, seed, tier, incarnation IS NOT NULL, claims + 1, last_seq, head_hash, format,
  workspace_id, queue, session_key, parent_run_id, parent_command, fabric_id, created_by, caused_by, trace_context,
  EXISTS (SELECT 1 FROM fabric_budget g WHERE g.scope = 'workspace:' || workspace_id),
  (SELECT coalesce(max(p.number), 0) FROM fabric_workspace_policy p WHERE p.workspace_id = fabric_run.workspace_id), priority,
  (SELECT s.seq FROM fabric_snapshot s WHERE s.run_id = fabric_run.id AND :digest <> '' AND s.digest = :digest),
  (SELECT json_array_length(s.refs) FROM fabric_snapshot s WHERE s.run_id = fabric_run.id AND :digest <> '' AND s.digest = :digest)
FROM fabric_run
WHERE id IN (SELECT id FROM due) AND (claims < {SUSPECT_FROM} OR id IN (SELECT id FROM admitted))
  AND state NOT IN {TERMINAL_SQL} AND queue IN ({{queues}}) AND EXISTS (SELECT 1 FROM alive WHERE name = :me AND leased)
ORDER BY priority, id LIMIT :limit
"""
_SCHEDULED = f"""
  SELECT * FROM (
    SELECT r.id, r.claims FROM fabric_run r
    WHERE incarnation IS NULL AND wake_at IS NOT NULL AND queue = :queue{{queue}} AND priority = {{priority}} AND wake_at <= :now
      AND format <= :format AND state <> 'quarantined' AND {_IN_TURN}
    ORDER BY wake_at LIMIT :span)
  UNION ALL
"""
TAKE = "UPDATE fabric_run SET incarnation = ?, fence = fence + 1, claims = claims + 1, claim_ticket = ? WHERE id = ?"


@cache
def claimable(queues: int) -> str:
    """Return the statement for claimable runs of so many queues (``:queue0`` ...), the most urgent first."""
    scheduled = "".join(_SCHEDULED.format(queue=n, priority=p) for n in range(queues) for p in range(len(PRIORITIES)))
    return _CLAIMABLE.format(scheduled=scheduled, queues=", ".join(f":queue{n}" for n in range(queues)))


LOAD_ROWS = """
SELECT e.run_id, e.seq, e.kind, e.version, e.header, e.payload, e.payload_hash, e.hash
FROM json_each(?) AS wanted JOIN fabric_event e ON e.run_id = json_extract(wanted.value, '$[0]')
  AND e.seq > json_extract(wanted.value, '$[1]')
ORDER BY e.run_id, e.seq
"""
LOAD_INBOX = f"""
SELECT run_id, input_id, body, visible_at, visible_at > :now, format, created_at FROM fabric_inbox
WHERE run_id IN (SELECT value FROM json_each(:runs)) AND consumed_seq IS NULL AND visible_at <= :now + {ANNOUNCED_US}
ORDER BY created_at, rowid
"""
LOAD_SNAPSHOTS = """
SELECT run_id, seq, digest, head, state, refs FROM fabric_snapshot WHERE run_id IN (SELECT value FROM json_each(?))
"""
# CROSS JOIN keeps the order of the tables: else SQLite reads every event of the run for the few that are referred to.
LOAD_KEPT = """
SELECT e.run_id, e.seq, e.kind, e.version, e.header, e.payload, e.payload_hash, e.hash
FROM json_each(?) AS wanted CROSS JOIN fabric_snapshot s ON s.run_id = wanted.value
  CROSS JOIN json_each(s.refs) AS ref CROSS JOIN fabric_event e ON e.run_id = s.run_id AND e.seq = ref.value
"""
INBOX = f"""
SELECT i.run_id, i.input_id, i.body, i.visible_at, i.visible_at > :now, i.format, i.created_at
FROM fabric_inbox i JOIN fabric_run r ON r.id = i.run_id
WHERE i.consumed_seq IS NULL AND i.visible_at <= :now + {ANNOUNCED_US} AND r.incarnation = :name ORDER BY i.created_at, i.rowid
"""
OWNED_BY = "SELECT id FROM fabric_run WHERE incarnation = ? ORDER BY id"

HOLDS = f"""
SELECT ({rows.HOLDS_SQL.format(workspace="r.workspace_id", name="?2")})
FROM (SELECT 1) LEFT JOIN fabric_run r ON r.id = ?1
"""
STANDING = """
SELECT id, fence, last_seq, incarnation IS NOT NULL, workspace_id, CASE WHEN parent_run_id IS NOT NULL THEN root_run_id END
FROM fabric_run WHERE id IN (SELECT value FROM json_each(?))
"""
WAITING = "SELECT run_id, input_id FROM fabric_inbox WHERE run_id IN (SELECT value FROM json_each(?)) AND consumed_seq IS NULL"
UPDATE_RUN = """
UPDATE fabric_run SET last_seq = ?, head_hash = ?, state = ?, stage = ?, epoch = ?, cost_usd_micros = ?, tokens = ?, reason = ?,
  recovered = ?, truncated = ?, cause = ?, failure = ?, fired = ?, breakers = ?, unconfirmed_usd_micros = ?,
  spent_on = ?, started_at = ?, ended_at = ?, deadline_at = CASE WHEN ?19 = 0 THEN deadline_at ELSE ?19 END
WHERE id = ?20
"""
# For a batch that brings a part of the columns, or none: null leaves the row's as it is.
MARK_RUN = """
UPDATE fabric_run SET last_seq = ?, head_hash = ?, state = coalesce(?, state), reason = coalesce(?, reason),
  ended_at = coalesce(?, ended_at), recovered = coalesce(?, recovered), truncated = coalesce(?, truncated),
  spent_on = coalesce(?8, spent_on), cost_usd_micros = cost_usd_micros + ?9,
  unconfirmed_usd_micros = unconfirmed_usd_micros + ?9, tokens = tokens + ?10
WHERE id = ?11
"""
RAISE = "UPDATE fabric_run SET format = max(format, ?) WHERE id = ?"
PROGRESS = "UPDATE fabric_run SET claims = 0 WHERE id = ? AND claims > 0"
RELEASE = "UPDATE fabric_run SET incarnation = NULL, wake_at = ? WHERE id = ?"
APPEND = """
INSERT INTO fabric_event (at, seq, version, more, kind, header, payload, payload_hash, hash, run_id, workspace_id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
FAMILIES = """
SELECT root_run_id, alive, spawned, cap_alive, cap_spawned FROM fabric_family WHERE root_run_id IN (SELECT value FROM json_each(?))
"""
KNOWN = "SELECT id FROM fabric_run WHERE id IN (SELECT value FROM json_each(?))"
GROW = """
INSERT INTO fabric_family (root_run_id, workspace_id, alive, spawned, cap_alive, cap_spawned) VALUES (?1, ?2, ?3, ?3, ?4, ?5)
ON CONFLICT (root_run_id) DO UPDATE SET alive = alive + excluded.alive, spawned = spawned + excluded.spawned
"""
SHRINK = "UPDATE fabric_family SET alive = max(0, alive - 1) WHERE root_run_id = ?"
SEND = f"""
INSERT INTO fabric_inbox (run_id, workspace_id, input_id, body, created_at, visible_at, wakes, format)
SELECT id, workspace_id, :input_id, :body, :now, :now + :delay, :wakes, :format FROM fabric_run
WHERE id = :run_id AND state NOT IN {TERMINAL_SQL} ON CONFLICT DO NOTHING
"""
SNAP = """
INSERT INTO fabric_snapshot (run_id, workspace_id, seq, digest, head, state, refs) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run_id) DO UPDATE SET seq = excluded.seq, digest = excluded.digest, head = excluded.head, state = excluded.state,
  refs = excluded.refs
"""
CONSUME = "UPDATE fabric_inbox SET consumed_seq = ? WHERE run_id = ? AND input_id = ?"
CLOSE_INBOX = "UPDATE fabric_inbox SET consumed_seq = ? WHERE run_id = ? AND consumed_seq IS NULL"
WRITE_REVIEW = f"""
INSERT INTO fabric_review (id, workspace_id, run_id, {", ".join(COLUMNS)}) VALUES ({", ".join("?" * (3 + len(COLUMNS)))})
ON CONFLICT (id) DO UPDATE SET {REVIEW_CHANGED}
"""

HEADS = "SELECT id, fence, last_seq, head_hash FROM fabric_run WHERE id IN (SELECT value FROM json_each(?))"
JOURNAL = """
SELECT seq, kind, version, header, payload, payload_hash, hash FROM fabric_event WHERE run_id = ? AND seq > ? ORDER BY seq LIMIT ?
"""
# A family shows what was attached to its root.
DOCUMENTS = """
SELECT name, text, origin FROM fabric_attachment
WHERE run_id = (SELECT coalesce(root_run_id, id) FROM fabric_run WHERE id = ?) ORDER BY position
"""
# The earliest of each queue and priority, each a lookup. An input that its run's owner can already see is the owner's
# business; any process may claim a future one.
NEXT_DUE = f"""
WITH RECURSIVE wanted(queue) AS (
  SELECT min(queue) FROM fabric_run WHERE incarnation IS NULL AND wake_at IS NOT NULL
  UNION ALL
  SELECT (SELECT min(queue) FROM fabric_run WHERE incarnation IS NULL AND wake_at IS NOT NULL AND queue > wanted.queue)
  FROM wanted WHERE wanted.queue IS NOT NULL
), level(priority) AS (VALUES {", ".join(f"({rank})" for rank in range(len(PRIORITIES)))})
SELECT min(due) FROM (
  SELECT (SELECT min(wake_at) FROM fabric_run WHERE incarnation IS NULL AND wake_at IS NOT NULL
          AND queue = wanted.queue AND priority = level.priority AND state <> 'quarantined') AS due
  FROM wanted JOIN level
  UNION ALL
  SELECT * FROM (
    SELECT i.visible_at FROM fabric_inbox i JOIN fabric_run r ON r.id = i.run_id
    WHERE i.consumed_seq IS NULL AND (r.incarnation IS NULL OR i.visible_at > :now) AND r.state NOT IN {TERMINAL_SQL}
      AND i.wakes >= CASE WHEN r.state = 'quarantined' THEN 2 ELSE 1 END
    ORDER BY i.visible_at LIMIT 1)
)
"""
