"""Make what goes with a release: its parts (SBOM), known vulnerabilities of the locks, checksums and their signature.

    python3 deploy/release.py sbom FILE
    python3 deploy/release.py audit
    python3 deploy/release.py sign FOLDER --key KEY        # SHA256SUMS and SHA256SUMS.sig of every file in it
    python3 deploy/release.py verify FOLDER --signers FILE --by NAME

Standard library only. Exit code: 0 done and nothing found, 1 something is wrong or could not be looked at.
"""  # noqa: INP001

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ("requirements.lock", "requirements-test.lock", "tests/peers/requirements-peers.lock")
NODE_LOCK = "tests/peers/package-lock.json"
SUMS = "SHA256SUMS"
NAMESPACE = "fabric-flow"
"""Of signatures: one that was made for something else does not verify (ssh-keygen(1), -n)."""
_pin = re.compile(
    r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)([^\\\n]*)\\?\n((?:[ \t]+--hash=[^\n]+\n)*)", re.MULTILINE
)


def bill_of_materials() -> dict[str, object]:
    """Return the parts of the distribution as CycloneDX 1.6 (ECMA-424): what requirements.lock pins, and the scripts in static/vendor. The same for the same locks."""
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    components = [_package(*found) for found in _pin.findall(text)] + _scripts()
    version = re.search(r'^version = "([^"]+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert version is not None
    digest = hashlib.sha256(json.dumps(components, sort_keys=True).encode()).hexdigest()
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest)}",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "bom-ref": "fabric-flow", "name": "fabric-flow", "version": version[1]}
        },
        "components": components,
    }


def _package(name: str, version: str, marker: str, hashes: str) -> dict[str, object]:
    reference = f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"
    files = re.findall(r"--hash=sha256:([0-9a-f]{64})", hashes)
    properties = [{"name": "fabric-flow:file:sha256", "value": one} for one in files]
    if marker.strip(" ;"):
        properties.append({"name": "fabric-flow:marker", "value": marker.strip(" ;")})
    part = {"type": "library", "bom-ref": reference, "name": name, "version": version, "purl": reference}
    return {**part, "scope": "required", "properties": properties}


def _scripts() -> list[dict[str, object]]:
    lines = (ROOT / "static" / "vendor" / "CHECKSUMS.sha256").read_text(encoding="utf-8").splitlines()
    pairs = (line.split(maxsplit=1) for line in lines if line.strip())
    return [
        {
            "type": "file",
            "bom-ref": f"static/vendor/{name}",
            "name": name,
            "hashes": [{"alg": "SHA-256", "content": one}],
        }
        for one, name in pairs
    ]


def audit() -> int:
    """Ask pip-audit and npm for known vulnerabilities of each lock. Return 1 also when neither answers: unknown is no success."""
    pip_audit = _pip_audit()
    worst = 0
    for lock in LOCKS:
        options = ("--require-hashes", "--disable-pip", "--progress-spinner", "off", "-f", "json", "-r")
        worst |= _asked(lock, [*pip_audit, *options, str(ROOT / lock)], ROOT, _of_python)
    node = ["npm", "audit", "--package-lock-only", "--json"]
    return worst | _asked(NODE_LOCK, node, (ROOT / NODE_LOCK).parent, _of_node)


def _pip_audit() -> list[str]:
    """Return the command that calls pip-audit on this machine."""
    ways = (["pip-audit"], ["uvx", "pip-audit"], ["uv", "tool", "run", "pip-audit"], ["pipx", "run", "pip-audit"])
    return next((way for way in ways if shutil.which(way[0])), ways[0])


