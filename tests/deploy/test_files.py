"""Dockerfile, compose.yaml, chart, units and scripts: each says the same as the program and as the others."""

import os
import re
import shutil
import subprocess
import time

import pytest
import yaml

from console.launch.variables import table as variables
from console.site.requests.body_limit import BODY_MAX
from console.site.requests.slow_clients import BODY_BYTES, BODY_S, HEAD_S
from tests.test_tidy import ROOT

DEPLOY = ROOT / "deploy"
FILES = sorted(
    path
    for path in DEPLOY.rglob("*")
    if path.is_file() and "__pycache__" not in path.parts and "secrets" not in path.parts
)
OWN = re.compile(r"\b(?:FABRIC_[A-Z_]+|DATABASE_URL(?:_FILE)?|CELERY_[A-Z_]+|CHANNEL_URL(?:_FILE)?)\b")
FOR_COMPOSE = {"FABRIC_HOST"}
"""Read by compose.yaml and the Caddyfile, and by no program of ours."""
USER = "10001"


def text_of(name):
    return (DEPLOY / name).read_text()


def test_every_variable_that_is_named_is_one():
    named = {(path.name, name) for path in FILES for name in OWN.findall(path.read_text())}
    assert len(named) > 20
    plain = {(file, name.removesuffix("_FILE")) for file, name in named}
    assert {one for one in plain if one[1] not in variables.VARIABLES and one[1] not in FOR_COMPOSE} == set()


def test_secrets_are_named_as_files_that_the_program_reads():
    """Each variable that is named with _FILE is a secret, and no secret is named without."""
    named = {name for path in FILES for name in OWN.findall(path.read_text())}
    secret = {name for name, one in variables.VARIABLES.items() if one.secret}
    assert {name.removesuffix("_FILE") for name in named if name.endswith("_FILE")} <= secret
    assert len([name for name in named if name.endswith("_FILE")]) > 2


def test_web_and_worker_are_started_alike_everywhere():
    """As `up` starts them, but for the address; one that differs is one without a trial."""
    started = re.findall(r"exec python -m (\S+)(.*)", text_of("serve.sh"))
    ours = {module: set(words.split()) for module, words in started}
    launcher = (ROOT / "console" / "launch" / "up.py").read_text()
    for module, unit in (
        ("console.web_server", "fabric-flow-web.service"),
        ("console.worker", "fabric-flow-worker@.service"),
    ):
        (line,) = re.findall(rf"ExecStart=\S+/python -m {module}(.*)", text_of(f"systemd/{unit}"))
        assert set(line.split()) - {"127.0.0.1"} == ours[module] - {"0.0.0.0"}
        assert f'"{module}"' in launcher
        assert {word for word in ours[module] if word.startswith("--") and word not in launcher} <= {"--host", "--port"}


def test_the_image_is_built_from_the_lock_and_runs_as_an_unprivileged_user():
    lines = [line for line in text_of("Dockerfile").splitlines() if line and not line.startswith("#")]
    stages = {line.split()[-1] for line in lines if line.startswith("FROM ")}
    copied = {found for line in lines for found in re.findall(r"--from=(\w+)", line)}
    assert stages == {"build", "run"}
    assert copied <= stages
    assert lines.count(f"USER {USER}:{USER}") == 1
    after = lines[lines.index(f"USER {USER}:{USER}") :]
    assert not any(line.startswith("RUN") for line in after)
    assert any("--require-hashes --no-deps -r requirements.lock" in line for line in lines)
    assert [line for line in lines if line.startswith("ADD")] == []
    for path in re.findall(r"^COPY (?:--\S+ )*(\S+)", "\n".join(lines), re.MULTILINE):
        assert path in (".", "/venv") or (ROOT / path).exists(), path


@pytest.fixture(scope="module")
def composed():
    return yaml.safe_load(text_of("compose.yaml"))


def test_every_service_is_without_rights_and_without_a_writable_root(composed):
    ours = {name: one for name, one in composed["services"].items() if one["image"] == "fabric-flow:local"}
    assert set(ours) == {"migrate", "web", "worker"}
    for name, one in ours.items():
        assert one["user"] == f"{USER}:{USER}", name
        assert one["read_only"] is True
        assert one["cap_drop"] == ["ALL"]
        assert "no-new-privileges:true" in one["security_opt"]
        assert "ports" not in one
    assert [name for name, one in composed["services"].items() if "ports" in one] == ["proxy"]
    assert composed["networks"]["inside"]["internal"] is True


def test_secrets_come_as_files_and_each_is_made(composed):
    wanted = set(composed["secrets"])
    assert {name for one in composed["services"].values() for name in one.get("secrets", [])} == wanted
    assert set(re.findall(r'"\$folder/(\w+)"', text_of("make-secrets.sh"))) == wanted
    values = [str(value) for one in composed["services"].values() for value in one.get("environment", {}).values()]
    assert [value for value in values if "://" in value and not value.startswith("https://${FABRIC_HOST")] == []


