"""Triggers that keep journals, audit lines, checkpoints and cuts as they were written, and workspaces with their drills.

SQLite forgets the triggers of a table that a later migration alters (Django makes it anew): such a migration runs ``install`` again as its last step.
"""

_EVENT = ("at", "seq", "version", "more", "run_id", "workspace_id", "kind", "header", "payload_hash", "hash")
_AUDIT = ("id", "workspace_id", "at", "actor", "via", "kind", "subject", "body", "address")


def _same(columns):
    return " AND ".join(f"NEW.{name} IS NOT DISTINCT FROM OLD.{name}" for name in columns)


UPDATES = {
    # A payload may go; its hash stays.
    "event": f"NEW.payload IS NULL AND {_same(_EVENT)}",
    # The sealer gives a line its place, once.
    "audit": f"OLD.seq IS NULL AND OLD.hash IS NULL AND NEW.seq IS NOT NULL AND NEW.hash IS NOT NULL AND {_same(_AUDIT)}",
    "checkpoint": "",
    "auditcut": "",
}
"""The one update that each table allows; empty: none."""
DELETES = {
    # Those of a drill's run are erased whole when they are old.
    "event": "EXISTS (SELECT 1 FROM fabric_workspace WHERE id = OLD.workspace_id AND drills_of_id IS NOT NULL)",
    # A signed marker says which lines are gone.
    "audit": "EXISTS (SELECT 1 FROM fabric_auditcut WHERE workspace_id = OLD.workspace_id AND OLD.seq BETWEEN first AND last)",
    "checkpoint": "",
    "auditcut": "",
}
"""The rows that may be deleted of each table; empty: none."""
_FIXED = "whose drills run in a workspace is said when it is made: UPDATE is refused"


def _refusal(table):
    return f"fabric_{table} is append-only"


def _postgresql(table):
    name, refusal = f"fabric_{table}", _refusal(table)
    allowed = f"IF TG_OP = 'DELETE' AND {DELETES[table]} THEN RETURN OLD; END IF;" if DELETES[table] else ""
    yield f"""
        CREATE OR REPLACE FUNCTION {name}_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            {allowed}
            RAISE EXCEPTION '{refusal}: % is refused', TG_OP USING ERRCODE = 'restrict_violation';
        END $$
    """
    for trigger in ("kept", "emptied", "changed"):
        yield f"DROP TRIGGER IF EXISTS {name}_{trigger} ON {name}"
    if DELETES[table]:
        yield f"CREATE TRIGGER {name}_kept BEFORE DELETE ON {name} FOR EACH ROW EXECUTE FUNCTION {name}_append_only()"
        yield f"CREATE TRIGGER {name}_emptied BEFORE TRUNCATE ON {name} FOR EACH STATEMENT EXECUTE FUNCTION {name}_append_only()"
    else:
        yield f"CREATE TRIGGER {name}_kept BEFORE DELETE OR TRUNCATE ON {name} FOR EACH STATEMENT EXECUTE FUNCTION {name}_append_only()"
    when = f"WHEN (NOT ({UPDATES[table]}))" if UPDATES[table] else ""
    yield f"CREATE TRIGGER {name}_changed BEFORE UPDATE ON {name} FOR EACH ROW {when} EXECUTE FUNCTION {name}_append_only()"


def _sqlite(table):
    name, refusal = f"fabric_{table}", _refusal(table)
    # `IS` compares nulls as well; SQLite learnt the standard's words for it only in 3.39.
    update = UPDATES[table].replace("IS NOT DISTINCT FROM", "IS")
    for trigger, change, allowed in (("kept", "DELETE", DELETES[table]), ("changed", "UPDATE", update)):
        when = f"WHEN NOT ({allowed})" if allowed else ""
        yield f"DROP TRIGGER IF EXISTS {name}_{trigger}"
        yield f"""
            CREATE TRIGGER {name}_{trigger} BEFORE {change} ON {name} {when}
            BEGIN SELECT RAISE(ABORT, '{refusal}: {change} is refused'); END
        """


def _fixed_postgresql():
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


def _fixed_sqlite():
    yield "DROP TRIGGER IF EXISTS fabric_workspace_fixed"
    yield f"""
        CREATE TRIGGER fabric_workspace_fixed BEFORE UPDATE ON fabric_workspace
        WHEN NEW.drills_of_id IS NOT OLD.drills_of_id OR NEW.id IS NOT OLD.id
        BEGIN SELECT RAISE(ABORT, '{_FIXED}'); END
    """


_STATEMENTS = {"postgresql": (_postgresql, _fixed_postgresql), "sqlite": (_sqlite, _fixed_sqlite)}


def install(apps, schema_editor):
    """Makes the triggers, those that are there anew."""
    of_table, fixed = _STATEMENTS[schema_editor.connection.vendor]
    for statement in (*(one for table in UPDATES for one in of_table(table)), *fixed()):
        schema_editor.execute(statement, params=None)
