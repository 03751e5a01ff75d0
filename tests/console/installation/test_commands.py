"""`backup` and `restore` as an operator calls them."""

import json
import sqlite3
import subprocess
import tarfile
from pathlib import Path

import pytest

from console.launch.processes.errors import StartRefused
from console.management.commands.restore import refuse_unfit
from fabric.core.people.scopes import PREFIX
from simulator.installation.database import MANAGE, ROOT, temporary_database
from tests.console.installation.test_archive import MADE


def manage(environment, *words):
    return subprocess.run(
        [*MANAGE, *words], env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )


def test_a_backup_without_keys_is_restored_once_and_says_what_is_missing(tmp_path):
    file = tmp_path / "one.backup"
    with temporary_database("sqlite") as environment:
        assert manage(environment, "bootstrap").returncode == 0
        done = manage(environment, "backup", str(file), "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["keys"] == []
        again = manage(environment, "backup", str(file))
        assert (again.returncode, again.stderr) == (
            1,
            f"{file} is there already: name a file that is not, nothing is overwritten.\n",
        )
    with tarfile.open(file) as tar:
        assert tar.getnames() == ["manifest.json", "database"]

    with temporary_database("sqlite", migrated=False) as environment:
        done = manage(environment, "restore", str(file))
        assert done.returncode == 0, done.stderr
        assert "It brought no keys" in done.stdout
        assert "Ended: the sign-ins of 0 people, 0 tokens, 0 invitations, 1 sign-in links." in done.stdout
        with sqlite3.connect(f"{environment['FABRIC_DATA']}/fabric.sqlite3") as made:
            acts = [row[0] for row in made.execute("SELECT kind FROM fabric_audit ORDER BY at, id")]
        assert acts[-2:] == ["backup_restored", "access_revoked"]
        again = manage(environment, "restore", str(file))
        assert again.returncode == 1
        assert "This installation is not empty" in again.stderr


STORE = "from fabric.services.models.keys import key_set; from fabric.services.actors import owner_actor; key_set(actor=owner_actor(), provider='openai', host='https://api.example.org/v1', key='sk-0123456789-restored')"
OPEN = "from fabric.providers.stored_keys import stored_keys; from fabric.services.installation.facts import secret_box; print([one.secret for one in stored_keys(secret_box()).values()])"


def test_a_backup_with_keys_opens_what_was_sealed_and_ends_every_way_in(tmp_path):
    file = tmp_path / "one.backup"
    with temporary_database("sqlite") as environment:
        assert manage(environment, "bootstrap").returncode == 0
        assert manage(environment, "django", "shell", "-v", "0", "-c", STORE).returncode == 0
        made = manage(environment, "token", "create", "nightly", "--scope", "read").stdout
        token = next(word for word in made.split() if word.startswith(PREFIX))
        assert manage(environment, "backup", str(file), "--with-keys").returncode == 0
        data = Path(environment["FABRIC_DATA"])
        keys = {path.name: path.read_bytes() for path in data.iterdir() if path.suffix in (".key", ".ring")}
    assert file.stat().st_mode & 0o777 == 0o600
    with temporary_database("sqlite", migrated=False) as environment:
        done = manage(environment, "restore", str(file), "--json")
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout.splitlines()[-1])
        assert (said["verified"], set(said["keys"])) == (True, set(keys))
        assert said["revoked"] == {"people": 0, "tokens": 1, "invitations": 0, "links": 1}
        data = Path(environment["FABRIC_DATA"])
        assert {name: (data / name).read_bytes() for name in keys} == keys
        assert {path.stat().st_mode & 0o077 for path in (data, *data.iterdir()) if path.is_file()} == {0}
        assert manage(environment, "django", "shell", "-v", "0", "-c", OPEN).stdout == "['sk-0123456789-restored']\n"
        used = f"from fabric.services.people.tokens import token_use; print(token_use('{token}'))"
        assert manage(environment, "django", "shell", "-v", "0", "-c", used).stdout == "revoked\n"


def test_keys_of_another_installation_are_not_lost(tmp_path):
    file = tmp_path / "one.backup"
    with temporary_database("sqlite") as environment:
        assert manage(environment, "bootstrap").returncode == 0
        (Path(environment["FABRIC_DATA"]) / "key.ring").write_text("cd" * 32 + "\n")
        assert manage(environment, "backup", str(file), "--with-keys").returncode == 0
    with temporary_database("sqlite", migrated=False) as environment:
        ring = Path(environment["FABRIC_DATA"]) / "key.ring"
        ring.write_text("ab" * 32 + "\n")
        ring.chmod(0o600)
        done = manage(environment, "restore", str(file))
        assert done.returncode == 1
        assert "key.ring is a key that is not the backup's, and would be lost" in done.stderr
        assert ring.read_text() == "ab" * 32 + "\n"
        assert not (Path(environment["FABRIC_DATA"]) / "fabric.sqlite3").exists()


def test_a_file_that_is_not_there_is_a_sentence(tmp_path):
    with temporary_database("sqlite", migrated=False) as environment:
        done = manage(environment, "restore", str(tmp_path / "none"))
    assert (done.returncode, done.stderr) == (
        1,
        f"{tmp_path / 'none'} is not there: name a file that `backup` wrote.\n",
    )


@pytest.mark.django_db
@pytest.mark.parametrize(("change", "words"), [
    ({"engine": "postgresql"}, "The backup is of postgresql, and this installation is on sqlite"),
    ({}, "This installation is not empty"),
])  # fmt: skip
def test_one_that_does_not_fit_is_refused(change, words):
    from dataclasses import replace

    with pytest.raises(StartRefused, match=words):
        refuse_unfit(replace(MADE, **change))


def test_one_of_a_newer_version_is_refused(monkeypatch):
    from dataclasses import replace

    from console.installation import backups as databases

    monkeypatch.setattr(databases, "is_empty", lambda: True)
    with pytest.raises(StartRefused, match=r"newer Fabric Flow, which has fabric\.9999_later"):
        refuse_unfit(replace(MADE, migrations=("fabric.0001_initial", "fabric.9999_later", "elsewhere.0001_x")))
    refuse_unfit(MADE)


def test_one_of_a_development_version_is_refused(monkeypatch):
    from dataclasses import replace

    from console.installation import backups as databases

    monkeypatch.setattr(databases, "is_empty", lambda: True)
    with pytest.raises(StartRefused, match="The backup was written by a development version before 1.0.0"):
        refuse_unfit(replace(MADE, migrations=("fabric.0001_initial", "fabric.0002_login_links")))
