"""The one statement of a flush, assembled from the parts that its batches need."""

# ruff: noqa: S608 - Every statement is put together here, from constants; values are parameters.

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from fabric.runtime.ports.batch_parts import COLUMNS
from fabric.stores.postgresql.statements import NOW, TOLD_CHANNEL, WAKE_CHANNEL, Statement
from fabric.stores.postgresql.statements.arriving import RUN_COLUMNS
from fabric.stores.postgresql.statements.grants import RESERVE, RESERVED, SETTLED
from fabric.stores.rows import HOLDS_SQL, REVIEW_CHANGED, TERMINAL_SQL

NOTIFY_RUNS = 96
"""Largest number of runs in one notification of at most 8,000 bytes."""

_BATCHES = """
b AS MATERIALIZED (
  SELECT * FROM unnest(
    :run_id::text[], :fence::bigint[], :last_seq::bigint[], :new_seq::bigint[], :head::bytea[], :state::text[], :stage::text[],
    :epoch::bigint[], :cost::bigint[], :tokens::bigint[], :reason::text[], :recovered::boolean[], :truncated::boolean[],
    :cause::text[], :failure::text[], :fired::text[], :breakers::text[], :unconfirmed::bigint[], :spent_on::text[],
    :started_at::bigint[], :ended_at::bigint[], :deadline_at::bigint[], :wake_at::bigint[], :release::boolean[],
    :over::boolean[], :progress::boolean[]
  ) WITH ORDINALITY AS b(
    run_id, fence, last_seq, new_seq, head, state, stage, epoch, cost, tokens, reason, recovered, truncated, cause, failure, fired,
    breakers, unconfirmed, spent_on, started_at, ended_at, deadline_at, wake_at, release, over, progress, n)
)"""

# Locking the inbox rows first makes a withdrawal and a consumption exclude each other: the second one finds nothing.
_CONSUMED = """
c AS MATERIALIZED (
  SELECT * FROM unnest(:taker::bigint[], :taker_run::text[], :input_id::text[]{columns}) AS c(n, run_id, input_id{names})
), held AS MATERIALIZED (
  SELECT c.n, c.input_id FROM c JOIN fabric_inbox i ON i.run_id = c.run_id AND i.input_id = c.input_id
  WHERE coalesce(i.consumed_seq, -1) = -1{stands} FOR UPDATE OF i
),
gone AS MATERIALIZED (SELECT DISTINCT n FROM c WHERE (n, input_id) NOT IN (SELECT n, input_id FROM held))"""

# For answers too: the decider still has the roles that they were judged on.
_STANDS = f"""
    AND (c.person = '' OR c.roles IS NOT DISTINCT FROM ({HOLDS_SQL.format(workspace="i.workspace_id", name="c.person")}))"""
_JUDGED = {"columns": ", :person::text[], :person_roles::text[]", "names": ", person, roles", "stands": _STANDS}
_UNJUDGED = dict.fromkeys(_JUDGED, "")

_UPDATED = """
up AS (
  UPDATE fabric_run r SET last_seq = b.new_seq, head_hash = b.head, {columns},
    deadline_at = CASE WHEN b.deadline_at = 0 THEN r.deadline_at ELSE b.deadline_at END,
    claims = CASE WHEN b.progress THEN 0 ELSE r.claims END,
    wake_at = CASE WHEN b.release THEN b.wake_at ELSE r.wake_at END,
    incarnation = CASE WHEN b.release THEN NULL ELSE r.incarnation END{raised}
  FROM b WHERE r.id = b.run_id AND r.fence = b.fence AND r.last_seq = b.last_seq AND coalesce(r.incarnation, '') <> ''
    {not_gone}
  RETURNING b.n, r.id, r.workspace_id, b.last_seq, b.new_seq, b.over{returning}
)"""

_COLUMNS = """state = b.state, stage = b.stage, epoch = b.epoch,
    cost_usd_micros = b.cost, tokens = b.tokens, reason = b.reason, recovered = b.recovered, truncated = b.truncated,
    cause = b.cause, failure = b.failure, fired = b.fired, breakers = b.breakers,
    unconfirmed_usd_micros = b.unconfirmed, spent_on = b.spent_on, started_at = b.started_at, ended_at = b.ended_at"""

