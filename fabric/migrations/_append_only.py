"""Triggers that keep journals, audit lines and checkpoints as they were written.

SQLite forgets the triggers of a table that a later migration alters (Django makes it anew): such a migration runs ``install`` again as its last step.
"""

TABLES = ("event", "audit", "checkpoint")

_EVENT = ("at", "seq", "version", "run_id", "workspace_id", "kind", "header", "payload_hash", "hash")
_AUDIT = ("id", "workspace_id", "at", "actor", "via", "kind", "subject", "body")

_SAME_EVENT = " AND ".join(f"NEW.{name} IS NOT DISTINCT FROM OLD.{name}" for name in _EVENT)
_SAME_AUDIT = " AND ".join(f"NEW.{name} IS NOT DISTINCT FROM OLD.{name}" for name in _AUDIT)
ALLOWED = {
    # A payload may go; its hash stays.
    "event": f"NEW.payload IS NULL AND {_SAME_EVENT}",
    # The sealer gives a line its place, once.
    "audit": f"OLD.seq IS NULL AND OLD.hash IS NULL AND NEW.seq IS NOT NULL AND NEW.hash IS NOT NULL AND {_SAME_AUDIT}",
    "checkpoint": "",
}
"""The one update that each table allows; empty: none."""


def _refusal(table):
    return f"fabric_{table} is append-only"


def _postgresql(table):
    name, refusal = f"fabric_{table}", _refusal(table)
    yield f"""
        CREATE OR REPLACE FUNCTION {name}_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION '{refusal}: % is refused', TG_OP USING ERRCODE = 'restrict_violation'; END $$
    """
    for trigger in ("kept", "changed"):
        yield f"DROP TRIGGER IF EXISTS {name}_{trigger} ON {name}"
    yield f"""
        CREATE TRIGGER {name}_kept BEFORE DELETE OR TRUNCATE ON {name}
        FOR EACH STATEMENT EXECUTE FUNCTION {name}_append_only()
    """
    when = f"WHEN (NOT ({ALLOWED[table]}))" if ALLOWED[table] else ""
    yield f"""
        CREATE TRIGGER {name}_changed BEFORE UPDATE ON {name} FOR EACH ROW {when} EXECUTE FUNCTION {name}_append_only()
    """


def _sqlite(table):
    name, refusal = f"fabric_{table}", _refusal(table)
    # `IS` compares nulls as well; SQLite learnt the standard's words for it only in 3.39.
    allowed = ALLOWED[table].replace("IS NOT DISTINCT FROM", "IS")
    when = f"WHEN NOT ({allowed})" if allowed else ""
    for trigger in ("kept", "changed"):
        yield f"DROP TRIGGER IF EXISTS {name}_{trigger}"
    yield f"CREATE TRIGGER {name}_kept BEFORE DELETE ON {name} BEGIN SELECT RAISE(ABORT, '{refusal}: DELETE is refused'); END"
    yield f"CREATE TRIGGER {name}_changed BEFORE UPDATE ON {name} {when} BEGIN SELECT RAISE(ABORT, '{refusal}: UPDATE is refused'); END"


def install(apps, schema_editor):
    """Makes the triggers, those that are there anew."""
    statements = {"postgresql": _postgresql, "sqlite": _sqlite}[schema_editor.connection.vendor]
    for table in TABLES:
        for statement in statements(table):
            schema_editor.execute(statement, params=None)


def remove(apps, schema_editor):
    """Takes them away, for a migration back."""
    postgresql = schema_editor.connection.vendor == "postgresql"
    for table in TABLES:
        for trigger in ("kept", "changed"):
            on = f" ON fabric_{table}" if postgresql else ""
            schema_editor.execute(f"DROP TRIGGER IF EXISTS fabric_{table}_{trigger}{on}", params=None)
        if postgresql:
            schema_editor.execute(f"DROP FUNCTION IF EXISTS fabric_{table}_append_only()", params=None)
