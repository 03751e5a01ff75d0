"""Who is there: advisory locks that live as long as the sessions of the processes that hold them."""

# ruff: noqa: S608 - Every statement is put together here, from constants; values are parameters.

from __future__ import annotations

from fabric.adapters.postgresql_statements import NOW, WAKE_CHANNEL, Statement

# How pg_locks shows an advisory lock on one number of 64 bits.
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

# Reads alone, so that it costs no commit. Whose lease has lapsed needs no watching: anybody may claim what it owned.
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