# For batches that bring a part of the columns, or none: null leaves the row's as it is, and no stage means that there
# are not all of them.
_SOME_COLUMNS = """state = coalesce(b.state, r.state), stage = coalesce(b.stage, r.stage), epoch = coalesce(b.epoch, r.epoch),
    cost_usd_micros = coalesce(b.cost, r.cost_usd_micros) + (:charged::bigint[])[b.n],
    tokens = coalesce(b.tokens, r.tokens) + (:charged_tokens::bigint[])[b.n],
    reason = coalesce(b.reason, r.reason), recovered = coalesce(b.recovered, r.recovered),
    truncated = coalesce(b.truncated, r.truncated),
    cause = coalesce(b.cause, r.cause), failure = coalesce(b.failure, r.failure), fired = coalesce(b.fired, r.fired),
    breakers = coalesce(b.breakers, r.breakers), spent_on = coalesce(b.spent_on, r.spent_on),
    unconfirmed_usd_micros = coalesce(b.unconfirmed, r.unconfirmed_usd_micros) + (:charged::bigint[])[b.n],
    started_at = CASE WHEN b.stage IS NULL THEN r.started_at ELSE b.started_at END,
    ended_at = CASE WHEN b.stage IS NULL THEN coalesce(b.ended_at, r.ended_at) ELSE b.ended_at END"""

_RAISED = """,
    format = greatest(r.format, (:format::bigint[])[b.n])"""

# Spawns that fit into their families. The runs are locked first, so that every run counted here is written below;
# then the families, in one order everywhere. Within a family one batch is judged after the other; runs that end in
# this flush make room for the next one.
_FAMILIES = """
child AS MATERIALIZED (
  SELECT * FROM unnest(
    :k_n::bigint[], :k_id::text[], :k_workspace::text[], :k_revision::text[], :k_session::text[], :k_title::text[],
    :k_trace::text[], :k_seed::bigint[], :k_tier::text[], :k_queue::text[], :k_priority::bigint[], :k_by::text[],
    :k_deadline::bigint[], :k_format::bigint[], :k_parent::text[], :k_command::text[], :k_root::text[], :k_cap::bigint[],
    :k_origin::text[], :k_origin_seq::bigint[], :k_input::text[], :k_body::bytea[],
    :k_caused::text[], :k_context::text[]
  ) AS child(n, id, workspace_id, revision_id, session_key, title, trace_id, seed, tier, queue, priority, created_by,
    deadline_at, format, parent_run_id, parent_command, root_run_id, cap, origin_run_id, origin_seq, input_id, body, caused_by,
    trace_context)
), standing AS MATERIALIZED (
  SELECT b.n, b.over, r.parent_run_id, r.root_run_id FROM b JOIN fabric_run r ON r.id = b.run_id
  WHERE r.fence = b.fence AND r.last_seq = b.last_seq AND coalesce(r.incarnation, '') <> ''
    AND (b.over OR b.n = ANY (:spawners::bigint[])) {not_gone}
  FOR UPDATE OF r
), family AS MATERIALIZED (
  SELECT root_run_id, alive, spawned, cap_alive, cap_spawned FROM fabric_family
  WHERE root_run_id = ANY (ARRAY(SELECT root_run_id::text FROM child UNION SELECT root_run_id::text FROM standing WHERE over))
  ORDER BY root_run_id FOR UPDATE
), wanted AS MATERIALIZED (
  SELECT w.n, w.root, row_number() OVER (PARTITION BY w.root ORDER BY w.n) AS place,
    (SELECT count(*) FROM child WHERE child.n = w.n AND NOT EXISTS (SELECT FROM fabric_run r WHERE r.id = child.id)) AS kids,
    coalesce(f.alive, 0)::bigint AS alive, coalesce(f.spawned, 0)::bigint AS spawned,
    coalesce(f.cap_alive, w.cap_alive) AS cap_alive, coalesce(f.cap_spawned, w.cap_spawned) AS cap_spawned
  FROM unnest(:spawners::bigint[], :w_root::text[], :w_alive::bigint[], :w_spawned::bigint[]) AS w(n, root, cap_alive, cap_spawned)
  JOIN standing ON standing.n = w.n LEFT JOIN family f ON f.root_run_id = w.root
), fit(n, root, place, fits, kids, alive, spawned) AS (
  SELECT n, root, place, alive + kids <= cap_alive AND spawned + kids <= cap_spawned, kids, alive, spawned
  FROM wanted WHERE place = 1
  UNION ALL
  SELECT w.n, w.root, w.place,
    now.alive + w.kids <= w.cap_alive AND now.spawned + w.kids <= w.cap_spawned, w.kids, now.alive, now.spawned
  FROM fit JOIN wanted w ON w.root = fit.root AND w.place = fit.place + 1 CROSS JOIN LATERAL (
    SELECT fit.alive + CASE WHEN fit.fits THEN fit.kids ELSE 0 END AS alive,
      fit.spawned + CASE WHEN fit.fits THEN fit.kids ELSE 0 END AS spawned
  ) AS now
), grown AS MATERIALIZED (
  SELECT root, sum(kids) AS kids, sum(ended) AS ended FROM (
    SELECT root, kids, 0 AS ended FROM fit WHERE fits
    UNION ALL SELECT root_run_id, 0, 1 FROM standing
      WHERE over AND parent_run_id IS NOT NULL AND n NOT IN (SELECT n FROM fit WHERE NOT fits)
  ) AS change GROUP BY root
), counted AS (
  UPDATE fabric_family f SET alive = greatest(0, f.alive + grown.kids - grown.ended), spawned = f.spawned + grown.kids
  FROM grown WHERE f.root_run_id = grown.root
), founded AS (
  INSERT INTO fabric_family (root_run_id, workspace_id, alive, spawned, cap_alive, cap_spawned)
  SELECT w.root, (SELECT workspace_id FROM child WHERE child.n = w.n LIMIT 1), grown.kids, grown.kids, w.cap_alive, w.cap_spawned
  FROM wanted w JOIN grown ON grown.root = w.root
  WHERE w.place = 1 AND w.root NOT IN (SELECT root_run_id FROM family) AND grown.kids > 0
)"""

