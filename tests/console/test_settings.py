"""The settings as a process meets them: each case in a process of its own."""

import json
import os
import subprocess
import sys

import pytest
from django.conf import settings
from django.db import connection

from console.launch.processes.data_directory import ROOT
from simulator.installation.database import MANAGE, clean_environment

SHOW = """
import json, os, sys
from django.conf import settings
names = sys.argv[1:]
print(json.dumps({name: getattr(settings, name) for name in names}, default=str))
"""


def run(tmp_path, *names, **variables):
    environ = {
        "PATH": os.environ["PATH"],
        "FABRIC_DATA": str(tmp_path),
        "DJANGO_SETTINGS_MODULE": "console.settings",
        **variables,
    }
    command = [sys.executable, "-c", SHOW, *names]
    return subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)


def show(tmp_path, *names, **variables):
    done = run(tmp_path, *names, **variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_nothing_is_needed(tmp_path):
    shown = show(tmp_path, "SECRET_KEY", "FABRIC_PUBLIC_URL", "FABRIC_ORIGINS", "DEBUG", "FABRIC_ALLOWED_HOSTS")
    assert shown["SECRET_KEY"] == (tmp_path / "secret.key").read_text()
    assert shown["FABRIC_PUBLIC_URL"] == "http://127.0.0.1:8420"
    assert "http://localhost:8420" in shown["FABRIC_ORIGINS"]
    assert shown["DEBUG"] is False
    assert shown["FABRIC_ALLOWED_HOSTS"] == []
    assert run(tmp_path, "SECRET_KEY").stdout == run(tmp_path, "SECRET_KEY").stdout


def test_a_public_https_address_makes_cookies_secure(tmp_path):
    cookies = [
        f"{kind}_COOKIE_{what}" for kind in ("SESSION", "CSRF") for what in ("SECURE", "HTTPONLY", "SAMESITE", "NAME")
    ]
    names = ("SECURE_HSTS_SECONDS", "SECURE_HSTS_INCLUDE_SUBDOMAINS", "ALLOWED_HOSTS", "FABRIC_ORIGINS")
    shown = show(tmp_path, *cookies, *names, FABRIC_PUBLIC_URL="https://fabric.example.org/")
    assert [shown[name] for name in cookies] == [
        *(True, True, "Lax", "__Host-fabric-session"),
        *(True, True, "Lax", "__Host-fabric-csrf"),
    ]
    assert (shown["SECURE_HSTS_SECONDS"], shown["SECURE_HSTS_INCLUDE_SUBDOMAINS"]) == (365 * 24 * 3600, True)
    assert "fabric.example.org" in shown["ALLOWED_HOSTS"]
    assert "https://fabric.example.org" in shown["FABRIC_ORIGINS"]


def test_who_comes_past_the_proxy_is_turned_away_in_one_place(tmp_path):
    """Django's own redirect would stand before it, and take a token that came in the clear along."""
    shown = show(tmp_path, "SECURE_SSL_REDIRECT", "MIDDLEWARE", FABRIC_PUBLIC_URL="https://fabric.example.org")
    assert not shown.get("SECURE_SSL_REDIRECT")
    assert "console.site.requests.plain_http.PlainHttpMiddleware" in shown["MIDDLEWARE"]


def test_what_django_asks_of_a_deployment_is_so_with_https(tmp_path):
    environ = clean_environment() | {"FABRIC_DATA": str(tmp_path), "FABRIC_PUBLIC_URL": "https://fabric.example.org"}
    command = [*MANAGE, "django", "check", "--deploy", "--fail-level", "INFO"]
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "no issues" in done.stdout


def test_lists_are_split_at_commas(tmp_path):
    shown = show(tmp_path, "FABRIC_ALLOWED_HOSTS", FABRIC_ALLOWED_HOSTS="127.0.0.1:8000, models.internal:443,")
    assert shown["FABRIC_ALLOWED_HOSTS"] == ["127.0.0.1:8000", "models.internal:443"]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("FABRIC_PORT", "many"),
        ("FABRIC_PUBLIC_URL", "banana"),
        ("FABRIC_LOG_LEVEL", "LOUD"),
        ("DATABASE_URL", "oracle://x"),
    ],
)
def test_a_bad_variable_is_one_sentence(tmp_path, variable, value):
    done = run(tmp_path, "DEBUG", **{variable: value})
    assert done.returncode == 1
    assert done.stderr.startswith(variable)
    assert len(done.stderr.splitlines()) == 1


def test_no_request_is_a_transaction():
    assert not settings.DATABASES["default"].get("ATOMIC_REQUESTS")
    assert "signed_cookies" in settings.SESSION_ENGINE


@pytest.mark.django_db
def test_sqlite_keeps_what_it_has_committed():
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA journal_mode")
        assert cursor.fetchone() == ("wal",)
        cursor.execute("PRAGMA synchronous")
        assert cursor.fetchone() == (2,)  # FULL
