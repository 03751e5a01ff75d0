"""Parts and signatures of a release."""

import importlib.util
import json
import shutil
import subprocess
import sys

import pytest

from console.launch.dependencies import pins
from tests.test_tidy import ROOT

SCRIPT = ROOT / "deploy" / "release.py"


def release(*words):
    command = [sys.executable, str(SCRIPT), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_bill_names_every_pin_and_every_script_and_is_the_same_again(tmp_path):
    for name in ("a", "b"):
        assert release("sbom", tmp_path / name).returncode == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    bill = json.loads((tmp_path / "a").read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    libraries = {(one["name"], one["version"]) for one in bill["components"] if one["type"] == "library"}
    assert libraries == {(name, version) for name, version, _ in pins(ROOT / "requirements.lock")}
    assert all(one["properties"] for one in bill["components"] if one["type"] == "library"), "a part without a hash"
    vendor = {path.name for path in (ROOT / "static" / "vendor").iterdir()} - {"CHECKSUMS.sha256"}
    assert {one["name"] for one in bill["components"] if one["type"] == "file"} == vendor
    references = [one["bom-ref"] for one in bill["components"]]
    assert len(references) == len(set(references))


@pytest.fixture
def signed(tmp_path):
    if not shutil.which("ssh-keygen"):
        pytest.skip("ssh-keygen is not here")
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    (tmp_path / "signers").write_text(f"releaser {key.with_suffix('.pub').read_text()}")
    folder = tmp_path / "dist"
    folder.mkdir()
    (folder / "one.whl").write_text("one")
    (folder / "sbom.json").write_text("{}")
    assert release("sign", folder, "--key", key).returncode == 0
    return folder, tmp_path / "signers"


def verified(signed, by="releaser"):
    return release("verify", signed[0], "--signers", signed[1], "--by", by).returncode == 0


def test_what_was_signed_verifies(signed):
    assert verified(signed)
    assert (signed[0] / "SHA256SUMS").read_text().count("\n") == 2


@pytest.mark.parametrize("what", ["changed", "added", "gone", "sums", "signer"])
def test_whatever_is_changed_shows(signed, what):
    folder, _ = signed
    if what == "changed":
        (folder / "one.whl").write_text("two")
    elif what == "added":
        (folder / "three.whl").write_text("three")
    elif what == "gone":
        (folder / "sbom.json").unlink()
    elif what == "sums":
        (folder / "one.whl").write_text("two")
        spec = importlib.util.spec_from_file_location("release", SCRIPT)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        (folder / "SHA256SUMS").write_text(module.sums(folder))
    assert not verified(signed, "somebody" if what == "signer" else "releaser")


ASKED = {
    "no source answers": (
        {"dependencies": [{"name": "amqp", "skip_reason": "Dependency not found on PyPI"}]},
        {"message": "405 Method Not Allowed", "method": "POST"},
        "no source of known vulnerabilities answered, so nothing is known of its packages",
    ),
    "one is not looked up": (
        {"dependencies": [{"name": "amqp", "skip_reason": "not found"}, {"name": "vine", "version": "5", "vulns": []}]},
        {"vulnerabilities": {}, "metadata": {"dependencies": {"total": 3}}},
        "requirements.lock: 1 packages could not be looked up: nothing is known of them.",
    ),
    "one is bad": (
        {"dependencies": [{"name": "vine", "version": "5", "vulns": [{"id": "PYSEC-1", "fix_versions": ["5.1"]}]}]},
        {"vulnerabilities": {"ws": {"severity": "high"}}, "metadata": {"dependencies": {"total": 3}}},
        "requirements.lock: vine 5 has PYSEC-1; mended in 5.1",
    ),
    "all is well": (
        {"dependencies": [{"name": "vine", "version": "5", "vulns": []}]},
        {"vulnerabilities": {}, "metadata": {"dependencies": {"total": 3}}},
        "requirements.lock: 1 packages were looked up, and nothing is known against them.",
    ),
}
"""What pip-audit and npm print, and what is said of it. Both end with 0: pip-audit does so where a package mirror has no advisories."""


@pytest.mark.parametrize("case", ASKED)
def test_unknown_is_no_success(tmp_path, case):
    python, node, sentence = ASKED[case]
    for name, said in (("pip-audit", python), ("npm", node)):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(said)}\nEND\n")
        program.chmod(0o755)
    done = subprocess.run(
        [sys.executable, ROOT / "deploy" / "release.py", "audit"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert sentence in done.stdout + done.stderr
    assert done.returncode == (0 if case == "all is well" else 1)


def test_a_program_that_is_not_there_is_named(tmp_path):
    done = subprocess.run(
        [sys.executable, ROOT / "deploy" / "release.py", "audit"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "requirements.lock: pip-audit is not here: install it, then ask again." in done.stderr