_SPAWNED = f"""
kids AS (
  INSERT INTO fabric_run ({RUN_COLUMNS})
  SELECT c.id, c.workspace_id, (SELECT fabric_id FROM fabric_revision WHERE id = c.revision_id), c.revision_id, c.session_key, '',
    c.title, c.trace_id, c.seed, c.tier, c.queue, c.priority, us, c.created_by, 'queued', '', 0, 0, 0, '', false, false,
    c.deadline_at, 0, decode(repeat('00', 32), 'hex'), 0, us, 0, 0, c.format, c.parent_run_id, c.parent_command, c.root_run_id,
    c.cap, c.origin_run_id, c.origin_seq, c.caused_by, c.trace_context
  FROM child c JOIN up ON up.n = c.n CROSS JOIN now ON CONFLICT DO NOTHING RETURNING id, workspace_id
), begun AS (
  INSERT INTO fabric_inbox (run_id, workspace_id, input_id, body, created_at, visible_at, wakes, format)
  SELECT kids.id, kids.workspace_id, c.input_id, c.body, us, us, 1, c.format
  FROM kids JOIN child c ON c.id = kids.id CROSS JOIN now
)"""

# Where no batch spawns, children that end are counted as they are written.
_ENDED = """
ended AS (
  UPDATE fabric_family f SET alive = greatest(0, f.alive - gone.runs) FROM (
    SELECT root_run_id, count(*) AS runs FROM up WHERE over AND parent_run_id IS NOT NULL GROUP BY root_run_id ORDER BY root_run_id
  ) AS gone WHERE f.root_run_id = gone.root_run_id
)"""

