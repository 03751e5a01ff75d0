"""The statements of the PostgreSQL store. Each is the whole of a call: one statement, one transaction, one round trip.

Parameters are written ``:name``. The clock is the database's; ``clock_timestamp()`` is read once a statement, in ``now``, so that an index
can be searched with it. ``coalesce`` where "is null" or "is not in" is meant keeps the planner from a partial index that looks cheap while
the tables are small: the plan is made once and must do for large ones too. READ COMMITTED: a row that changed since the statement began is looked at again before it is updated.
"""

# ruff: noqa: S608 - Every statement is put together here, from constants; values are parameters.

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from fabric.adapters.journal_rows import TERMINAL_SQL

_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")
WAKE_CHANNEL = "fabric_wake"
TOLD_CHANNEL = "fabric_told"
NOTIFY_RUNS = 96
"""Runs in one notification, which holds 8,000 bytes."""


class Statement:
    """SQL with named parameters, in the numbered form that PostgreSQL prepares."""

    def __init__(self, text: str) -> None:
        self._names: list[str] = []
        self.sql = _PARAMETER.sub(self._number, text).encode()

    def _number(self, found: re.Match[str]) -> str:
        name = found[1]
        if name not in self._names:
            self._names.append(name)
        return f"${self._names.index(name) + 1}"

    def arguments(self, values: Mapping[str, Any]) -> list[Any]:
        """The parameters' values in their order; KeyError for one that is missing."""
        return [values[name] for name in self._names]


NOW = "now AS MATERIALIZED (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS us)"

_RUN_COLUMNS = """
  id, workspace_id, fabric_id, revision_id, session_key, start_key, title, trace_id, seed, tier, queue, priority, created_at,
  created_by, state, stage, epoch, cost_usd_micros, tokens, reason, recovered, truncated, deadline_at, last_seq, head_hash, fence,
  wake_at, claims, claim_ticket
"""

CREATE = Statement(f"""
WITH {NOW}, run AS (
  INSERT INTO fabric_run ({_RUN_COLUMNS})
  SELECT :run_id::text, :workspace_id::text, (SELECT fabric_id FROM fabric_revision WHERE id = :revision_id::text),
    :revision_id::text, :session_key::text, :start_key::text, :title::text, :trace_id::text, :seed::bigint, :tier::text,
    :queue::text, :priority::smallint, us, :requested_by::text, 'queued', '', 0, 0, 0, '', false, false,
    :deadline_at::bigint, 0, :head::bytea, 0, us, 0, 0
  FROM now ON CONFLICT DO NOTHING RETURNING id, workspace_id
), arrived AS (
  INSERT INTO fabric_inbox (run_id, workspace_id, input_id, body, created_at, visible_at)
  SELECT id, workspace_id, :input_id::text, :body::bytea, us, us FROM run, now
), attached AS (
  INSERT INTO fabric_attachment (run_id, workspace_id, position, name, text, bytes)
  SELECT id, workspace_id, n, name, body, octet_length(body)
  FROM run, unnest(:names::text[], :texts::text[]) WITH ORDINALITY AS given(name, body, n)
)
SELECT id, CASE WHEN :notify::boolean THEN pg_notify('{WAKE_CHANNEL}', id) IS NULL END FROM run
""")

EXISTING = Statement("""
SELECT id FROM fabric_run WHERE workspace_id = :workspace_id::text AND start_key = :start_key::text AND NOT start_key = ''
UNION ALL SELECT id FROM fabric_run WHERE id = :run_id::text
""")

PUT_INPUT = Statement(f"""
WITH {NOW}, run AS (
  SELECT id, workspace_id, CASE WHEN state IN {TERMINAL_SQL} THEN last_seq END AS closed FROM fabric_run WHERE id = :run_id::text
), arrived AS (
  INSERT INTO fabric_inbox (run_id, workspace_id, input_id, body, created_at, visible_at, consumed_seq)
  SELECT id, workspace_id, :input_id::text, :body::bytea, us, us + :delay::bigint, closed FROM run, now
  ON CONFLICT DO NOTHING RETURNING run_id
)
SELECT EXISTS (SELECT FROM arrived),
  CASE WHEN :notify::boolean THEN (SELECT pg_notify('{WAKE_CHANNEL}', run_id) IS NULL FROM arrived) END
FROM run
""")

WITHDRAW = Statement("""
DELETE FROM fabric_inbox WHERE run_id = :run_id::text AND input_id = :input_id::text AND consumed_seq IS NULL RETURNING 1
""")

