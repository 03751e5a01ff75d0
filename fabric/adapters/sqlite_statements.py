"""The statements of the SQLite store. A write holds the file's one write lock, so what it has read is still true when it writes."""

# ruff: noqa: S608 - Every statement is put together here, from constants; values are parameters.

from __future__ import annotations

from functools import cache

from fabric.adapters.journal_rows import PRIORITIES, TERMINAL_SQL

CREATE = """
INSERT INTO fabric_run (
  id, workspace_id, fabric_id, revision_id, session_key, start_key, title, trace_id, seed, tier, queue, priority, created_at,
  created_by, state, stage, epoch, cost_usd_micros, tokens, reason, recovered, truncated, deadline_at, last_seq, head_hash, fence,
  wake_at, claims, claim_ticket
) VALUES (
  :run_id, :workspace_id, (SELECT fabric_id FROM fabric_revision WHERE id = :revision_id), :revision_id, :session_key, :start_key,
  :title, :trace_id, :seed, :tier, :queue, :priority, :now, :requested_by, 'queued', '', 0, 0, 0, '', 0, 0, :deadline_at, 0, :head,
  0, :now, 0, 0
)
"""
EXISTING = """
SELECT id FROM fabric_run
WHERE id = :run_id OR (workspace_id = :workspace_id AND start_key = :start_key AND NOT (start_key = ''))
ORDER BY id = :run_id LIMIT 1
"""
ATTACH = "INSERT INTO fabric_attachment (run_id, workspace_id, position, name, text, bytes) VALUES (?, ?, ?, ?, ?, ?)"
PUT_INPUT = f"""
INSERT INTO fabric_inbox (run_id, workspace_id, input_id, body, created_at, visible_at, consumed_seq)
SELECT id, workspace_id, :input_id, :body, :now, :now + :delay, CASE WHEN state IN {TERMINAL_SQL} THEN last_seq END
FROM fabric_run WHERE id = :run_id ON CONFLICT DO NOTHING
"""
HAS_RUN = "SELECT 1 FROM fabric_run WHERE id = ?"
WITHDRAW = "DELETE FROM fabric_inbox WHERE run_id = ? AND input_id = ? AND consumed_seq IS NULL"

REGISTER = """
INSERT INTO fabric_incarnation (name, lease_until, started_at, host, pid) VALUES (:name, :now + :lease, :now, :host, :pid)
ON CONFLICT (name) DO UPDATE SET lease_until = excluded.lease_until WHERE retired_at IS NULL
"""
BEAT = "UPDATE fabric_incarnation SET lease_until = ? WHERE name = ? AND retired_at IS NULL"
RETIRE = "UPDATE fabric_incarnation SET retired_at = :now, lease_until = min(lease_until, :now) WHERE name = :name AND retired_at IS NULL"
RETIRE_OTHERS = RETIRE.replace("name = :name", "name <> :name")

# The owners are found one after the other in the index of owned runs: a lookup an owner, not a look at every run.
_CLAIMABLE = f"""
WITH RECURSIVE owner(name) AS (
  SELECT min(incarnation) FROM fabric_run WHERE incarnation IS NOT NULL
  UNION ALL
  SELECT (SELECT min(incarnation) FROM fabric_run WHERE incarnation > owner.name) FROM owner WHERE owner.name IS NOT NULL
), leased AS MATERIALIZED (
  SELECT name FROM fabric_incarnation WHERE retired_at IS NULL AND lease_until > :now
), dead AS MATERIALIZED (
  SELECT name FROM owner WHERE name IS NOT NULL AND name NOT IN (SELECT name FROM leased)
)
SELECT id, fence, revision_id, trace_id, seed, tier, incarnation IS NOT NULL FROM fabric_run
WHERE id IN (
  {{scheduled}}
  SELECT * FROM (
    SELECT r.id FROM fabric_inbox i JOIN fabric_run r ON r.id = i.run_id
    WHERE i.consumed_seq IS NULL AND i.visible_at <= :now AND r.incarnation IS NULL AND r.state NOT IN {TERMINAL_SQL}
      AND r.queue IN ({{queues}})
    ORDER BY i.visible_at LIMIT :limit)
  UNION ALL
  SELECT id FROM fabric_run WHERE incarnation IN (SELECT name FROM dead)
  UNION ALL
  SELECT id FROM fabric_run WHERE :lost <> '[]' AND incarnation = :me AND claim_ticket IN (SELECT value FROM json_each(:lost))
  UNION ALL
  SELECT id FROM fabric_run WHERE id IN (SELECT value FROM json_each(:again)) AND incarnation = :me
) AND state NOT IN {TERMINAL_SQL} AND queue IN ({{queues}}) AND EXISTS (SELECT 1 FROM leased WHERE name = :me)
ORDER BY priority, wake_at, id LIMIT :limit
"""
_SCHEDULED = """
  SELECT * FROM (
    SELECT id FROM fabric_run
    WHERE incarnation IS NULL AND wake_at IS NOT NULL AND queue = :queue{queue} AND priority = {priority} AND wake_at <= :now
    ORDER BY wake_at LIMIT :limit)
  UNION ALL
"""
TAKE = "UPDATE fabric_run SET incarnation = ?, fence = fence + 1, claims = claims + 1, claim_ticket = ? WHERE id = ?"


