"""Statements for arrivals from outside: they insert runs and inputs, and take an input back."""

# ruff: noqa: S608 - Every statement is put together here, from constants; values are parameters.

from __future__ import annotations

from fabric.runtime.ports.journal import TAKEN_BACK
from fabric.stores.postgresql.statements import NOW, WAKE_CHANNEL, Statement
from fabric.stores.rows import TERMINAL_SQL

RUN_COLUMNS = """
  id, workspace_id, fabric_id, revision_id, session_key, start_key, title, trace_id, seed, tier, queue, priority, created_at,
  created_by, state, stage, epoch, cost_usd_micros, tokens, reason, recovered, truncated, deadline_at, last_seq, head_hash, fence,
  wake_at, claims, claim_ticket, format, parent_run_id, parent_command, root_run_id, cap_usd_micros, origin_run_id, origin_seq,
  caused_by, trace_context
"""

_CREATE = f"""
WITH {NOW}, run AS (
  INSERT INTO fabric_run ({RUN_COLUMNS})
  SELECT :run_id::text, :workspace_id::text, (SELECT fabric_id FROM fabric_revision WHERE id = :revision_id::text),
    :revision_id::text, :session_key::text, :start_key::text, :title::text, :trace_id::text, :seed::bigint, :tier::text,
    :queue::text, :priority::smallint, us, :requested_by::text, 'queued', '', 0, 0, 0, '', false, false,
    :deadline_at::bigint, 0, :head::bytea, 0, us, 0, 0, :format::smallint, :parent_run_id::text, :parent_command::text,
    :root_run_id::text, :cap::bigint, :origin_run_id::text, :origin_seq::int, :caused_by::text,
    :trace_context::text
  FROM now
  WHERE fabric_admits_start(:workspace_id::text, (SELECT fabric_id FROM fabric_revision WHERE id = :revision_id::text))
  ON CONFLICT DO NOTHING RETURNING id, workspace_id
), arrived AS (
  INSERT INTO fabric_inbox (run_id, workspace_id, input_id, body, created_at, visible_at, wakes, format)
  SELECT id, workspace_id, :input_id::text, :body::bytea, us, us, 1, :format::smallint FROM run, now
), attached AS (
  INSERT INTO fabric_attachment (run_id, workspace_id, position, name, text, bytes, origin)
  SELECT id, workspace_id, n, name, body, octet_length(body), origin
  FROM run, unnest(:names::text[], :texts::text[], :origins::text[]) WITH ORDINALITY AS given(name, body, origin, n)
), labelled AS (
  INSERT INTO fabric_run_label (run_id, workspace_id, key, value)
  SELECT id, workspace_id, key, value FROM run, unnest(:label_keys::text[], :label_values::text[]) AS given(key, value)
){{audited}}
SELECT id, CASE WHEN :notify::boolean THEN pg_notify('{WAKE_CHANNEL}', id) IS NULL END FROM run
"""

EXISTING = Statement("""
SELECT id FROM fabric_run WHERE workspace_id = :workspace_id::text AND start_key = :start_key::text AND NOT start_key = ''
UNION ALL SELECT id FROM fabric_run WHERE id = :run_id::text
UNION ALL SELECT NULL
  WHERE NOT fabric_admits_start(:workspace_id::text, (SELECT fabric_id FROM fabric_revision WHERE id = :revision_id::text))
""")
"""The run that has the start key, or the id. After them comes a row of NULL while a stop of new runs stands."""

_PUT_INPUT = f"""
WITH {NOW}, run AS (
  SELECT id, workspace_id, CASE WHEN state IN {TERMINAL_SQL} THEN last_seq END AS closed FROM fabric_run WHERE id = :run_id::text
), arrived AS (
  INSERT INTO fabric_inbox (run_id, workspace_id, input_id, body, created_at, visible_at, consumed_seq, wakes, format)
  SELECT id, workspace_id, :input_id::text, :body::bytea, us, us + :delay::bigint, closed, :wakes::smallint, :format::smallint
  FROM run, now
  ON CONFLICT DO NOTHING RETURNING run_id
){{audited}}
SELECT EXISTS (SELECT FROM arrived),
  CASE WHEN :notify::boolean THEN (SELECT pg_notify('{WAKE_CHANNEL}', run_id) IS NULL FROM arrived) END
FROM run
"""
_AUDITED = """, audited AS (
  INSERT INTO fabric_audit (id, workspace_id, at, actor, via, kind, subject, body, address)
  SELECT :entry_id::text, {of}.workspace_id, us, :actor::text, :via::text, :act::text, :subject::text, :entry_body::bytea,
    NULLIF(:address::text, '')
  FROM {of}, now{done}
)"""
CREATE = Statement(_CREATE.format(audited=""))
CREATE_AUDITED = Statement(_CREATE.format(audited=_AUDITED.format(of="run", done="")))
PUT_INPUT = Statement(_PUT_INPUT.format(audited=""))
PUT_INPUT_AUDITED = Statement(_PUT_INPUT.format(audited=_AUDITED.format(of="run", done=", arrived")))

_CHANGE_INPUT = f"""
WITH {NOW}, changed AS (
  UPDATE fabric_inbox SET {{change}} FROM now
  WHERE run_id = :run_id::text AND input_id = :input_id::text AND consumed_seq IS NULL{{condition}} RETURNING run_id, workspace_id
){{audited}}
SELECT CASE WHEN :notify::boolean THEN pg_notify('{WAKE_CHANNEL}', run_id) IS NULL END FROM changed
"""
_CHANGED = _AUDITED.format(of="changed", done="")
# A row that was taken back stays: its id is not free for other bytes, which an owner that read the first would take
# for them.
_WITHDRAW = {"change": f"consumed_seq = {TAKEN_BACK}", "condition": ""}
_HASTEN = {"change": "visible_at = us", "condition": " AND visible_at > us"}
WITHDRAW, WITHDRAW_AUDITED, HASTEN, HASTEN_AUDITED = (
    Statement(_CHANGE_INPUT.format(**what, audited=audited))
    for what in (_WITHDRAW, _HASTEN)
    for audited in ("", _CHANGED)
)

CONSUMED = Statement(f"""
SELECT consumed_seq <> {TAKEN_BACK} FROM fabric_inbox WHERE run_id = :run_id::text AND input_id = :input_id::text
""")
