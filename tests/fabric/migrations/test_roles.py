"""The roles that docs/reference/settings.md gives for PostgreSQL: with the program's own, the program works, and history cannot be changed."""

import os
import re
import secrets

import psycopg
import pytest

from fabric.core.audit.lines import Act, AuditEntry
from fabric.runtime.ports.journal import BatchFate
from fabric.stores.postgresql.journal import PostgresqlStore
from tests.fabric.conftest import postgresql_dsn, url
from tests.fabric.stores.journal_worlds import ROOT, Journal, PostgresqlWorld, new_run

__all__ = ["postgresql_dsn"]

pytestmark = pytest.mark.postgresql
REFUSED = [
    "UPDATE fabric_event SET header = ''",
    "UPDATE fabric_event SET hash = ''",
    "TRUNCATE fabric_event",
    "DROP TRIGGER fabric_event_changed ON fabric_event",
    "ALTER TABLE fabric_event DISABLE TRIGGER ALL",
    "SET session_replication_role = replica",
    "DROP FUNCTION fabric_event_append_only() CASCADE",
    "UPDATE fabric_audit SET actor = 'x'",
    "DELETE FROM fabric_audit",
    "UPDATE fabric_checkpoint SET body = ''",
    "DELETE FROM fabric_checkpoint",
]


@pytest.fixture
def app(postgresql_dsn):
    """The address of the program's role, made as the document says, under names of this test's own."""
    said = re.findall(
        r"```sql\n(.*?)```", (ROOT / "docs" / "how-to" / "separate-database-roles.md").read_text(), re.DOTALL
    )
    assert len(said) == 2
    mark = f"_{os.getpid()}_{secrets.token_hex(3)}"
    create, grant = (
        text.replace("fabric_owner", f"fabric_owner{mark}").replace("fabric_app", f"fabric_app{mark}") for text in said
    )
    world = PostgresqlWorld(postgresql_dsn)
    database = psycopg.conninfo.conninfo_to_dict(postgresql_dsn)["dbname"]
    server = psycopg.conninfo.conninfo_to_dict(os.environ["TEST_DATABASE_URL"])
    try:
        world.ask(create)
        world.ask(grant)
        yield url(
            f"postgresql://fabric_app{mark}:change-me-2@{server.get('host', '127.0.0.1')}:{server.get('port', 5432)}/x",
            database,
        )
    finally:
        for role in ("app", "owner"):
            world.ask(f"DROP OWNED BY fabric_{role}{mark}")
            world.ask(f"DROP ROLE fabric_{role}{mark}")
        world.close()


def test_the_program_s_role_can_do_what_the_program_does_and_no_more(app):
    store = PostgresqlStore(app)
    try:
        store.register("worker", lease_s=60)
        run_id, _ = store.create(new_run())
        (claimed,) = store.claim("worker", limit=1, queues=["default"])
        journal = Journal(run_id, fence=claimed.fence)
        assert store.write([journal.batch(3, consumed=("start",))]) == [BatchFate.COMMITTED]
        act = AuditEntry(entry_id="a", actor="ana", act=Act.CANCEL_SENT, subject=run_id)
        assert store.put_input(run_id, "cancel", b"{}", audit=act)
    finally:
        store.close()
    with psycopg.connect(app, autocommit=True) as connection:
        connection.execute("UPDATE fabric_audit SET seq = 1, hash = 'h' WHERE id = 'a'")
        connection.execute("UPDATE fabric_event SET payload = NULL WHERE seq = 1")
        connection.execute(
            "INSERT INTO fabric_checkpoint (id, workspace_id, number, at, body, signature) VALUES ('c', 'w', 1, 1, '', '')"
        )
        for statement in REFUSED:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.encode())
        for statement in ("DELETE FROM fabric_event", "UPDATE fabric_workspace SET drills_of_id = id"):
            with pytest.raises(psycopg.errors.RestrictViolation):
                connection.execute(statement.encode())