@cache
def claimable(queues: int) -> str:
    """Runs that may be claimed from so many queues (``:queue0`` ...), the most urgent first."""
    scheduled = "".join(_SCHEDULED.format(queue=n, priority=p) for n in range(queues) for p in range(len(PRIORITIES)))
    return _CLAIMABLE.format(scheduled=scheduled, queues=", ".join(f":queue{n}" for n in range(queues)))


LOAD_ROWS = """
SELECT run_id, seq, kind, version, header, payload, payload_hash, hash FROM fabric_event
WHERE run_id IN (SELECT value FROM json_each(?)) ORDER BY run_id, seq
"""
LOAD_INBOX = """
SELECT run_id, input_id, body FROM fabric_inbox
WHERE run_id IN (SELECT value FROM json_each(?)) AND consumed_seq IS NULL AND visible_at <= ? ORDER BY created_at, rowid
"""
INBOX = """
SELECT i.run_id, i.input_id, i.body FROM fabric_inbox i JOIN fabric_run r ON r.id = i.run_id
WHERE i.consumed_seq IS NULL AND i.visible_at <= ? AND r.incarnation = ? ORDER BY i.created_at, i.rowid
"""

STANDING = """
SELECT id, fence, last_seq, incarnation IS NOT NULL, workspace_id FROM fabric_run WHERE id IN (SELECT value FROM json_each(?))
"""
WAITING = "SELECT run_id, input_id FROM fabric_inbox WHERE run_id IN (SELECT value FROM json_each(?)) AND consumed_seq IS NULL"
UPDATE_RUN = """
UPDATE fabric_run SET last_seq = ?, head_hash = ?, state = ?, stage = ?, epoch = ?, cost_usd_micros = ?, tokens = ?, reason = ?,
  recovered = ?, truncated = ?, started_at = ?, ended_at = ?, deadline_at = CASE WHEN ?13 = 0 THEN deadline_at ELSE ?13 END
WHERE id = ?14
"""
PROGRESS = "UPDATE fabric_run SET claims = 0 WHERE id = ? AND claims > 0"
RELEASE = "UPDATE fabric_run SET incarnation = NULL, wake_at = ? WHERE id = ?"
APPEND = """
INSERT INTO fabric_event (at, seq, version, kind, header, payload, payload_hash, hash, run_id, workspace_id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
CONSUME = "UPDATE fabric_inbox SET consumed_seq = ? WHERE run_id = ? AND input_id = ?"
CLOSE_INBOX = "UPDATE fabric_inbox SET consumed_seq = ? WHERE run_id = ? AND consumed_seq IS NULL"
ESCALATE = """
INSERT INTO fabric_escalation (id, workspace_id, run_id, step_id, item, reason, failure_type, stage, required_role, verbs, digest,
  opened_at, due_at, content, decided_at, verb, decided_by, by_system)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET decided_at = excluded.decided_at, verb = excluded.verb, decided_by = excluded.decided_by,
  by_system = excluded.by_system
"""

HEADS = "SELECT id, fence, last_seq, head_hash FROM fabric_run WHERE id IN (SELECT value FROM json_each(?))"
JOURNAL = """
SELECT seq, kind, version, header, payload, payload_hash, hash FROM fabric_event WHERE run_id = ? AND seq > ? ORDER BY seq LIMIT ?
"""
DOCUMENTS = "SELECT name, text FROM fabric_attachment WHERE run_id = ? ORDER BY position"
# The earliest of each queue and priority, each a lookup. An input that its run's owner can already see is the owner's business; one that is to
# come is everybody's.
NEXT_DUE = f"""
WITH RECURSIVE wanted(queue) AS (
  SELECT min(queue) FROM fabric_run WHERE incarnation IS NULL AND wake_at IS NOT NULL
  UNION ALL
  SELECT (SELECT min(queue) FROM fabric_run WHERE incarnation IS NULL AND wake_at IS NOT NULL AND queue > wanted.queue)
  FROM wanted WHERE wanted.queue IS NOT NULL
), level(priority) AS (VALUES {", ".join(f"({rank})" for rank in range(len(PRIORITIES)))})
SELECT min(due) FROM (
  SELECT (SELECT min(wake_at) FROM fabric_run WHERE incarnation IS NULL AND wake_at IS NOT NULL
          AND queue = wanted.queue AND priority = level.priority) AS due
  FROM wanted JOIN level
  UNION ALL
  SELECT * FROM (
    SELECT i.visible_at FROM fabric_inbox i JOIN fabric_run r ON r.id = i.run_id
    WHERE i.consumed_seq IS NULL AND (r.incarnation IS NULL OR i.visible_at > :now) AND r.state NOT IN {TERMINAL_SQL}
    ORDER BY i.visible_at LIMIT 1)
)
"""