def _asked(lock: str, command: list[str], folder: Path, read: Callable[[Any], tuple[int, int, list[str]]]) -> int:
    """Ask about one lock and say what came of it; 0: every package was looked up, and nothing is known against any."""
    try:
        done = subprocess.run(command, cwd=folder, check=False, stdout=subprocess.PIPE, text=True)
    except FileNotFoundError:
        print(f"{lock}: {command[0]} is not here: install it, then ask again.", file=sys.stderr)
        return 1
    try:
        looked_up, unknown, found = read(json.loads(done.stdout))
    except (ValueError, KeyError, TypeError):
        looked_up, unknown, found = 0, 0, []
    for one in found:
        print(f"{lock}: {one}", file=sys.stderr)
    if not looked_up:
        print(
            f"{lock}: no source of known vulnerabilities answered, so nothing is known of its packages. Ask again with the internet and no package mirror.",
            file=sys.stderr,
        )
    elif unknown:
        print(f"{lock}: {unknown} packages could not be looked up: nothing is known of them.", file=sys.stderr)
    elif not found:
        print(f"{lock}: {looked_up} packages were looked up, and nothing is known against them.")
    return 0 if looked_up and not unknown and not found else 1


def _of_python(said: Any) -> tuple[int, int, list[str]]:
    """Return the packages looked up, those not looked up, and what is known, from an answer of pip-audit."""
    packages = said["dependencies"]
    known = [one for one in packages if "skip_reason" not in one]
    found = [
        f"{one['name']} {one['version']} has {bad['id']}; mended in {', '.join(bad['fix_versions']) or 'no version yet'}"
        for one in known
        for bad in one["vulns"]
    ]
    return len(known), len(packages) - len(known), found


def _of_node(said: Any) -> tuple[int, int, list[str]]:
    """Return the same from an answer of npm, which looks up all or none."""
    found = [f"{name} has a vulnerability ({one['severity']})" for name, one in said["vulnerabilities"].items()]
    return said["metadata"]["dependencies"]["total"], 0, found


def sums(folder: Path) -> str:
    """Return the lines of SHA256SUMS, as sha256sum(1) writes them: every file of the folder, by name."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith(SUMS))
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


def sign(folder: Path, key: Path) -> int:
    """Write SHA256SUMS and its signature (ssh-keygen -Y sign; the format is OpenSSH's PROTOCOL.sshsig)."""
    listed = folder / SUMS
    listed.write_text(sums(folder), encoding="utf-8")
    (folder / f"{SUMS}.sig").unlink(missing_ok=True)
    return subprocess.run(
        ["ssh-keygen", "-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(listed)], check=False
    ).returncode


def verify(folder: Path, signers: Path, by: str) -> int:
    """Check the signature against the allowed signers, and every file against its sum."""
    listed = folder / SUMS
    command = ["ssh-keygen", "-Y", "verify", "-f", str(signers), "-I", by, "-n", NAMESPACE, "-s", f"{listed}.sig"]
    with listed.open("rb") as content:
        if subprocess.run(command, stdin=content, check=False).returncode:
            print(f"{SUMS} is not signed by {by}: use none of these files.", file=sys.stderr)
            return 1
    if listed.read_text(encoding="utf-8") != sums(folder):
        print(f"The files are not those that {SUMS} names: use none of them.", file=sys.stderr)
        return 1
    return 0


def main(argv: list[str]) -> int:
    """Run the command that the first word names."""
    parser = argparse.ArgumentParser(prog="release.py", description=(__doc__ or "").partition("\n")[0])
    ways = parser.add_subparsers(dest="way", required=True)
    ways.add_parser("sbom").add_argument("file", type=Path)
    ways.add_parser("audit")
    for way in ("sign", "verify"):
        ways.add_parser(way).add_argument("folder", type=Path)
    ways.choices["sign"].add_argument("--key", type=Path, required=True)
    ways.choices["verify"].add_argument("--signers", type=Path, required=True)
    ways.choices["verify"].add_argument("--by", required=True)
    given = parser.parse_args(argv)
    if given.way == "sbom":
        given.file.write_text(json.dumps(bill_of_materials(), indent=1) + "\n", encoding="utf-8")
        return 0
    if given.way == "audit":
        return audit()
    return sign(given.folder, given.key) if given.way == "sign" else verify(given.folder, given.signers, given.by)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
