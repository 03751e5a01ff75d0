"""Journals, audit lines and checkpoints are refused every change but the few that are meant, on both databases."""

import sqlite3

import psycopg
import pytest

from tests.fabric.conftest import POSTGRESQL, postgresql_dsn, sqlite_tables, sqlite_template
from tests.fabric.stores.journal_worlds import PostgresqlWorld, SqliteWorld
from tests.servers.unguarded import unguarded

__all__ = ["postgresql_dsn", "sqlite_tables", "sqlite_template"]

EVENT = "INSERT INTO fabric_event (at, seq, version, kind, header, payload, payload_hash, hash, run_id, workspace_id) VALUES (1, {seq}, 1, 'k', 'h', 'p', 'x', 'y', 'r', 'w')"
AUDIT = "INSERT INTO fabric_audit (id, workspace_id, at, actor, via, kind, subject, body) VALUES ('{id}', 'w', 1, 'ana', '', 'k', 's', '')"
CHECKPOINT = (
    "INSERT INTO fabric_checkpoint (id, workspace_id, number, at, body, signature) VALUES ('c', 'w', 1, 1, '', '')"
)

REFUSED = [
    *(
        f"UPDATE fabric_event SET {change}"
        for change in (
            *(
                "at = 2",
                "seq = 9",
                "version = 2",
                "more = 3",
                "kind = 'l'",
                "header = 'i'",
                "payload = 'q'",
                "payload_hash = 'z'",
            ),
            *("hash = 'z'", "run_id = 's'", "workspace_id = 'v'", "payload = NULL, header = 'i'"),
        )
    ),
    "DELETE FROM fabric_event",
    "DELETE FROM fabric_event WHERE seq = 2",
    *(
        f"UPDATE fabric_audit SET {change} WHERE id = 'a'"
        for change in (
            *(
                "actor = 'bob'",
                "at = 2",
                "via = 't'",
                "kind = 'l'",
                "subject = 't'",
                "body = 'b'",
                "workspace_id = 'v'",
            ),
            *("id = 'z'", "seq = 1", "hash = 'h'", "seq = 1, hash = 'h', actor = 'bob'"),
        )
    ),
    "UPDATE fabric_audit SET seq = 2, hash = 'h' WHERE id = 'sealed'",
    "UPDATE fabric_audit SET address = '192.0.2.1' WHERE id = 'sealed'",
    "UPDATE fabric_audit SET seq = 7, hash = 'h', address = '192.0.2.1' WHERE id = 'a'",
    "UPDATE fabric_audit SET seq = NULL, hash = NULL WHERE id = 'sealed'",
    "DELETE FROM fabric_audit",
    "UPDATE fabric_checkpoint SET at = 2",
    "UPDATE fabric_checkpoint SET body = 'b'",
    "DELETE FROM fabric_checkpoint",
]
ALLOWED = [
    "UPDATE fabric_event SET payload = NULL",
    "UPDATE fabric_audit SET seq = 7, hash = 'h' WHERE id = 'a'",
    EVENT.format(seq=3),
]
WORKSPACE = "INSERT INTO fabric_workspace (id, name, created_at, drills_of_id) VALUES ('{id}', '{id}', '2026-01-01 00:00:00+00:00', {of})"
TABLES = ("event", "audit", "checkpoint")


class Sqlite:
    refusal = sqlite3.IntegrityError

    def __init__(self, world):
        self.connection = sqlite3.connect(world.path, isolation_level=None)

    def run(self, statement):
        return self.connection.execute(statement)


class Postgresql:
    refusal = psycopg.errors.RestrictViolation

    def __init__(self, world):
        # Not the world's own, to which the triggers do not apply.
        self.connection = psycopg.connect(world.dsn, autocommit=True)

    def run(self, statement):
        return self.connection.execute(statement)


