"""The disaster drill: a backup taken with calls out, the machine lost, an installation made from the file. Its journals are whole, and its runs go on."""

import os
from pathlib import Path

import pytest

from simulator.bench.database import fresh
from simulator.chaos.failpoints import FOLDER
from simulator.chaos.harness import Site, site, until
from simulator.chaos.rows import Rows, start_runs, states
from tests.chaos import mishaps
from tests.console.launch.processes import PATIENCE_S, Lines

ENDED, UNDER_WAY = 3, 5
CHANGED = {
    "FABRIC_PROVIDERS": "scripted=tests.chaos.mishaps.HangingProvider",
    "DJANGO_SETTINGS_MODULE": "tests.settings_running",
}
DATABASES = ["sqlite", pytest.param("postgresql", marks=[pytest.mark.postgresql, pytest.mark.redis])]

pytestmark = pytest.mark.slow


def all_completed(made):
    return set(states(made).values()) == {"completed"}


def with_calls_out(made):
    """Run some to their end, and others up to a call that is not answered."""
    start_runs(made, ENDED)
    until(lambda: all_completed(made), made, PATIENCE_S)
    os.mkfifo(made.folder / mishaps.ASKED)
    asked = os.open(made.folder / mishaps.ASKED, os.O_RDWR)
    (made.folder / mishaps.HANG).touch()
    start_runs(made, UNDER_WAY)
    assert Lines(asked).next() == "asked"
    os.close(asked)


@pytest.mark.parametrize("db", DATABASES)
def test_a_backup_under_load_is_an_installation_whose_runs_go_on(db, tmp_path):
    kept = tmp_path / "flow.backup"
    with site(db, provider="", workers=1, more=CHANGED) as lost:
        with_calls_out(lost)
        assert "secret.key" in lost.manage("backup", str(kept), "--with-keys", "--json")["keys"]
        for worker in lost.workers:
            worker.kill()
    assert kept.stat().st_mode & 0o777 == 0o600

    with fresh(db, migrated=False) as environment:
        made = restored(environment, db)
        said = made.manage("restore", str(kept), "--json")
        assert (said["verified"], said["revoked"]["people"]) == (True, 1)
        assert len(states(made)) == ENDED + UNDER_WAY
        assert Rows.of(made.environment).live() == UNDER_WAY
        assert made.manage("replay_run", "--all", "--json")["differences"] == 0

        made.start_worker()
        try:
            until(lambda: all_completed(made), made, PATIENCE_S)
        finally:
            made.stop()
        assert made.manage("verify_audit", "--json")["faults"] == 0
        assert made.manage("replay_run", "--all", "--json")["differences"] == 0


def restored(environment, db):
    """An installation that is empty, with the same settings as the lost one."""
    chaos = Path(environment["FABRIC_DATA"]) / "chaos"
    chaos.mkdir()
    environment |= {FOLDER: str(chaos), **CHANGED}
    if db == "postgresql":
        environment["CELERY_BROKER_URL"] = os.environ.get("TEST_REDIS_URL", "redis://127.0.0.1:6379/15")
    return Site(environment)
