"""The endpoint, tool and webhook of a whole installation repeat every secret: no place that a person could read has one."""

from __future__ import annotations

import base64
import io
import json
import signal
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from console.launch.processes.data_directory import ROOT
from simulator.endpoint import ScriptedEndpoint, Step
from simulator.endpoint.wire.server import Received
from simulator.endpoint.wire.steps import answer, call
from simulator.installation.database import clean_environment, copy_sqlite, temporary_database
from tests.console.launch.started_processes import PATIENCE_S, Lines, started
from tests.e2e.installation import Installation, _link
from tests.e2e.texts import canaries
from tests.servers.ports import free_port

pytestmark = pytest.mark.slow
TOOL, STORED = "canary-tool-0123456789abcdef", "canary-stored-0123456789abcdef"

PREPARING = """
import json, sys
from io import StringIO
from django.core.management import call_command
from fabric.services.models.keys import key_set
from fabric.services.actors import owner_actor
key_set(actor=owner_actor(), provider="openai", host={url!r}, key=open("{folder}/secrets/stored").read())
call_command("fabric", "publish", "{folder}/canaries.yaml")
said = StringIO()
call_command("token", "create", "canary", "--scope", "read", "start", "--json", stdout=said)
print(json.loads(said.getvalue())["token"])
"""
"""Commands of one process: each of its own would take as long."""


def told(one: Received) -> Step:
    """The endpoint sends back what it was sent; as a model it has a tool called first, and tells everything in its answer."""
    back = json.dumps({"you sent": one.headers, "again": base64.b64encode(repr(one.headers).encode()).decode()})
    if one.path.startswith("/hook"):
        return Step(status=500, body=back.encode())
    if not one.path.endswith("/chat/completions"):
        return Step(body=back.encode())
    roles = [message["role"] for message in one.body["messages"]]
    if "tool" not in roles:
        return answer("", calls=[call("look", {})])
    if roles.count("tool") == 1 and "Pay" in json.dumps(one.body["messages"]):
        return answer("", calls=[call("pay", {}, "call-2")])
    return answer(f"It is {back} and {STORED} and {base64.b64encode(STORED.encode()).decode()}.")


@contextmanager
def running(
    tmp_path: Path, endpoint: ScriptedEndpoint, values: dict[str, str], database: str
) -> Iterator[Installation]:
    """`up` with each secret as a file and its log at DEBUG in a file."""
    data, folder, port = tmp_path / "data", tmp_path / "secrets", free_port()
    for made in (data, folder):
        made.mkdir(0o700)
    if database:
        values = values | {"DATABASE_URL": database}
    else:
        copy_sqlite(clean_environment(), data)
    for name, value in values.items():
        (folder / name).write_text(value)
        (folder / name).chmod(0o600)
    environ = clean_environment() | {f"{name}_FILE": str(folder / name) for name in values}
    environ |= {
        "FABRIC_DATA": str(data),
        "FABRIC_PORT": str(port),
        "FABRIC_LOG_LEVEL": "DEBUG",
        "FABRIC_MODEL_URL": endpoint.url,
        "FABRIC_MODEL": "small",
        "FABRIC_ALLOWED_HOSTS": endpoint.authority,
        "FABRIC_TOOL_VARIABLES": f"CANARY_TOOL@{endpoint.authority}",
        "CANARY_TOOL": TOOL,
        "FABRIC_SMTP_HOST": "127.0.0.1",
        "FABRIC_SMTP_PORT": "9",
        "FABRIC_SMTP_USER": "somebody",
        "FABRIC_MAIL_FROM": "flow@example.org",
        "FABRIC_NOTIFY_MAIL": "ops@example.org",
    }
    command = [sys.executable, str(ROOT / "manage.py"), "up", "--no-browser", "--data", str(data), "--port", str(port)]
    with (
        (tmp_path / "log").open("wb") as log,
        started(command, env=environ, stdout=subprocess.PIPE, stderr=log) as process,
    ):
        assert process.stdout is not None
        said = Lines(process.stdout.fileno())
        assert said.next().startswith("Fabric Flow runs at "), (tmp_path / "log").read_text()
        yield Installation(process, f"http://127.0.0.1:{port}", data, environ, [_link(said.until("/login/"))])
        process.send_signal(signal.SIGINT)
        assert process.wait(2 * PATIENCE_S) == 0