REGISTER = Statement(f"""
WITH {NOW}
INSERT INTO fabric_incarnation AS i (name, lease_until, started_at, host, pid)
SELECT :name::text, us + :lease::bigint, us, :host::text, :pid::int FROM now
ON CONFLICT (name) DO UPDATE SET lease_until = excluded.lease_until WHERE i.retired_at IS NULL RETURNING 1
""")

BEAT = Statement(f"""
WITH {NOW}
UPDATE fabric_incarnation SET lease_until = us + :lease::bigint FROM now
WHERE name = :name::text AND retired_at IS NULL RETURNING 1
""")

RETIRE = Statement(f"""
WITH {NOW}
UPDATE fabric_incarnation SET retired_at = us, lease_until = least(lease_until, us) FROM now
WHERE name = :name::text AND retired_at IS NULL
""")

# The owners are found one after the other in the index of owned runs: a lookup an owner, not a look at every run.
CLAIM = Statement(f"""
WITH RECURSIVE {NOW}, owner(name) AS (
  (SELECT incarnation FROM fabric_run WHERE incarnation IS NOT NULL ORDER BY incarnation LIMIT 1)
  UNION ALL
  SELECT (SELECT incarnation FROM fabric_run r WHERE r.incarnation > owner.name ORDER BY incarnation LIMIT 1)
  FROM owner WHERE owner.name IS NOT NULL
), leased AS MATERIALIZED (
  SELECT name FROM fabric_incarnation, now WHERE retired_at IS NULL AND lease_until > us
), dead AS MATERIALIZED (
  SELECT name FROM owner WHERE name IS NOT NULL AND name NOT IN (SELECT name FROM leased)
), due AS MATERIALIZED (
  SELECT scheduled.id
  FROM unnest(:queues::text[]) AS wanted(queue) CROSS JOIN generate_series(0, 3) AS level(priority) CROSS JOIN LATERAL (
    SELECT id FROM fabric_run r
    WHERE r.incarnation IS NULL AND r.wake_at IS NOT NULL AND r.queue = wanted.queue AND r.priority = level.priority
      AND r.wake_at <= (SELECT us FROM now)
    ORDER BY r.wake_at LIMIT :span::bigint
  ) AS scheduled
  UNION
  (SELECT r.id FROM fabric_inbox i JOIN fabric_run r ON r.id = i.run_id
   WHERE i.consumed_seq IS NULL AND i.visible_at <= (SELECT us FROM now) AND r.incarnation IS NULL
     AND r.queue = ANY (:queues::text[]) AND coalesce(r.state, '') NOT IN {TERMINAL_SQL}
   ORDER BY i.visible_at LIMIT :span::bigint)
  UNION
  (SELECT r.id FROM fabric_run r
   WHERE r.incarnation = ANY (ARRAY(SELECT name::text FROM dead)) AND r.queue = ANY (:queues::text[]) AND coalesce(r.state, '') NOT IN {TERMINAL_SQL} LIMIT :span::bigint)
  UNION
  (SELECT r.id FROM fabric_run r
   WHERE cardinality(:lost::bigint[]) > 0 AND r.incarnation = :me::text AND r.claim_ticket = ANY (:lost::bigint[]))
  UNION
  (SELECT r.id FROM fabric_run r WHERE r.id = ANY (:again::text[]) AND r.incarnation = :me::text)
), picked AS MATERIALIZED (
  SELECT r.id, r.incarnation AS previous FROM fabric_run r
  WHERE r.id = ANY (ARRAY(SELECT id::text FROM due)) AND coalesce(r.state, '') NOT IN {TERMINAL_SQL}
    AND (r.incarnation IS NULL OR r.incarnation IN (SELECT name FROM dead)
         OR (r.incarnation = :me::text AND (r.claim_ticket = ANY (:lost::bigint[]) OR r.id = ANY (:again::text[]))))
    AND EXISTS (SELECT FROM leased WHERE name = :me::text)
  ORDER BY r.priority, r.wake_at, r.id LIMIT :limit::bigint FOR UPDATE OF r SKIP LOCKED
)
UPDATE fabric_run r SET incarnation = :me::text, fence = r.fence + 1, claims = r.claims + 1, claim_ticket = :ticket::bigint
FROM picked WHERE r.id = picked.id
RETURNING r.priority, r.wake_at, r.id, r.fence, r.revision_id, r.trace_id, r.seed, r.tier, picked.previous IS NOT NULL
""")