def test_secrets_are_made_once_and_for_their_owner_alone(tmp_path):
    if not shutil.which("openssl"):
        pytest.skip("openssl is not here")
    made = [str(DEPLOY / "make-secrets.sh"), str(tmp_path / "secrets")]
    subprocess.run(made, check=True, capture_output=True)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "secrets").iterdir()} == {0o600}
    content = {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()}
    for name, variable in (
        ("database_url", "DATABASE_URL"),
        ("broker_url", "CELERY_BROKER_URL"),
        ("channel_url", "CHANNEL_URL"),
        ("secret_key", "FABRIC_SECRET_KEY"),
        ("audit_key", "FABRIC_AUDIT_KEY"),
    ):
        assert variables.read(variable, {variable: content[name]})
    again = subprocess.run(made, check=False, capture_output=True, text=True)
    assert again.returncode == 1
    assert "made once" in again.stderr


def test_a_worker_is_given_the_time_that_its_calls_have(composed):
    from console.launch.supervisor import STOP_GRACE_S

    assert int(composed["services"]["worker"]["stop_grace_period"].removesuffix("s")) > STOP_GRACE_S
    (chart,) = re.findall(r"terminationGracePeriodSeconds: (\d+)", text_of("chart/templates/worker.yaml"))
    (unit,) = re.findall(r"TimeoutStopSec=(\d+)", text_of("systemd/fabric-flow-worker@.service"))
    assert min(int(chart), int(unit)) > STOP_GRACE_S


@pytest.mark.parametrize(("age_s", "alive"), [(None, False), (0, True), (45, True), (120, False)])
def test_a_worker_that_beat_within_a_minute_is_alive(tmp_path, age_s, alive):
    beat = tmp_path / "beat"
    if age_s is not None:
        beat.touch()
        os.utime(beat, (time.time() - age_s,) * 2)
    asked = subprocess.run(
        ["sh", str(DEPLOY / "serve.sh"), "alive"], env={**os.environ, "BEAT_FILE": str(beat)}, check=False
    )
    assert (asked.returncode == 0) is alive


def test_probes_ask_addresses_that_answer_strangers():
    from console.site.access.policies import ROUTES, Policy

    public = {f"/{name}" for name, policy in ROUTES.items() if policy is Policy.PUBLIC}
    asked = set(re.findall(r"path: (/\w+)", text_of("chart/templates/web.yaml"))) | {"/readyz"}
    assert asked - {"/"} <= public
    refused = set(re.search(r"@probes path (.*)", text_of("Caddyfile"))[1].split())
    assert refused == {"/healthz", "/readyz", "/livez"}


def test_the_proxy_cuts_no_request_that_the_program_still_reads():
    """``read_body`` bounds a whole body (Go's ``ReadTimeout``); the program bounds its pace, so a large body may take hours."""
    given = dict(
        re.findall(r"^\s*(read_header|read_body|max_size) (\d+)(?:s|MiB)$", text_of("Caddyfile"), re.MULTILINE)
    )
    assert int(given["read_header"]) >= HEAD_S
    assert int(given["max_size"]) * 1024 * 1024 == BODY_MAX
    assert float(given.get("read_body", "inf")) >= BODY_MAX / (BODY_BYTES / BODY_S)


HARDENED = {
    "NoNewPrivileges": "yes", "ProtectSystem": "strict", "ProtectHome": "yes", "PrivateTmp": "yes", "CapabilityBoundingSet": "",
    "RestrictNamespaces": "yes", "ProtectKernelModules": "yes", "UMask": "0077", "StateDirectoryMode": "0700",
}  # fmt: skip


@pytest.mark.parametrize("unit", ["fabric-flow-web.service", "fabric-flow-worker@.service"])
def test_a_unit_may_do_little(unit):
    said = dict(line.split("=", 1) for line in text_of(f"systemd/{unit}").splitlines() if re.match(r"[A-Za-z]+=", line))
    assert {name: said.get(name) for name in HARDENED} == HARDENED
    assert said["User"] == "fabric-flow"


@pytest.mark.parametrize("part", ["web", "worker", "migrate"])
def test_the_chart_s_pods_may_do_little(part):
    names, template = text_of("chart/templates/_names.tpl"), text_of(f"chart/templates/{part}.yaml")
    for words in (
        "runAsNonRoot: true",
        f"runAsUser: {USER}",
        "readOnlyRootFilesystem: true",
        "allowPrivilegeEscalation: false",
        "drop: [ALL]",
        "seccompProfile: {type: RuntimeDefault}",
        "automountServiceAccountToken: false",
    ):
        assert words in names
    assert 'include "fabric.pod"' in template
    assert 'include "fabric.container"' in template
    assert template.count("{{") == template.count("}}")
    used = set(re.findall(r"\.Values\.([a-zA-Z]+)", names + template))
    assert used <= set(yaml.safe_load(text_of("chart/values.yaml")))
