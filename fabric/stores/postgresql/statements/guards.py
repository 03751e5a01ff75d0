"""The statements of retry tokens and guard rows: each is a conditional update on the values that the caller saw."""

# ruff: noqa: S608 - Every statement is put together here, from constants; values are parameters.

from __future__ import annotations

from fabric.runtime.spending import rules
from fabric.stores.postgresql.statements import NOW, Statement

# All buckets are locked in the order of their names, then judged together: either each gives its token or none does.
TOKENS = Statement(f"""
WITH {NOW}, a AS MATERIALIZED (
  SELECT * FROM unnest(:scopes::text[], :sizes::bigint[], :earned::bigint[]) AS a(scope, size, earned)
), held AS MATERIALIZED (
  SELECT scope, level, credited_at FROM fabric_bucket WHERE scope = ANY (ARRAY(SELECT scope FROM a)) ORDER BY scope FOR UPDATE
), b AS MATERIALIZED (
  SELECT a.scope, a.size, least(a.size, held.level + a.earned) AS balance, credited_at FROM a JOIN held ON held.scope = a.scope
), judged AS MATERIALIZED (
  SELECT b.*, balance >= {rules.TOKEN} AS paid,
    :first::boolean AND credited_at <= us - {rules.CREDIT_EVERY_US} AND balance - {rules.TOKEN} >= -size AS credit
  FROM b, now
), verdict AS MATERIALIZED (
  SELECT count(*) = cardinality(:scopes::text[]) AS whole, :take::boolean AND bool_and(paid OR credit) AS given FROM judged
)
UPDATE fabric_bucket t SET level = balance - CASE WHEN given THEN {rules.TOKEN} ELSE 0 END,
  credited_at = CASE WHEN given AND NOT paid THEN us ELSE t.credited_at END
FROM judged, verdict, now WHERE t.scope = judged.scope AND whole RETURNING t.scope, t.level, given
""")

FILL = Statement("""
INSERT INTO fabric_bucket (scope, level, credited_at) SELECT scope, size, 0
FROM unnest(:scopes::text[], :sizes::bigint[]) AS a(scope, size) ORDER BY scope ON CONFLICT DO NOTHING
""")

GUARDS = Statement(f"""
WITH {NOW}
SELECT a.scope, a.kind, coalesce(g.state, ''), coalesce(g.generation, 0), coalesce(g.changed_at, 0), coalesce(g.permits, '{{}}'),
  us, c.signal, c.n
FROM unnest(:scopes::text[], :kinds::text[]) AS a(scope, kind) CROSS JOIN now
  LEFT JOIN fabric_guard g ON g.scope = a.scope AND g.kind = a.kind
  LEFT JOIN LATERAL (
    SELECT signal, sum(n)::bigint AS n FROM fabric_guard_count c
    WHERE c.scope = a.scope AND c.kind = a.kind AND (c.generation = coalesce(g.generation, 0) OR ring = {rules.UNTIL_RING})
      AND (ring < 0 OR slot_at > us - us % {rules.SLOT_US} - {rules.COUNTED_US})
    GROUP BY signal
  ) AS c ON true
""")

# Counts of an ended generation are left out; should one end at this moment, its counts are in a row that no reader
# uses.
TELL = Statement(f"""
WITH {NOW}, c AS MATERIALIZED (
  SELECT c.scope, c.kind, c.generation, c.signal, c.n, c.reset,
    CASE WHEN windowed THEN us - us % {rules.SLOT_US} ELSE 0 END AS slot_at,
    CASE WHEN windowed THEN us / {rules.SLOT_US} % {rules.RING} ELSE -1 END AS ring
  FROM unnest(:scopes::text[], :kinds::text[], :generations::bigint[], :signals::text[], :ns::bigint[], :resets::boolean[], :windowed::boolean[])
    AS c(scope, kind, generation, signal, n, reset, windowed)
    CROSS JOIN now LEFT JOIN fabric_guard g ON g.scope = c.scope AND g.kind = c.kind
  WHERE coalesce(g.generation, 0) = c.generation
)
INSERT INTO fabric_guard_count AS t (scope, kind, signal, ring, slot_at, generation, n)
SELECT scope, kind, signal, ring, slot_at, generation, n FROM c ORDER BY scope, kind, signal, ring
ON CONFLICT (scope, kind, signal, ring) DO UPDATE SET slot_at = excluded.slot_at, generation = excluded.generation,
  n = CASE WHEN t.generation <> excluded.generation OR t.slot_at <> excluded.slot_at
      OR (SELECT c.reset FROM c WHERE c.scope = t.scope AND c.kind = t.kind AND c.signal = t.signal AND c.ring = t.ring)
    THEN excluded.n ELSE t.n + excluded.n END
WHERE t.generation <= excluded.generation
""")

