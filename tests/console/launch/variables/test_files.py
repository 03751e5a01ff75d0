"""Secrets given as files: one way for all variables that may hold one."""

from pathlib import Path

import pytest
from django.core.checks import run_checks

from console.launch.processes.errors import StartRefused
from console.launch.variables import readers as secret_files
from console.launch.variables.table import (
    SECRETS,
    SETTINGS,
    VARIABLES,
    Kind,
    drop_secrets,
    read,
    refuse_unusable,
    secret_values,
)
from tests.console.launch.variables.test_table import GOOD

GOOD_TEXT = {name: (text, value) for name, text, value in GOOD}
WORDS = ("KEY", "SECRET", "PASSWORD", "TOKEN", "URL", "WEBHOOKS", "SLACK", "TEAMS", "RING")
NO_SECRET = {"FABRIC_KEY_CAPS"}
"""What may be spent with keys."""
ADDRESSES = {name for name in SETTINGS if name.startswith("FABRIC_") and name.endswith("_URL")}


def written(path: Path, text: str | bytes, mode: int = 0o600) -> str:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(mode)
    return str(path)


def test_whatever_may_hold_a_secret_is_declared():
    by_name = {name for name in SETTINGS if any(word in name.split("_") for word in WORDS)} - ADDRESSES - NO_SECRET
    assert by_name == set(SECRETS)
    assert {VARIABLES[name].kind for name in SECRETS} == {Kind.SETTING}


@pytest.mark.parametrize("name", SECRETS)
def test_each_may_be_given_as_a_file(tmp_path, name):
    text, value = GOOD_TEXT[name]
    file = {f"{name}_FILE": written(tmp_path / "secret", f"{text}\n")}
    assert read(name, file) == value
    assert secret_values(file) == {name: text.strip()}
    with pytest.raises(StartRefused, match=f"^{name} is set and {name}_FILE is too: set one of them.$"):
        read(name, file | {name: text})


def test_no_other_variable_is_read_from_a_file(tmp_path):
    assert read("FABRIC_PORT", {"FABRIC_PORT_FILE": written(tmp_path / "port", "9000")}) is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "which is empty or no text: put the value alone into it"),
        (b" \n", "which is empty or no text"),
        (b"\xff\xfe", "which is empty or no text"),
        (b"x" * (secret_files.BYTES_MAX + 1), "which has more than 65,536 bytes"),
    ],
)
def test_a_file_that_holds_no_value_is_a_sentence_without_it(tmp_path, content, said):
    path = written(tmp_path / "secret", content)
    with pytest.raises(StartRefused) as refused:
        refuse_unusable({"FABRIC_MODEL_KEY_FILE": path})
    assert refused.value.sentence.startswith("FABRIC_MODEL_KEY_FILE is ")
    assert said in refused.value.sentence


@pytest.mark.parametrize("path", ["secret", "/", "/no/such/file", "relative/file", "/x\0y"])
def test_a_path_that_is_no_file_is_a_sentence(path):
    with pytest.raises(StartRefused, match="give the absolute path of a file that is there"):
        read("FABRIC_MODEL_KEY", {"FABRIC_MODEL_KEY_FILE": path})


def test_a_bad_value_from_a_file_is_refused_as_any_other_and_not_shown(tmp_path):
    with pytest.raises(StartRefused, match="^FABRIC_WEBHOOK_SECRET is no secret") as refused:
        read("FABRIC_WEBHOOK_SECRET", {"FABRIC_WEBHOOK_SECRET_FILE": written(tmp_path / "s", "sesame-open")})
    assert "sesame" not in refused.value.sentence


@pytest.mark.parametrize(("mode", "who"), [(0o640, "its group"), (0o644, "every user"), (0o604, "every user")])
def test_a_file_that_others_may_read_is_told(tmp_path, monkeypatch, mode, who):
    path = written(tmp_path / "secret", "sk-0123456789", mode)
    (said,) = secret_files.open_to_others(SECRETS, {"FABRIC_MODEL_KEY_FILE": path})
    assert said.startswith(f"FABRIC_MODEL_KEY_FILE names {path}, which {who} may read")
    monkeypatch.setenv("FABRIC_MODEL_KEY_FILE", path)
    assert said in [one.msg for one in run_checks(tags=["security"]) if one.id == "console.W001"]
    Path(path).chmod(0o600)
    assert not [one for one in run_checks(tags=["security"]) if one.id == "console.W001"]
    assert not list(secret_files.open_to_others(SECRETS, {"FABRIC_MODEL_KEY_FILE": path}))


def test_programs_that_are_not_ours_are_given_no_secret():
    environ = dict.fromkeys(SECRETS, "x") | {f"{name}_FILE": "/x" for name in SECRETS}
    environ |= {"FABRIC_TOOL_VARIABLES": "CRM_TOKEN@crm.example.org:443, OTHER", "CRM_TOKEN": "x", "OTHER": "x"}
    kept = {"PATH": "/bin", "FABRIC_DATA": "/data"}
    left = drop_secrets(environ | kept)
    assert left == kept | {"FABRIC_TOOL_VARIABLES": environ["FABRIC_TOOL_VARIABLES"]}