# A run that ends in this flush gets nothing; one that begins in it is not in the table yet.
_SENT = """
sent AS (
  INSERT INTO fabric_inbox (run_id, workspace_id, input_id, body, created_at, visible_at, wakes, format)
  SELECT t.id, t.workspace_id, s.input_id, s.body, us, us + s.delay, s.wakes, s.format
  FROM unnest(:m_n::bigint[], :m_run::text[], :m_input::text[], :m_body::bytea[], :m_delay::bigint[], :m_wakes::bigint[],
    :m_format::bigint[]) WITH ORDINALITY AS s(n, run_id, input_id, body, delay, wakes, format, place)
  JOIN up ON up.n = s.n CROSS JOIN now CROSS JOIN LATERAL (
    SELECT r.id, r.workspace_id FROM fabric_run r
    WHERE r.id = s.run_id AND coalesce(r.state, '') NOT IN {terminal} AND r.id NOT IN (SELECT id FROM up WHERE over)
    {or_begun}
  ) AS t ORDER BY s.place ON CONFLICT DO NOTHING RETURNING run_id, wakes, visible_at
)"""

_SNAPPED = """
snapped AS (
  INSERT INTO fabric_snapshot (run_id, workspace_id, seq, digest, head, state, refs)
  SELECT up.id, up.workspace_id, s.seq, s.digest, s.head, s.state, s.refs
  FROM unnest(:p_n::bigint[], :p_seq::bigint[], :p_digest::text[], :p_head::bytea[], :p_state::bytea[], :p_refs::text[])
    AS s(n, seq, digest, head, state, refs)
  JOIN up ON up.n = s.n
  ON CONFLICT (run_id) DO UPDATE SET seq = excluded.seq, digest = excluded.digest, head = excluded.head, state = excluded.state,
    refs = excluded.refs
)"""

_APPENDED = """
ev AS (
  INSERT INTO fabric_event (at, seq, version, more, kind, header, payload, payload_hash, hash, run_id, workspace_id)
  SELECT e.at, e.seq, e.version, e.more, e.kind, e.header, e.payload, e.payload_hash, e.hash, up.id, up.workspace_id
  FROM unnest(:e_n::bigint[], :e_at::bigint[], :e_seq::bigint[], :e_version::bigint[], :e_more::bigint[], :e_kind::text[], :e_header::bytea[],
    :e_payload::bytea[], :e_payload_hash::bytea[], :e_hash::bytea[])
    AS e(n, at, seq, version, more, kind, header, payload, payload_hash, hash)
  JOIN up ON up.n = e.n
)"""

_TAKEN = """
taken AS (
  UPDATE fabric_inbox i SET consumed_seq = up.new_seq FROM up
  WHERE i.run_id = up.id AND coalesce(i.consumed_seq, -1) = -1
    AND (up.over {or_consumed}) AND up.n = ANY (:takers::bigint[])
)"""

REVIEW_TYPES = {
    **dict.fromkeys(("opened_at", "due_at", "decided_at", "remind_at", "onward_at", "approvals"), "bigint"),
    **dict.fromkeys(("by_system", "alone", "reminded", "onward"), "boolean"),
    **dict.fromkeys(("score", "tau"), "double precision"),
    "content": "bytea",
}
"""Types of the columns of a review's row; text where none is named."""
_REVIEWED = f"""
es AS (
  INSERT INTO fabric_review (id, workspace_id, run_id, {", ".join(COLUMNS)})
  SELECT s.id, up.workspace_id, up.id, {", ".join(f"s.{name}" for name in COLUMNS)}
  FROM unnest(:s_n::bigint[], :s_id::text[], {", ".join(f":s_{name}::{REVIEW_TYPES.get(name, 'text')}[]" for name in COLUMNS)})
    WITH ORDINALITY AS s(n, id, {", ".join(COLUMNS)}, place)
  JOIN up ON up.n = s.n ORDER BY s.place
  ON CONFLICT (id) DO UPDATE SET {REVIEW_CHANGED}
)"""

# Unwritten batches with the reason: 3 for a grant that is not open any more, 2 for a full family, 1 for an input that
# was gone, else 0; and, if requested, the notifications. The row is read as it was when the statement began, while
# the update read it after waiting for its lock: a row that seems to be the owner's still may not be.
_FATES = """
SELECT b.n, {why}
FROM b WHERE b.n NOT IN (SELECT n FROM up)"""
_FULL = " WHEN b.n IN (SELECT n FROM fit WHERE NOT fits) THEN 2"
_GONE = """ WHEN b.n IN (SELECT n FROM {gone})
  AND (SELECT r.fence = b.fence AND r.last_seq = b.last_seq AND r.incarnation IS NOT NULL FROM fabric_run r WHERE r.id = b.run_id)
  THEN {why}"""

