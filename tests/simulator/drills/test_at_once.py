"""Several callers ask at once, on the databases that there are."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from django.conf import settings

from simulator.installation.database import temporary_database
from tests.simulator.drills.racing import ROUNDS, THREADS

DATABASES = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)]


def raced(kind, scene):
    command = [sys.executable, "-m", "tests.simulator.drills.racing", scene]
    with temporary_database(kind) as environment:
        done = subprocess.run(
            command, env=environment, cwd=settings.BASE_DIR, capture_output=True, text=True, timeout=300, check=False
        )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("kind", DATABASES)
def test_what_is_asked_for_while_the_drill_stop_is_pulled_is_ended_too(kind):
    """The caller that asks has not committed yet: the one that pulls waits for it, so that nothing slips through."""
    assert raced(kind, "drill_stop") == {"ended": [24], "left": 0}


@pytest.mark.parametrize("kind", DATABASES)
def test_a_schedule_that_is_due_is_asked_for_once_by_several_workers(kind):
    assert raced(kind, "schedule") == [[[0] * (THREADS - 1) + [1], 1, 24, 1, ""]] * ROUNDS