LOAD = Statement(f"""
WITH {NOW}
SELECT run_id, seq, kind, version, header, payload, payload_hash, hash
FROM fabric_event WHERE run_id = ANY (:runs::text[])
UNION ALL
SELECT run_id, NULL, input_id, NULL, body, NULL, NULL, NULL
FROM (SELECT run_id, input_id, body FROM fabric_inbox, now
      WHERE run_id = ANY (:runs::text[]) AND coalesce(consumed_seq, -1) = -1 AND visible_at <= us ORDER BY created_at, input_id) AS waiting
""")

INBOX = Statement(f"""
WITH {NOW}
SELECT i.run_id, i.input_id, i.body FROM fabric_inbox i JOIN fabric_run r ON r.id = i.run_id
WHERE i.consumed_seq IS NULL AND i.visible_at <= (SELECT us FROM now) AND coalesce(r.incarnation, '') = :name::text
ORDER BY i.created_at, i.input_id
""")

HEADS = Statement("SELECT id, fence, last_seq, head_hash FROM fabric_run WHERE id = ANY (:runs::text[])")

JOURNAL = Statement("""
SELECT seq, kind, version, header, payload, payload_hash, hash FROM fabric_event
WHERE run_id = :run_id::text AND seq > :after::bigint ORDER BY seq LIMIT :limit::bigint
""")

DOCUMENTS = Statement("SELECT name, text FROM fabric_attachment WHERE run_id = :run_id::text ORDER BY position")

