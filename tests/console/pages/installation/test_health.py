import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client

from console.pages.installation import health


@pytest.mark.django_db
def test_it_answers_ok(client):
    answer = client.get("/healthz")
    assert answer.status_code == 200
    assert answer.json() == {"status": "ok", "database": "ok"}
    assert "no-store" in answer.headers["Cache-Control"]


@pytest.mark.django_db(transaction=True)
def test_a_database_that_does_not_answer_is_503(client, tmp_path):
    connection.close()
    name = connection.settings_dict["NAME"]
    connection.settings_dict["NAME"] = str(tmp_path / "no such folder" / "db")
    try:
        answer, ready = client.get("/healthz"), client.get("/readyz")
    finally:
        connection.settings_dict["NAME"] = name
        connection.close()
    assert answer.status_code == 503
    assert answer.json() == {"status": "unavailable", "database": "unreachable"}
    assert ready.status_code == 503


@pytest.mark.django_db
def test_it_is_ready_once_its_tables_are_those_of_this_version(client, monkeypatch):
    monkeypatch.setattr(health, "_seen", {"migrated": False})
    recorder = MigrationRecorder(connection)
    recorder.record_unapplied("fabric", "0001_initial")
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()) == (
        503,
        {"status": "unavailable", "database": "ok", "migrations": "waiting"},
    )
    recorder.record_applied("fabric", "0001_initial")
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok", "database": "ok", "migrations": "ok"})


def test_it_lives_without_a_database(client):
    """pytest-django refuses every statement of a test that asks for no database."""
    assert client.get("/livez").json() == {"status": "ok"}


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_it_is_only_read(path):
    assert Client().post(path).status_code == 405
