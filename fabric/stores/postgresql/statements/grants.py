"""The statements of shared budgets on PostgreSQL, and the parts that a flush carries with it.

Each is one transaction of one statement. Their safety at READ COMMITTED rests on these rules:

- A row that is to be changed is locked first, in a part of its own that the rest joins: its values are the latest,
  whatever the snapshot has. Locks are taken in one order: run, grants by id, budgets by scope.
- A sum has no row to lock. Its rows must have stopped growing *before the statement that sums begins*: so a grant is
  closed in steps. MARK waits for every flush that holds it, then makes it ``closing``, and no flush can hold it from
  then on. WORST settles the open reservations of its dead owner, and a reservation is settled once. SETTLE sums
  values that cannot change any more: it is a statement of its own, with a snapshot of its own. Each step may be
  repeated, and a process that dies between two leaves the rest to the next reaper.
- The table's check goes by ``cap``. Only SET_CAP raises it: every other statement may bring it down towards
  ``cap_wanted``, never up, so that the database would refuse one that granted too much.
"""

# ruff: noqa: S608 - Every statement is put together here, from constants; values are parameters.

from __future__ import annotations

from fabric.runtime.spending.rules import LEAVES_US, SHARE, WINDOW_US
from fabric.stores.postgresql.statements import NOW, Statement

_LEASED = "(SELECT name FROM fabric_incarnation, now WHERE retired_at IS NULL AND lease_until > us)"

# The budgets of ``{scopes}``, locked, and the windows that have left the hour, deleted: only after the lock, for the
# join needs it.
_HEADS = f"""
head AS MATERIALIZED (
  SELECT scope, hourly, cap_wanted, spent, granted, overrun FROM fabric_budget
  WHERE scope = ANY ({{scopes}}) ORDER BY scope FOR UPDATE
), gone AS (
  DELETE FROM fabric_budget_window w USING head, now WHERE w.scope = head.scope AND w.window_at <= us - {LEAVES_US}
  RETURNING w.scope, w.spent
), past AS MATERIALIZED (SELECT scope, sum(spent)::bigint AS spent FROM gone GROUP BY scope)"""

SET_CAP = Statement("""
INSERT INTO fabric_budget AS b (scope, workspace_id, hourly, cap, cap_wanted, spent, granted, overrun)
VALUES (:scope::text, :workspace_id::text, :hourly::boolean, :cap::bigint, :cap::bigint, 0, 0, 0)
ON CONFLICT (scope) DO UPDATE SET cap_wanted = excluded.cap_wanted, cap = greatest(excluded.cap_wanted, b.spent + b.granted)
WHERE NOT :only_new::boolean RETURNING 1
""")

BUDGETS = Statement(f"""
WITH {NOW}
SELECT b.scope, b.cap_wanted, b.spent - coalesce(
    (SELECT sum(w.spent) FROM fabric_budget_window w WHERE w.scope = b.scope AND w.window_at <= us - {LEAVES_US}), 0)::bigint,
  b.granted, b.overrun, b.hourly, us
FROM fabric_budget b, now WHERE b.scope = ANY (:scopes::text[])
""")

TAKE = Statement(f"""
WITH {NOW}, {_HEADS.format(scopes="ARRAY[:scope::text]")}, room AS MATERIALIZED (
  SELECT head.scope, hourly, cap_wanted, head.spent - coalesce(past.spent, 0) AS spent, coalesce(past.spent, 0) AS past, granted, overrun,
    cap_wanted - (head.spent - coalesce(past.spent, 0)) - granted AS free
  FROM head LEFT JOIN past ON past.scope = head.scope
), mine AS MATERIALIZED (
  SELECT amount FROM fabric_grant WHERE id = :grant_id::text
), judged AS MATERIALIZED (
  SELECT room.*, greatest(:enough::bigint, least(:chunk::bigint, greatest(free, 0) / {SHARE})) AS amount,
    :incarnation::text IN {_LEASED} AS leased
  FROM room
), given AS MATERIALIZED (
  SELECT judged.*, CASE WHEN leased AND amount > 0 AND amount <= free AND NOT EXISTS (SELECT FROM mine) THEN amount ELSE 0 END AS new FROM judged
), up AS (
  UPDATE fabric_budget b SET spent = given.spent, granted = given.granted + given.new,
    cap = greatest(given.cap_wanted, least(b.cap, given.spent + given.granted + given.new))
  FROM given WHERE b.scope = given.scope AND (given.new > 0 OR given.past > 0)
), made AS (
  INSERT INTO fabric_grant (id, incarnation, scope, state, amount, used, opened_at)
  SELECT :grant_id::text, :incarnation::text, scope, 'open', new, 0, us FROM given, now WHERE new > 0
)
SELECT coalesce((SELECT amount FROM mine), new), leased, cap_wanted, spent, granted, overrun, hourly, us FROM given, now
""")