def over(client: httpx2.Client, run_id: str, *states: str) -> dict[str, object]:
    """The run once it is in one of the states."""
    pause = threading.Event()
    for _ in range(int(PATIENCE_S * 4)):
        run = client.get(f"/api/v1/runs/{run_id}").json()
        if run["state"] in states:
            return run
        pause.wait(0.25)
    raise AssertionError(run)


def hooked(endpoint: ScriptedEndpoint) -> None:
    """Wait until the webhook was told of the review."""
    pause = threading.Event()
    for _ in range(int(PATIENCE_S * 4)):
        if any(one.path.startswith("/hook") for one in endpoint.received):
            return
        pause.wait(0.25)
    raise AssertionError("the webhook got no request")


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def test_no_secret_stands_where_it_could_be_read(tmp_path, kind):
    with temporary_database(kind, migrated=kind == "postgresql") as environ:
        _looked_through(tmp_path, environ.get("DATABASE_URL", ""))


def _looked_through(tmp_path: Path, database: str) -> None:
    with ScriptedEndpoint(told) as endpoint:
        values = canaries.made(endpoint.authority)
        with running(tmp_path, endpoint, values, database) as there:
            (tmp_path / "secrets" / "stored").write_text(STORED)
            (tmp_path / "canaries.yaml").write_text(canaries.FABRIC.replace("HOST", endpoint.authority))
            code = PREPARING.format(url=endpoint.url, folder=tmp_path)
            *_, bearer = there.manage("django", "shell", "-c", code).split()
            api = httpx2.Client(
                base_url=there.base, headers={"Authorization": f"Bearer {bearer}"}, timeout=60, trust_env=False
            )
            runs = [
                api.post("/api/v1/runs", json={"fabric": "canaries", "text": text}).json()["id"]
                for text in ("Look.", "Pay.")
            ]
            for run_id in runs:
                over(api, run_id, "completed", "failed", "waiting")
            hooked(endpoint)
            bundle = zipfile.ZipFile(io.BytesIO(api.post(f"/api/v1/runs/{runs[0]}/export").content))
            bundle.extractall(tmp_path / "export")
            looked_for = canaries.needles({**values, "tool": TOOL, "stored": STORED, "bearer": bearer})

            def places():
                yield from canaries.of_api(api, runs[0])
                yield from canaries.of_pages(
                    canaries.signed_in(there.login_link()),
                    "/",
                    f"/runs/{runs[0]}",
                    f"/runs/{runs[1]}",
                    "/models",
                    "/notifications",
                )
                yield from canaries.of_database(database, there.data / "fabric.sqlite3", tmp_path / "copy")
                yield from canaries.of_processes(there.process.pid)
                yield from canaries.of_files(there.data, tmp_path / "export")

            found, looked = canaries.hits(places(), looked_for)
            events = api.get(f"/api/v1/runs/{runs[0]}/events").text
        log = (tmp_path / "log").read_bytes()
        logged, _ = canaries.hits(iter([("log", log)]), looked_for)
    assert found == {}
    assert logged == {}
    assert looked > 100
    # They were told: the endpoint had them, what came back was masked, and the log is one at DEBUG.
    sent = {one.key for one in endpoint.received} | {one.headers.get("x-key", "") for one in endpoint.received}
    assert {STORED, TOOL} <= sent
    assert any(values["FABRIC_NOTIFY_WEBHOOKS"].endswith(one.path) for one in endpoint.received)
    assert "[secret]" in events
    assert b" DEBUG " in log
    assert canaries.hits(canaries.of_files(tmp_path / "secrets"), looked_for)[0]