_TOLD = f"""
UNION ALL
SELECT 0, (pg_notify('{TOLD_CHANNEL}', left(string_agg(up.id || ':' || up.new_seq, ','), 7900)) IS NULL)::int
FROM up WHERE up.new_seq > up.last_seq GROUP BY up.n / {NOTIFY_RUNS}"""
_WOKEN = f"""
UNION ALL
SELECT 0, (pg_notify('{WAKE_CHANNEL}', id) IS NULL)::int FROM ({{woken}}) AS woken(id)"""


@dataclass(frozen=True, slots=True)
class FlushShape:
    """The parts of a flush. Each costs a little even when it is empty, so those that none of its batches needs are
    left out.
    """

    rows: bool
    consumed: bool
    taking: bool
    """A batch consumes, or ends its run."""
    ended: bool
    reviewed: bool
    told: bool
    spawned: bool = False
    sent: bool = False
    snapped: bool = False
    raised: bool = False
    """A batch raises its run's format."""
    partly: bool = False
    """A batch does not bring all columns."""
    reserved: bool = False
    """A batch reserves from grants."""
    settled: bool = False
    judged: bool = False
    """It consumes answers of people, among others."""
    """A batch settles reservations."""


@cache
def write(shape: FlushShape) -> Statement:
    """Return the one statement of a flush of this shape."""
    not_gone = "AND b.n NOT IN (SELECT n FROM gone)" if shape.consumed else ""
    not_gone += " AND b.n NOT IN (SELECT n FROM grantless)" if shape.reserved else ""
    counts = shape.ended and not shape.spawned
    updated = _UPDATED.format(
        columns=_SOME_COLUMNS if shape.partly else _COLUMNS,
        raised=_RAISED if shape.raised else "",
        not_gone=not_gone + (" AND b.n NOT IN (SELECT n FROM fit WHERE NOT fits)" if shape.spawned else ""),
        returning=", r.parent_run_id, r.root_run_id" if counts else "",
    )
    or_consumed = "OR (up.n, i.input_id) IN (SELECT n, input_id FROM c)" if shape.consumed else ""
    or_begun = "UNION ALL SELECT kids.id, kids.workspace_id FROM kids WHERE kids.id = s.run_id" if shape.spawned else ""
    parts = (
        (shape.spawned or shape.sent or shape.reserved or shape.settled, NOW),
        (True, _BATCHES),
        (shape.consumed, _CONSUMED.format(**(_JUDGED if shape.judged else _UNJUDGED))),
        (shape.reserved, RESERVED),
        (shape.spawned, _FAMILIES.format(not_gone=not_gone)),
        (True, updated),
        (shape.rows, _APPENDED),
        (shape.taking, _TAKEN.format(or_consumed=or_consumed)),
        (shape.reviewed, _REVIEWED),
        (counts, _ENDED),
        (shape.spawned, _SPAWNED),
        (shape.sent, _SENT.format(terminal=TERMINAL_SQL, or_begun=or_begun)),
        (shape.snapped, _SNAPPED),
        (shape.reserved, RESERVE),
        (shape.settled, SETTLED),
    )
    with_ = "WITH RECURSIVE " if shape.spawned else "WITH "
    why = _FULL if shape.spawned else ""
    why += _GONE.format(gone="gone", why=1) if shape.consumed else ""
    why += _GONE.format(gone="grantless", why=3) if shape.reserved else ""
    fates = _FATES.format(why=f"CASE{why} ELSE 0 END" if why else "0")
    return Statement(with_ + ",".join(part for wanted, part in parts if wanted) + fates + _build_notify(shape))


def _build_notify(shape: FlushShape) -> str:
    if not shape.told:
        return ""
    woken = [
        (shape.spawned, "SELECT id FROM kids"),
        (shape.sent, "SELECT run_id FROM sent, now WHERE wakes > 0 AND visible_at <= us"),
    ]
    wakes = " UNION ".join(part for wanted, part in woken if wanted)
    return _TOLD + (_WOKEN.format(woken=wakes) if wakes else "")
