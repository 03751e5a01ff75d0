import pytest
from django.db import connection
from django.test import Client


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
        answer = client.get("/healthz")
    finally:
        connection.settings_dict["NAME"] = name
        connection.close()
    assert answer.status_code == 503
    assert answer.json() == {"status": "unavailable", "database": "unreachable"}


def test_it_is_only_read():
    assert Client().post("/healthz").status_code == 405
