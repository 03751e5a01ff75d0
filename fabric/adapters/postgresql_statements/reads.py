"""Reads that take nothing and change nothing."""

# ruff: noqa: S608 - Every statement is put together here, from constants; values are parameters.

from __future__ import annotations

from fabric.adapters.deciders import HOLDS_SQL
from fabric.adapters.journal_rows import TERMINAL_SQL
from fabric.adapters.postgresql_statements import NOW, Statement

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
       AND coalesce(r.state, '') <> 'quarantined'
     ORDER BY r.wake_at LIMIT 1
   ) AS first),
  (SELECT i.visible_at FROM fabric_inbox i JOIN fabric_run r ON r.id = i.run_id
   WHERE i.consumed_seq IS NULL AND (coalesce(r.incarnation, '') = '' OR i.visible_at > us)
     AND coalesce(r.state, '') NOT IN {TERMINAL_SQL} AND i.wakes >= CASE WHEN r.state = 'quarantined' THEN 2 ELSE 1 END
   ORDER BY i.visible_at LIMIT 1)
) - us FROM now
""")