@pytest.fixture(params=["sqlite", POSTGRESQL])
def database(request, tmp_path):
    if request.param == "sqlite":
        world = SqliteWorld(request.getfixturevalue("sqlite_template"), tmp_path)
        made = Sqlite(world)
    else:
        world = PostgresqlWorld(request.getfixturevalue("postgresql_dsn"))
        made = Postgresql(world)
    for statement in (EVENT.format(seq=1), EVENT.format(seq=2), AUDIT.format(id="a"), AUDIT.format(id="sealed")):
        made.run(statement)
    made.run("UPDATE fabric_audit SET seq = 1, hash = 'h' WHERE id = 'sealed'")
    made.run(CHECKPOINT)
    yield made
    made.connection.close()
    world.close()


def rows(database):
    return [database.run(f"SELECT * FROM fabric_{table} ORDER BY 1, 2").fetchall() for table in TABLES]


def test_every_other_change_is_refused_and_changes_nothing(database):
    before = rows(database)
    for statement in REFUSED:
        with pytest.raises(database.refusal, match=r"^fabric_(event|audit|checkpoint) is append-only"):
            database.run(statement)
        assert rows(database) == before, statement


def test_what_is_meant_is_allowed(database):
    for statement in ALLOWED:
        database.run(statement)
    assert {row[0] for row in database.run("SELECT seq FROM fabric_event WHERE payload IS NULL").fetchall()} == {1, 2}


def test_an_audit_line_goes_where_a_marker_says_so_and_the_marker_stays(database):
    database.run(
        "INSERT INTO fabric_auditcut (id, workspace_id, first, last, at, body, signature) VALUES ('c', 'w', 1, 3, 1, '', '')"
    )
    with pytest.raises(database.refusal, match="fabric_audit is append-only"):
        database.run("DELETE FROM fabric_audit WHERE id = 'a'")
    database.run("DELETE FROM fabric_audit WHERE id = 'sealed'")
    for change in ("DELETE FROM fabric_auditcut", "UPDATE fabric_auditcut SET last = 9"):
        with pytest.raises(database.refusal, match="fabric_auditcut is append-only"):
            database.run(change)


def test_events_of_drills_may_go_and_whose_drills_a_workspace_has_is_never_changed(database):
    database.run(WORKSPACE.format(id="real", of="NULL"))
    database.run(WORKSPACE.format(id="its-drills", of="'real'"))
    database.run(EVENT.format(seq=3).replace("'w')", "'its-drills')"))
    database.run(EVENT.format(seq=4).replace("'w')", "'real')"))
    with pytest.raises(database.refusal, match="fabric_event is append-only"):
        database.run("DELETE FROM fabric_event")
    with pytest.raises(database.refusal, match="fabric_event is append-only"):
        database.run("DELETE FROM fabric_event WHERE workspace_id = 'real'")
    for change in ("drills_of_id = id", "drills_of_id = NULL", "id = 'w'"):
        with pytest.raises(database.refusal, match="is said when it is made"):
            database.run(f"UPDATE fabric_workspace SET {change} WHERE id LIKE '%'")
    database.run("UPDATE fabric_workspace SET retention_days = 3")
    database.run("DELETE FROM fabric_event WHERE workspace_id = 'its-drills'")
    assert sorted(row[0] for row in database.run("SELECT seq FROM fabric_event").fetchall()) == [1, 2, 4]


@pytest.mark.postgresql
@pytest.mark.parametrize("table", TABLES)
def test_a_table_cannot_be_emptied_at_once(postgresql_dsn, table):
    refused = pytest.raises(psycopg.errors.RestrictViolation, match="TRUNCATE is refused")
    with psycopg.connect(postgresql_dsn, autocommit=True) as connection, refused:
        connection.execute(f"TRUNCATE fabric_{table}")


def test_a_test_that_goes_past_them_leaves_them_as_they_were(sqlite_template, tmp_path):
    database = Sqlite(SqliteWorld(sqlite_template, tmp_path))
    named = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' ORDER BY name"
    before = database.run(named).fetchall()
    assert len(before) == 9
    with unguarded(database.connection):
        database.run(EVENT.format(seq=1))
        database.run("DELETE FROM fabric_event")
    assert database.run(named).fetchall() == before
