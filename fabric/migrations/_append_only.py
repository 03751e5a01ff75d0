"""Triggers that keep journals, audit lines and checkpoints as they were written.

SQLite forgets the triggers of a table that a later migration alters (Django makes it anew): such a migration runs ``install`` and ``install_drills`` again as
its last steps; one that alters ``fabric_workspace``, ``install_drills``.
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
    "auditcut": "",
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


# -- drills ------------------------------------------------------------------------------------------------------------

_OF_DRILLS = "EXISTS (SELECT 1 FROM fabric_workspace WHERE id = OLD.workspace_id AND drills_of_id IS NOT NULL)"
"""Whether an event is of a drill's run: those are erased whole when they are old."""
_FIXED = "whose drills run in a workspace is said when it is made: UPDATE is refused"


def _drills_postgresql():
    name, refusal = "fabric_event", _refusal("event")
    yield f"""
        CREATE OR REPLACE FUNCTION {name}_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF TG_OP = 'DELETE' AND {_OF_DRILLS} THEN RETURN OLD; END IF;
            RAISE EXCEPTION '{refusal}: % is refused', TG_OP USING ERRCODE = 'restrict_violation';
        END $$
    """
    for trigger in ("kept", "emptied"):
        yield f"DROP TRIGGER IF EXISTS {name}_{trigger} ON {name}"
    yield f"CREATE TRIGGER {name}_kept BEFORE DELETE ON {name} FOR EACH ROW EXECUTE FUNCTION {name}_append_only()"
    yield f"CREATE TRIGGER {name}_emptied BEFORE TRUNCATE ON {name} FOR EACH STATEMENT EXECUTE FUNCTION {name}_append_only()"
    yield f"""
        CREATE OR REPLACE FUNCTION fabric_workspace_fixed() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION '{_FIXED}' USING ERRCODE = 'restrict_violation'; END $$
    """
    yield "DROP TRIGGER IF EXISTS fabric_workspace_fixed ON fabric_workspace"
    yield """
        CREATE TRIGGER fabric_workspace_fixed BEFORE UPDATE ON fabric_workspace FOR EACH ROW
        WHEN (NEW.drills_of_id IS DISTINCT FROM OLD.drills_of_id OR NEW.id IS DISTINCT FROM OLD.id)
        EXECUTE FUNCTION fabric_workspace_fixed()
    """


def _drills_sqlite():
    name, refusal = "fabric_event", _refusal("event")
    yield f"DROP TRIGGER IF EXISTS {name}_kept"
    yield f"""
        CREATE TRIGGER {name}_kept BEFORE DELETE ON {name} WHEN NOT {_OF_DRILLS}
        BEGIN SELECT RAISE(ABORT, '{refusal}: DELETE is refused'); END
    """
    yield "DROP TRIGGER IF EXISTS fabric_workspace_fixed"
    yield f"""
        CREATE TRIGGER fabric_workspace_fixed BEFORE UPDATE ON fabric_workspace
        WHEN NEW.drills_of_id IS NOT OLD.drills_of_id OR NEW.id IS NOT OLD.id
        BEGIN SELECT RAISE(ABORT, '{_FIXED}'); END
    """


def install_drills(apps, schema_editor):
    """Has the events of drills' runs deleted, and of no others: whose drills run in a workspace can never be said later."""
    statements = {"postgresql": _drills_postgresql, "sqlite": _drills_sqlite}[schema_editor.connection.vendor]
    for statement in statements():
        schema_editor.execute(statement, params=None)


def remove_drills(apps, schema_editor):
    """The triggers as they were before, for a migration back."""
    postgresql = schema_editor.connection.vendor == "postgresql"
    on = " ON {}" if postgresql else ""
    schema_editor.execute("DROP TRIGGER IF EXISTS fabric_workspace_fixed" + on.format("fabric_workspace"), params=None)
    if postgresql:
        schema_editor.execute("DROP FUNCTION IF EXISTS fabric_workspace_fixed()", params=None)
        schema_editor.execute("DROP TRIGGER IF EXISTS fabric_event_emptied ON fabric_event", params=None)
    install(apps, schema_editor)


# -- cuts --------------------------------------------------------------------------------------------------------------

_CUT = "EXISTS (SELECT 1 FROM fabric_auditcut WHERE workspace_id = OLD.workspace_id AND OLD.seq BETWEEN first AND last)"
"""Whether a signed marker says that an audit line is gone."""
_SEALED = f"{ALLOWED['audit']} AND NEW.address IS NOT DISTINCT FROM OLD.address"


def _cuts_postgresql():
    name, refusal = "fabric_audit", _refusal("audit")
    yield from _postgresql("auditcut")
    yield f"DROP TRIGGER IF EXISTS {name}_changed ON {name}"
    yield f"""
        CREATE TRIGGER {name}_changed BEFORE UPDATE ON {name}
        FOR EACH ROW WHEN (NOT ({_SEALED})) EXECUTE FUNCTION {name}_append_only()
    """
    yield f"""
        CREATE OR REPLACE FUNCTION {name}_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF TG_OP = 'DELETE' AND {_CUT} THEN RETURN OLD; END IF;
            RAISE EXCEPTION '{refusal}: % is refused', TG_OP USING ERRCODE = 'restrict_violation';
        END $$
    """
    for trigger in ("kept", "emptied"):
        yield f"DROP TRIGGER IF EXISTS {name}_{trigger} ON {name}"
    yield f"CREATE TRIGGER {name}_kept BEFORE DELETE ON {name} FOR EACH ROW EXECUTE FUNCTION {name}_append_only()"
    yield f"CREATE TRIGGER {name}_emptied BEFORE TRUNCATE ON {name} FOR EACH STATEMENT EXECUTE FUNCTION {name}_append_only()"


def _cuts_sqlite():
    name, refusal = "fabric_audit", _refusal("audit")
    yield from _sqlite("auditcut")
    when = _SEALED.replace("IS NOT DISTINCT FROM", "IS")
    yield f"DROP TRIGGER IF EXISTS {name}_changed"
    yield f"CREATE TRIGGER {name}_changed BEFORE UPDATE ON {name} WHEN NOT ({when}) BEGIN SELECT RAISE(ABORT, '{refusal}: UPDATE is refused'); END"
    yield f"DROP TRIGGER IF EXISTS {name}_kept"
    yield f"""
        CREATE TRIGGER {name}_kept BEFORE DELETE ON {name} WHEN NOT {_CUT}
        BEGIN SELECT RAISE(ABORT, '{refusal}: DELETE is refused'); END
    """


def install_cuts(apps, schema_editor):
    """Has audit lines deleted that a signed marker names, and no others; a marker stays as it was written."""
    statements = {"postgresql": _cuts_postgresql, "sqlite": _cuts_sqlite}[schema_editor.connection.vendor]
    for statement in statements():
        schema_editor.execute(statement, params=None)


def remove_cuts(apps, schema_editor):
    """The triggers as they were before, for a migration back."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("DROP TRIGGER IF EXISTS fabric_audit_emptied ON fabric_audit", params=None)
    install(apps, schema_editor)
    install_drills(apps, schema_editor)
