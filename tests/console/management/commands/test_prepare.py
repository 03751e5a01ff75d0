"""`manage.py prepare`, as `up` runs it: in a process of its own, over a data directory of its own."""

import json
import os
import sqlite3
import subprocess
import sys
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from console.launch.processes.data_directory import ROOT
from simulator.installation.database import clean_environment
from tests.console.launch.started_processes import PATIENCE_S
from tests.servers.ports import free_port


def prepare(data, **named):
    return manage(data, "prepare", "--json", **named)


def manage(data, *command, **named):
    return subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), *command],
        env=clean_environment() | {"FABRIC_DATA": str(data)} | named,
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * PATIENCE_S,
    )


def refusal(data, **named):
    done = prepare(data, **named)
    assert done.returncode != 0
    (sentence,) = done.stderr.splitlines()
    assert "sesame" not in sentence
    return sentence


def test_it_says_where_everything_is_and_may_be_repeated(tmp_path):
    first, again = (json.loads(prepare(tmp_path).stdout) for _ in range(2))
    assert first["login"].startswith("http://127.0.0.1:8420/login/")
    assert first["login"] != again["login"]
    assert first["database"] == f"SQLite, {tmp_path}/fabric.sqlite3"
    assert first["broker"] == "files in the data directory"


def test_a_database_of_a_newer_version_is_refused(tmp_path):
    prepare(tmp_path)
    with sqlite3.connect(tmp_path / "fabric.sqlite3") as database:
        database.execute(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('fabric', '9999_future', '2030-01-01')"
        )
        database.execute(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('gone', '0001_initial', '2020-01-01')"
        )
    assert "was written by a newer Fabric Flow, which has fabric.9999_future" in refusal(tmp_path)


def test_a_database_of_a_development_version_is_refused_by_each_command(tmp_path):
    prepare(tmp_path)
    with sqlite3.connect(tmp_path / "fabric.sqlite3") as database:
        row = "INSERT INTO django_migrations (app, name, applied) VALUES ('fabric', ?, '2026-11-20')"
        database.executemany(row, [("0002_login_links",), ("0041_audit_trail",)])
    said = "was written by a development version before 1.0.0, whose data no release reads: start with a new data directory"
    assert said in refusal(tmp_path)
    for command in (("django", "migrate"), ("django", "check", "--database", "default")):
        ended = manage(tmp_path, *command)
        assert ended.returncode == 1
        assert said in ended.stderr
        assert "Traceback" not in ended.stderr
    assert said in manage(tmp_path, "doctor").stdout


def test_a_file_that_is_no_database_is_a_sentence(tmp_path):
    (tmp_path / "fabric.sqlite3").write_text("This is not a database at all, and never was one.")
    assert "file is not a database" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("postgresql://u:sesame@127.0.0.1:1/none", "PostgreSQL at 127.0.0.1:1, database none cannot be used: "),
        ("postgresql://u:sesame@127.0.0.1:1", "DATABASE_URL names no database"),
        ("postgresql://u:sesame@127.0.0.1:port/none", "DATABASE_URL is not an address"),
        ("mysql://u:sesame@127.0.0.1/none", "DATABASE_URL starts with 'mysql'"),
    ],
)
def test_an_address_that_cannot_be_used_is_a_sentence(address, said, tmp_path):
    assert said in refusal(tmp_path, DATABASE_URL=address)


def test_a_broker_that_is_away_is_said_and_a_scheme_that_is_none_is_refused(tmp_path):
    address = f"127.0.0.1:{free_port()}"
    report = json.loads(prepare(tmp_path, CELERY_BROKER_URL=f"redis://:sesame@{address}/0").stdout)
    assert f"{address}/0, which does not answer (" in report["broker"]
    assert "sesame" not in report["broker"]
    assert "CELERY_BROKER_URL starts with 'carrier-pigeon'" in refusal(tmp_path, CELERY_BROKER_URL="carrier-pigeon://x")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("no.such.Provider", "which cannot be imported (No module named 'no'): correct FABRIC_PROVIDERS."),
        (
            "functools.partial",
            "which cannot be made (TypeError: type 'partial' takes at least one argument): correct it, ",
        ),
        ("tests.chaos.mishaps.providers.HangingProvider", "which cannot be imported (No module named 'tests."),
        ("collections.Counter", "which has no coroutine `ask`: correct FABRIC_PROVIDERS."),
    ],
)
def test_a_provider_that_cannot_be_had_is_a_sentence(path, said, tmp_path):
    sentence = refusal(tmp_path, FABRIC_PROVIDERS=f"mine={path}")
    assert sentence.startswith(f"Provider 'mine' is '{path}', ")
    assert said in sentence


@pytest.mark.parametrize("path", ["no.such.function", "tests.fabric.tools.functions.sample_tools.add", "os.system"])
def test_a_tool_that_cannot_be_had_is_a_sentence_and_so_is_one_of_the_tests(path, tmp_path):
    sentence = refusal(tmp_path, FABRIC_TOOLS=f"mine={path}")
    assert sentence.startswith(f"FABRIC_TOOLS has mine={path}, which is no tool (")
    assert sentence.endswith("): correct it.")


@pytest.mark.postgresql
def test_postgresql_says_why_it_lets_no_one_in(tmp_path):
    named = psycopg.conninfo.conninfo_to_dict(os.environ["TEST_DATABASE_URL"])
    host, port = named.get("host", "127.0.0.1"), named.get("port", "5432")
    said = refusal(tmp_path, DATABASE_URL=f"postgresql://nobody-here:sesame@{host}:{port}/nothing-here")
    assert said.startswith(f"PostgreSQL at {host}:{port}, database nothing-here cannot be used: FATAL: ")
    assert said.endswith("; start the server, or mend DATABASE_URL.")


@pytest.fixture
def weak_user():
    """The address of a new database of PostgreSQL, for a user who may look at it and no more."""
    server, name = os.environ["TEST_DATABASE_URL"], f"fabric_weak_{os.getpid()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
        connection.execute(f"CREATE ROLE \"{name}\" LOGIN PASSWORD 'sesame'")
        try:
            weak = urlsplit(server)
            yield urlunsplit(weak._replace(netloc=f"{name}:sesame@{weak.netloc.rpartition('@')[2]}", path=f"/{name}"))
        finally:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
            connection.execute(f'DROP ROLE IF EXISTS "{name}"')


@pytest.mark.postgresql
def test_a_user_who_may_make_no_tables_is_a_sentence(tmp_path, weak_user):
    assert "lets this user make no tables: grant CREATE on its schema" in refusal(tmp_path, DATABASE_URL=weak_user)