KEEP = Statement(f"""
WITH {NOW}, asked AS MATERIALIZED (
  SELECT * FROM unnest(:grants::text[], :amounts::bigint[]) AS asked(id, kept)
), held AS MATERIALIZED (
  SELECT g.id, g.scope, g.amount FROM fabric_grant g
  WHERE g.id = ANY (ARRAY(SELECT id FROM asked)) AND g.state = 'open' AND g.incarnation = :incarnation::text ORDER BY g.id FOR UPDATE
), less AS MATERIALIZED (
  SELECT held.id, held.scope, asked.kept, held.amount - asked.kept AS back FROM held JOIN asked ON asked.id = held.id
  WHERE asked.kept >= 0 AND asked.kept < held.amount
), {_HEADS.format(scopes="ARRAY(SELECT scope FROM less)")}, kept AS (
  UPDATE fabric_grant g SET amount = less.kept, wanted_at = NULL FROM less WHERE g.id = less.id
)
UPDATE fabric_budget b SET granted = b.granted - l.back, spent = b.spent - coalesce(past.spent, 0),
  cap = greatest(b.cap_wanted, least(b.cap, b.spent - coalesce(past.spent, 0) + b.granted - l.back))
FROM head JOIN (SELECT scope, sum(back)::bigint AS back FROM less GROUP BY scope) AS l ON l.scope = head.scope
  LEFT JOIN past ON past.scope = head.scope
WHERE b.scope = head.scope
""")

# Wait for a flush that holds the grant: its reservations must be there before the sum.
MARK = Statement("""
WITH held AS MATERIALIZED (
  SELECT id, state FROM fabric_grant WHERE id = ANY (:grants::text[]) AND incarnation = :incarnation::text ORDER BY id FOR UPDATE
), marked AS (
  UPDATE fabric_grant g SET state = 'closing' FROM held WHERE g.id = held.id AND g.state = 'open'
)
SELECT id, state FROM held
""")

# A grant that a flush or another reaper holds is left to the next look. One that its living owner is closing is
# looked at too.
MARK_DEAD = Statement(f"""
WITH {NOW}, dead AS MATERIALIZED (
  SELECT id, incarnation NOT IN {_LEASED} AS dead FROM fabric_grant
  WHERE closed_at IS NULL AND (state = 'closing' OR incarnation NOT IN {_LEASED}) ORDER BY id FOR UPDATE SKIP LOCKED
), marked AS (
  UPDATE fabric_grant g SET state = 'closing' FROM dead WHERE g.id = dead.id AND g.state = 'open'
)
SELECT id, dead FROM dead
""")

WORST = Statement(f"""
WITH {NOW}
UPDATE fabric_reservation r SET settled = r.amount, reason = 'reaped', settled_at = us
FROM fabric_grant g, now WHERE r.grant_id = g.id AND g.id = ANY (:grants::text[]) AND g.state = 'closing' AND r.settled IS NULL
RETURNING 1
""")

SETTLE = Statement(f"""
WITH {NOW}, done AS MATERIALIZED (
  SELECT id, scope, amount FROM fabric_grant g
  WHERE id = ANY (:grants::text[]) AND state = 'closing'
    AND NOT EXISTS (SELECT FROM fabric_reservation r WHERE r.grant_id = g.id AND r.settled IS NULL)
  ORDER BY id FOR UPDATE SKIP LOCKED
), used AS MATERIALIZED (
  SELECT id, scope, amount, coalesce((SELECT sum(r.settled) FROM fabric_reservation r WHERE r.grant_id = done.id), 0)::bigint AS used FROM done
), {_HEADS.format(scopes="ARRAY(SELECT scope FROM used)")}, together AS MATERIALIZED (
  SELECT head.scope, hourly, cap_wanted, granted, overrun, head.spent - coalesce(past.spent, 0) AS spent, u.amount, u.used,
    least(u.used, u.amount + greatest(0, cap_wanted - (head.spent - coalesce(past.spent, 0)) - granted)) AS more
  FROM head JOIN (SELECT scope, sum(amount)::bigint AS amount, sum(used)::bigint AS used FROM used GROUP BY scope) AS u ON u.scope = head.scope
    LEFT JOIN past ON past.scope = head.scope
), up AS (
  UPDATE fabric_budget b SET spent = t.spent + t.more, granted = t.granted - t.amount, overrun = t.overrun + t.used - t.more,
    cap = greatest(t.cap_wanted, least(b.cap, t.spent + t.more + t.granted - t.amount))
  FROM together t WHERE b.scope = t.scope
), counted AS (
  INSERT INTO fabric_budget_window AS w (scope, window_at, spent)
  SELECT scope, us - us % {WINDOW_US}, more FROM together, now WHERE hourly AND more > 0
  ON CONFLICT (scope, window_at) DO UPDATE SET spent = w.spent + excluded.spent
)
UPDATE fabric_grant g SET state = 'closed', used = used.used, closed_at = us FROM used, now WHERE g.id = used.id RETURNING g.id
""")

