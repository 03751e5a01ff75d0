"""The disaster drill: a backup taken under load, the machine lost, an installation made from the file. Its journals are whole, and its runs go on."""

import os
from pathlib import Path

import pytest

from simulator.bench.database import fresh
from simulator.chaos.failpoints import FOLDER
from simulator.chaos.harness import Site, site, until
from simulator.chaos.rows import Rows, start_runs, states
from tests.console.launch.processes import PATIENCE_S

QUICK, SLOW = 3, 6
CALL_S = 6.0
"""Of a slow run's call: longer than the backup takes, which begins once the quick ones have ended."""
PROVIDER = "simulator.chaos.providers.WatchingProvider"
DATABASES = ["sqlite", pytest.param("postgresql", marks=[pytest.mark.postgresql, pytest.mark.redis])]

pytestmark = pytest.mark.slow


def under_way(made):
    """Whether some runs have ended and others have not."""
    return len({state == "completed" for state in states(made).values()}) == 2


@pytest.mark.parametrize("db", DATABASES)
def test_a_backup_under_load_is_an_installation_whose_runs_go_on(db, tmp_path):
    kept = tmp_path / "flow.backup"
    with site(db, provider=PROVIDER, workers=2) as lost:
        start_runs(lost, SLOW, {"delay_s": CALL_S})
        start_runs(lost, QUICK)
        until(lambda: under_way(lost), lost, PATIENCE_S)
        assert lost.manage("backup", str(kept), "--with-keys", "--json")["keys"] == ["audit.key", "secret.key"]
    assert kept.stat().st_mode & 0o777 == 0o600

    with fresh(db, migrated=False) as environment:
        made = restored(environment, db)
        said = made.manage("restore", str(kept), "--json")
        assert said["verified"]
        assert said["revoked"]["people"] == 1
        assert len(states(made)) == QUICK + SLOW
        assert Rows.of(made.environment).live(), "the backup was taken once all had ended"
        assert made.manage("replay_run", "--all", "--json")["differences"] == 0

        made.start_worker()
        try:
            until(lambda: set(states(made).values()) == {"completed"}, made, PATIENCE_S)
        finally:
            made.stop()
        assert made.manage("verify_audit", "--json")["faults"] == 0
        assert made.manage("replay_run", "--all", "--json")["differences"] == 0


def restored(environment, db):
    chaos = Path(environment["FABRIC_DATA"]) / "chaos"
    chaos.mkdir()
    environment |= {FOLDER: str(chaos), "FABRIC_PROVIDERS": f"scripted={PROVIDER}"}
    if db == "postgresql":
        environment["CELERY_BROKER_URL"] = os.environ.get("TEST_REDIS_URL", "redis://127.0.0.1:6379/15")
    return Site(environment)
