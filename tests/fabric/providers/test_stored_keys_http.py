"""A stored key through a whole installation: a run goes out with it, a changed one holds without a restart, and it is in nothing that was written."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as configured
from django.db import connection

from fabric.composition import engine as wiring
from fabric.providers.exchange import keys
from fabric.services.models.keys import key_delete, key_set
from fabric.services.runs.export import run_export
from simulator.endpoint import Received, ScriptedEndpoint, Step, answer, refusal
from simulator.endpoint.behaviour.misbehaviour import agents
from tests.fabric.composition.installation import installation

pytestmark = pytest.mark.django_db(transaction=True)
OF_THE_ENVIRONMENT = "sk-of-the-environment-000"
FIRST, SECOND = "sk-stored-first-111111", "sk-stored-second-222222"
SHORT = {"interactive: {call_s: 60, stage_s: 180, run_s: 600}": "interactive: {call_s: 20, stage_s: 40, run_s: 60}"}


def everything() -> Iterator[tuple[str, bytes]]:
    """Every value of every table, and every file of the data directory but the database itself."""
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT * FROM "{table}"')
            for row in cursor.fetchall():
                for value in row:
                    yield table, bytes(value) if isinstance(value, bytes | memoryview) else str(value).encode()
    database = Path(connection.settings_dict["NAME"]).name
    for path in Path(configured.FABRIC_DATA).rglob("*"):
        # A program that opens a database of SQLite's beside its connections takes their locks away by closing it (sqlite.org/howtocorrupt.html 2.2), and the next
        # process that closes it takes its log away under them.
        if path.is_file() and not path.name.startswith(database):
            yield str(path), path.read_bytes()


def test_a_run_goes_out_with_it_and_it_is_in_nothing_that_is_written(
    settings: Any, caplog: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(keys, "FRESH_S", 0.0)  # Each call looks: there is no second to wait for.
    caplog.set_level(logging.DEBUG)
    cooperative, bad = agents(), False

    def reply(received: Received) -> Step:
        # It gives the key back wherever it can: in its words, and in its refusals.
        if bad:
            return refusal(401, f"Incorrect API key provided: {received.key}", code="invalid_api_key")
        step = cooperative(received)
        return answer(f"Your key is {received.key}") if received.agent == "critic" else step

    with ScriptedEndpoint(reply) as endpoint:
        settings.FABRIC_MODEL, settings.FABRIC_MODEL_URL = "scripted", endpoint.url
        settings.FABRIC_MODEL_KEY = OF_THE_ENVIRONMENT
        with installation() as site:
            where: dict[str, Any] = {"actor": site.actor, "provider": "openai", "host": endpoint.url}
            name = site.publish("document-review", **SHORT)

            def ran() -> tuple[Any, set[str]]:
                before = len(endpoint.received)
                run_id = site.start(name, "Which is older, the bridge or the ferry?", tier="interactive")
                row = site.rest(run_id)
                return row, {one.key for one in endpoint.received[before:]}

            key_set(**where, key=FIRST)
            assert ran()[1] == {FIRST}
            key_set(**where, key=SECOND)
            row, sent = ran()
            assert sent == {SECOND}
            bad = True
            failed, sent = ran()
            assert (failed.state, sent) == ("failed", {SECOND})
            assert "the key stored for it was sent: store another under Models and prices" in failed.reason
            bad = False
            key_delete(**where)
            assert ran()[1] == {OF_THE_ENVIRONMENT}
            for one in (row, failed):
                run_export(actor=site.actor, run_id=one.id, to=tmp_path / one.id, signer=wiring.signer())
        exported = [(str(path), path.read_bytes()) for path in tmp_path.rglob("*") if path.is_file()]
        assert exported
        for where_found, raw in [*everything(), *exported, ("the log", caplog.text.encode())]:
            for key in (FIRST, SECOND, OF_THE_ENVIRONMENT):
                assert key.encode() not in raw, where_found