# The earliest of each queue and priority, each a lookup. An input that its run's owner can already see is the owner's business; one that is to
# come is everybody's.
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
     ORDER BY r.wake_at LIMIT 1
   ) AS first),
  (SELECT i.visible_at FROM fabric_inbox i JOIN fabric_run r ON r.id = i.run_id
   WHERE i.consumed_seq IS NULL AND (coalesce(r.incarnation, '') = '' OR i.visible_at > us)
     AND coalesce(r.state, '') NOT IN {TERMINAL_SQL}
   ORDER BY i.visible_at LIMIT 1)
) - us FROM now
""")

_BATCHES = """
b AS MATERIALIZED (
  SELECT * FROM unnest(
    :run_id::text[], :fence::bigint[], :last_seq::bigint[], :new_seq::bigint[], :head::bytea[], :state::text[], :stage::text[],
    :epoch::bigint[], :cost::bigint[], :tokens::bigint[], :reason::text[], :recovered::boolean[], :truncated::boolean[],
    :started_at::bigint[], :ended_at::bigint[], :deadline_at::bigint[], :wake_at::bigint[], :release::boolean[],
    :over::boolean[], :progress::boolean[]
  ) WITH ORDINALITY AS b(
    run_id, fence, last_seq, new_seq, head, state, stage, epoch, cost, tokens, reason, recovered, truncated, started_at, ended_at,
    deadline_at, wake_at, release, over, progress, n)
)"""

# Locking the inbox rows first makes a withdrawal and a consumption exclude each other: whoever comes second finds nothing.
_CONSUMED = """
c AS MATERIALIZED (
  SELECT * FROM unnest(:taker::bigint[], :taker_run::text[], :input_id::text[]) AS c(n, run_id, input_id)
), held AS MATERIALIZED (
  SELECT c.n, c.input_id FROM c JOIN fabric_inbox i ON i.run_id = c.run_id AND i.input_id = c.input_id
  WHERE coalesce(i.consumed_seq, -1) = -1 FOR UPDATE OF i
),
gone AS MATERIALIZED (SELECT DISTINCT n FROM c WHERE (n, input_id) NOT IN (SELECT n, input_id FROM held))"""

_UPDATED = """
up AS (
  UPDATE fabric_run r SET last_seq = b.new_seq, head_hash = b.head, state = b.state, stage = b.stage, epoch = b.epoch,
    cost_usd_micros = b.cost, tokens = b.tokens, reason = b.reason, recovered = b.recovered, truncated = b.truncated,
    started_at = b.started_at, ended_at = b.ended_at,
    deadline_at = CASE WHEN b.deadline_at = 0 THEN r.deadline_at ELSE b.deadline_at END,
    claims = CASE WHEN b.progress THEN 0 ELSE r.claims END,
    wake_at = CASE WHEN b.release THEN b.wake_at ELSE r.wake_at END,
    incarnation = CASE WHEN b.release THEN NULL ELSE r.incarnation END
  FROM b WHERE r.id = b.run_id AND r.fence = b.fence AND r.last_seq = b.last_seq AND coalesce(r.incarnation, '') <> ''
    {not_gone}
  RETURNING b.n, r.id, r.workspace_id, b.last_seq, b.new_seq, b.over
)"""

_APPENDED = """
ev AS (
  INSERT INTO fabric_event (at, seq, version, kind, header, payload, payload_hash, hash, run_id, workspace_id)
  SELECT e.at, e.seq, e.version, e.kind, e.header, e.payload, e.payload_hash, e.hash, up.id, up.workspace_id
  FROM unnest(:e_n::bigint[], :e_at::bigint[], :e_seq::bigint[], :e_version::bigint[], :e_kind::text[], :e_header::bytea[],
    :e_payload::bytea[], :e_payload_hash::bytea[], :e_hash::bytea[])
    AS e(n, at, seq, version, kind, header, payload, payload_hash, hash)
  JOIN up ON up.n = e.n
)"""

_TAKEN = """
taken AS (
  UPDATE fabric_inbox i SET consumed_seq = up.new_seq FROM up
  WHERE i.run_id = up.id AND coalesce(i.consumed_seq, -1) = -1
    AND (up.over {or_consumed}) AND up.n = ANY (:takers::bigint[])
)"""

_ESCALATED = """
es AS (
  INSERT INTO fabric_escalation (id, workspace_id, run_id, step_id, item, reason, failure_type, stage, required_role, verbs, digest,
    opened_at, due_at, content, decided_at, verb, decided_by, by_system)
  SELECT s.id, up.workspace_id, up.id, s.step_id, s.item, s.reason, s.failure_type, s.stage, s.required_role, s.verbs, s.digest,
    s.opened_at, s.due_at, s.content, s.decided_at, s.verb, s.decided_by, s.by_system
  FROM unnest(:s_n::bigint[], :s_id::text[], :s_step::text[], :s_item::text[], :s_reason::text[], :s_failure::text[],
    :s_stage::text[], :s_role::text[], :s_verbs::text[], :s_digest::text[], :s_opened::bigint[], :s_due::bigint[],
    :s_content::bytea[], :s_decided::bigint[], :s_verb::text[], :s_by::text[], :s_system::boolean[])
    WITH ORDINALITY AS s(n, id, step_id, item, reason, failure_type, stage, required_role, verbs, digest, opened_at, due_at,
      content, decided_at, verb, decided_by, by_system, place)
  JOIN up ON up.n = s.n ORDER BY s.place
  ON CONFLICT (id) DO UPDATE SET decided_at = excluded.decided_at, verb = excluded.verb, decided_by = excluded.decided_by,
    by_system = excluded.by_system
)"""

# What was not written, and whether for an input that was gone; and, where asked for, the notification. The row is read as it was when the
# statement began, while the update looked at it after waiting for whoever held it: a row that seems the owner's still may not be.
_FATES = """
SELECT b.n, {gone}
FROM b WHERE b.n NOT IN (SELECT n FROM up)"""
_GONE = """b.n IN (SELECT n FROM gone)
  AND (SELECT r.fence = b.fence AND r.last_seq = b.last_seq AND r.incarnation IS NOT NULL FROM fabric_run r WHERE r.id = b.run_id)"""

_TOLD = f"""
UNION ALL
SELECT 0, pg_notify('{TOLD_CHANNEL}', left(string_agg(up.id || ':' || up.new_seq, ','), 7900)) IS NULL
FROM up WHERE up.new_seq > up.last_seq GROUP BY up.n / {NOTIFY_RUNS}"""


@cache
def write(*, rows: bool, consumed: bool, taking: bool, escalated: bool, told: bool) -> Statement:
    """The one statement of a flush, without the parts that none of its batches needs."""
    parts = [_BATCHES]
    if consumed:
        parts.append(_CONSUMED)
    parts.append(_UPDATED.format(not_gone="AND b.n NOT IN (SELECT n FROM gone)" if consumed else ""))
    if rows:
        parts.append(_APPENDED)
    if taking:
        or_consumed = "OR (up.n, i.input_id) IN (SELECT n, input_id FROM c)" if consumed else ""
        parts.append(_TAKEN.format(or_consumed=or_consumed))
    if escalated:
        parts.append(_ESCALATED)
    fates = _FATES.format(gone=_GONE if consumed else "FALSE")
    return Statement("WITH " + ",".join(parts) + fates + (_TOLD if told else ""))
