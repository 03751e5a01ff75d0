"""The disaster drill: a backup taken with calls out, the machine lost, an installation made from the file. Its journals are whole, and its runs go on."""

import os
from pathlib import Path

import pytest

from simulator.installation.database import temporary_database
from simulator.installation.workers import Site, wait_until
from tests.chaos.faults.failpoints import FOLDER
from tests.chaos.mishaps import providers as mishaps
from tests.chaos.rows import ChaosRows, start_runs, states
from tests.chaos.site import SETTINGS, folder_of, watched_site
from tests.console.launch.started_processes import PATIENCE_S, Lines

ENDED, UNDER_WAY = 3, 5
HANGING = "tests.chaos.mishaps.providers.HangingProvider"
DATABASES = ["sqlite", pytest.param("postgresql", marks=[pytest.mark.postgresql, pytest.mark.redis])]

pytestmark = pytest.mark.slow


def all_completed(made):
    return set(states(made).values()) == {"completed"}


def with_calls_out(made):
    """Run some to their end, and others up to a call that is not answered."""
    start_runs(made, ENDED)
    wait_until(lambda: all_completed(made), made, PATIENCE_S)
    os.mkfifo(folder_of(made) / mishaps.ASKED)
    asked = os.open(folder_of(made) / mishaps.ASKED, os.O_RDWR)
    (folder_of(made) / mishaps.HANG).touch()
    start_runs(made, UNDER_WAY)
    assert Lines(asked).next() == "asked"
    os.close(asked)


SIGNED_IN = """
from fabric.services.people.sign_in.sessions import sign_in_begin
from fabric.services.actors import owner_ensure
sign_in_begin(user=owner_ensure(), way="link", browser="", address="")
print("{}")
"""
"""The owner's browser: a restore ends what the backup brings back."""


@pytest.mark.parametrize("db", DATABASES)
def test_a_backup_under_load_is_an_installation_whose_runs_go_on(db, tmp_path):
    kept = tmp_path / "flow.backup"
    with watched_site(db, provider=HANGING, workers=1) as lost:
        with_calls_out(lost)
        lost.manage("django", "shell", "-c", SIGNED_IN)
        assert "secret.key" in lost.manage("backup", str(kept), "--with-keys", "--json")["keys"]
        for worker in lost.workers:
            worker.kill()
    assert kept.stat().st_mode & 0o777 == 0o600

    with temporary_database(db, migrated=False) as environment:
        made = restored(environment, db)
        said = made.manage("restore", str(kept), "--json")
        assert (said["verified"], said["revoked"]["people"]) == (True, 1)
        assert len(states(made)) == ENDED + UNDER_WAY
        assert ChaosRows.from_environment(made.environment).live() == UNDER_WAY
        assert made.manage("admin", "replay", "--all", "--json")["differences"] == 0

        made.start_worker()
        try:
            wait_until(lambda: all_completed(made), made, PATIENCE_S)
        finally:
            made.stop()
        assert made.manage("admin", "verify", "--json")["faults"] == 0
        assert made.manage("admin", "replay", "--all", "--json")["differences"] == 0


def restored(environment, db):
    """An installation that is empty, with the same settings as the lost one."""
    chaos = Path(environment["FABRIC_DATA"]) / "chaos"
    chaos.mkdir()
    environment |= {FOLDER: str(chaos), "FABRIC_PROVIDERS": f"scripted={HANGING}", "DJANGO_SETTINGS_MODULE": SETTINGS}
    if db == "postgresql":
        environment["CELERY_BROKER_URL"] = os.environ.get("TEST_REDIS_URL", "redis://127.0.0.1:6379/15")
    return Site(environment)