# Each signal once, of any generation: one of an older generation is heeded, and breaks nothing.
UNTIL = Statement(f"""
WITH {NOW}, c AS MATERIALIZED (
  SELECT c.scope, c.kind, c.signal, max(CASE WHEN c.n > 0 THEN us + c.n ELSE 0 END) AS n,
    bool_or(c.reset AND coalesce(g.generation, 0) = c.generation) AS reset
  FROM unnest(:scopes::text[], :kinds::text[], :generations::bigint[], :signals::text[], :ns::bigint[], :resets::boolean[])
    AS c(scope, kind, generation, signal, n, reset)
    CROSS JOIN now LEFT JOIN fabric_guard g ON g.scope = c.scope AND g.kind = c.kind
  GROUP BY c.scope, c.kind, c.signal
)
INSERT INTO fabric_guard_count AS t (scope, kind, signal, ring, slot_at, generation, n)
SELECT scope, kind, signal, {rules.UNTIL_RING}, 0, 0, n FROM c ORDER BY scope, kind, signal
ON CONFLICT (scope, kind, signal, ring) DO UPDATE SET n = CASE
    WHEN (SELECT c.reset FROM c WHERE c.scope = t.scope AND c.kind = t.kind AND c.signal = t.signal) THEN excluded.n
    ELSE greatest(t.n, excluded.n) END
""")

_CHANGE = f"""
WITH {NOW}, done AS (
INSERT INTO fabric_guard AS g (scope, kind, state, generation, changed_at)
SELECT :scope::text, :kind::text, :state::text, 1, us FROM now
WHERE (:generation::bigint = 0 AND :holder::text = '')
  OR EXISTS (SELECT FROM fabric_guard WHERE scope = :scope::text AND kind = :kind::text AND generation = :generation::bigint)
ON CONFLICT (scope, kind) DO UPDATE SET state = excluded.state, generation = g.generation + 1, changed_at = excluded.changed_at,
  permits = CASE WHEN :keeps::boolean THEN (g.permits::jsonb - :holder::text)::text ELSE '{{{{}}}}' END
WHERE g.generation = :generation::bigint AND (:holder::text = '' OR g.permits::jsonb -> :holder::text IS NOT NULL)
RETURNING g.scope, g.kind, g.generation, g.state, g.changed_at
){{audited}}
INSERT INTO fabric_guard_change (scope, kind, generation, state, at) SELECT scope, kind, generation, state, changed_at FROM done RETURNING 1
"""
CHANGE = Statement(_CHANGE.format(audited=""))
CHANGE_AUDITED = Statement(
    _CHANGE.format(
        audited=""", audited AS (
INSERT INTO fabric_audit (id, workspace_id, at, actor, via, kind, subject, body, address)
SELECT :entry_id::text, r.workspace_id, done.changed_at, :actor::text, :via::text, :act::text, :subject::text, :entry_body::bytea,
    NULLIF(:address::text, '')
FROM done, fabric_run r WHERE r.id = :run_id::text
)"""
    )
)

CHANGES = Statement("""
SELECT generation, state, at FROM fabric_guard_change WHERE scope = :scope::text AND kind = :kind::text ORDER BY generation
""")

# The permits are a part of the row, and not rows of their own: a process that waited for the row's lock judges them
# anew, so that no two take the last one.
PERMIT = Statement(f"""
WITH {NOW}
UPDATE fabric_guard g SET permits = (jsonb_build_object(:holder::text, us + :for::bigint)
  || coalesce((SELECT jsonb_object_agg(key, value) FROM jsonb_each(g.permits::jsonb) WHERE value::bigint > us), '{{}}'))::text FROM now
WHERE scope = :scope::text AND kind = :kind::text AND generation = :generation::bigint AND generation > 0
  AND (SELECT count(*) < :most::bigint AND bool_and(key <> :holder::text) IS NOT FALSE FROM jsonb_each(g.permits::jsonb) WHERE value::bigint > us)
  AND NOT EXISTS (SELECT FROM fabric_guard_count c WHERE c.scope = g.scope AND c.kind = g.kind AND c.ring = {rules.UNTIL_RING} AND c.n > us)
RETURNING 1
""")

GIVE_UP = Statement("""
UPDATE fabric_guard SET permits = (permits::jsonb - :holder::text)::text
WHERE scope = :scope::text AND kind = :kind::text AND permits::jsonb -> :holder::text IS NOT NULL RETURNING 1
""")