RECLAIM = Statement(f"""
WITH {NOW}, others AS MATERIALIZED (
  SELECT id, amount, wanted_at FROM fabric_grant g
  WHERE closed_at IS NULL AND scope = :scope::text AND state = 'open' AND incarnation <> :incarnation::text
), asked AS MATERIALIZED (
  SELECT id FROM fabric_grant WHERE id = ANY (ARRAY(SELECT id FROM others WHERE wanted_at IS NULL)) ORDER BY id FOR UPDATE SKIP LOCKED
), told AS (
  UPDATE fabric_grant g SET wanted_at = us FROM asked, now WHERE g.id = asked.id
)
SELECT coalesce(sum(greatest(0, amount - coalesce(
  (SELECT sum(coalesce(r.settled, r.amount)) FROM fabric_reservation r WHERE r.grant_id = others.id), 0))), 0)::bigint FROM others
""")

WANTED = Statement("""
SELECT id FROM fabric_grant
WHERE closed_at IS NULL AND incarnation = :incarnation::text AND state = 'open' AND wanted_at IS NOT NULL ORDER BY id
""")

HELD = Statement("""
SELECT run_id, command_id, attempt, amount, settled, reason FROM fabric_reservation
WHERE grant_id = :grant::text ORDER BY run_id, command_id, attempt
""")

# -- the parts that a flush carries ------------------------------------------------------------------------------------
# ``n`` is the batch's place, as everywhere in a flush. The grants are locked against closing until the flush is over. A
# batch that reserves from one that is not open is ``grantless``: the update of runs leaves it out
# (``b.n NOT IN (SELECT n FROM grantless)``), and its fate is GRANT_GONE.

RESERVED = """
v AS MATERIALIZED (
  SELECT * FROM unnest(:v_n::bigint[], :v_run::text[], :v_command::text[], :v_attempt::bigint[], :v_grant::text[], :v_amount::bigint[],
    :v_settled::bigint[], :v_reason::text[]) AS v(n, run_id, command_id, attempt, grant_id, amount, settled, reason)
), funded AS MATERIALIZED (
  SELECT id FROM fabric_grant WHERE id = ANY (ARRAY(SELECT DISTINCT grant_id FROM v)) AND state = 'open' ORDER BY id FOR SHARE
), grantless AS MATERIALIZED (SELECT DISTINCT n FROM v WHERE grant_id NOT IN (SELECT id FROM funded))"""

RESERVE = """
reserved AS (
  INSERT INTO fabric_reservation (run_id, command_id, attempt, grant_id, amount, settled, reason, reserved_at, settled_at)
  SELECT v.run_id, v.command_id, v.attempt, v.grant_id, v.amount, v.settled, v.reason, us, CASE WHEN v.settled IS NOT NULL THEN us END
  FROM v JOIN up ON up.n = v.n CROSS JOIN now ON CONFLICT DO NOTHING
)"""

SETTLED = """
settled AS (
  UPDATE fabric_reservation r SET settled = coalesce(t.amount, r.amount), reason = t.reason, settled_at = us
  FROM unnest(:t_n::bigint[], :t_run::text[], :t_command::text[], :t_attempt::bigint[], :t_amount::bigint[], :t_reason::text[])
    AS t(n, run_id, command_id, attempt, amount, reason) JOIN up ON up.n = t.n CROSS JOIN now
  WHERE r.run_id = t.run_id AND r.command_id = t.command_id AND r.attempt = t.attempt AND r.settled IS NULL
)"""

# These parts alone: every batch with open grants is written.
WRITE = Statement(f"""
WITH {NOW}, {RESERVED}, up AS MATERIALIZED (
  SELECT n FROM unnest(:places::bigint[]) AS b(n) WHERE n NOT IN (SELECT n FROM grantless)
), {RESERVE}, {SETTLED}
SELECT n FROM grantless
""")
