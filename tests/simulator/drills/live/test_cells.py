"""Live drills in an installation: its own workers, broker, database and clock. Each is judged by the fabric's table, and whatever becomes of it, it is put back."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from fabric.core.values.taxonomy import FailureType
from simulator.installation.workers import Rows, Site, temporary_site, wait_until
from tests.simulator.drills.drilled import drilled
from tests.simulator.drills.live.test_installation import TIERS

pytestmark = pytest.mark.slow
LONGEST_S = 240.0
PROVIDER = "simulator.drills.live.provider.FailingProvider"
ENDED = "status NOT IN ('queued', 'running')"
LIVE_RUNS = "SELECT id FROM fabric_run WHERE state NOT IN ('completed', 'stopped', 'failed', 'aborted', 'cancelled')"
PUBLISH = """
import json, sys
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.actors import owner_actor
print(json.dumps(fabric_publish(actor=owner_actor(), source=%r, origin="drilled").name))
"""
ASK = """
import json
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.services.actors import owner_actor
from simulator.drills.services.drills import drill_ask
from simulator.drills.tasks import wake
asked = json.loads(%r)
cells = [(FailureType(failure), Tier(tier)) for failure, tier in asked.pop("cells")]
made = drill_ask(actor=owner_actor(), cells=cells, mode="live", wake=wake, **asked)
print(json.dumps({"batch": made.batch}))
"""
STOP = """
import json
from fabric.services.actors import owner_actor
from simulator.drills.services.drills import stop_drills
print(json.dumps({"stopped": stop_drills(actor=owner_actor(), batch=%r, reason="enough")}))
"""


class Drilling:
    """An installation in which a fabric is drilled."""

    def __init__(self, made: Site) -> None:
        self.made, self.rows = made, Rows.from_environment(made.environment)

    def shell(self, code: str) -> Any:
        return self.made.manage("django", "shell", "--verbosity", "0", "-c", code)

    def publish(self, **changes: Any) -> str:
        name: Any = self.shell(
            PUBLISH % json.dumps(drilled(reviewers=["owner"], **changes).model_dump(mode="json", by_alias=True))
        )
        return str(name)

    def ask(self, fabric: str, cells: Mapping[FailureType, str], **more: Any) -> str:
        asked = {"fabric": fabric, "cells": [(str(failure), str(tier)) for failure, tier in cells.items()], **more}
        return str(self.shell(ASK % json.dumps(asked))["batch"])

    def wait(self, statement: str, within_s: float = LONGEST_S) -> None:
        """Until a statement finds something."""
        wait_until(lambda: bool(self.rows.read(statement)), self.made, within_s)

    def ended(self, batch: str) -> list[dict[str, Any]]:
        """The drills of a batch once all have ended."""
        left = f"SELECT id FROM drills_drill WHERE batch = '{batch}' AND NOT {ENDED}"
        wait_until(lambda: not self.rows.read(left), self.made, LONGEST_S)
        names = ("failure", "status", "verdict", "expected", "observed", "why", "run_id", "body")
        found = self.rows.read(f"SELECT {', '.join(names)} FROM drills_drill WHERE batch = '{batch}' ORDER BY place")
        told = [dict(zip(names, row, strict=True)) for row in found]
        return [{**one, "body": json.loads(one["body"])} for one in told]

    def put_back(self) -> bool:
        """Return True if no run goes on, and none of a drill's fabrics is published."""
        published = "SELECT id FROM fabric_fabric WHERE name LIKE '%-drill-%' AND published_id IS NOT NULL"
        return not self.rows.read(LIVE_RUNS) and not self.rows.read(published)


@contextmanager
def drilling(database: str, workers: int = 1) -> Iterator[Drilling]:
    with temporary_site(database, provider=PROVIDER, workers=workers) as made:
        found = Drilling(made)
        found.wait("SELECT 1 FROM fabric_incarnation WHERE retired_at IS NULL")
        yield found


@pytest.mark.postgresql
@pytest.mark.redis
def test_one_cell_of_each_failure_type_on_the_installations_own_workers():
    with drilling("postgresql", workers=2) as here:
        found = here.ended(here.ask(here.publish(), TIERS))
        assert here.made.count_deaths() == 0
        assert here.put_back()
    assert [one["failure"] for one in found] == list(TIERS)
    assert [one for one in found if one["verdict"] != "pass"] == []


def test_on_sqlite_a_cell_is_drilled_in_three_runs_and_put_back():
    with drilling("sqlite") as here:
        name = here.publish()
        [one] = here.ended(here.ask(name, {FailureType.COST_OVERRUN: "high_stakes"}))
        assert here.put_back()
        real = here.rows.read(
            "SELECT count(*) FROM fabric_run r JOIN fabric_workspace w ON w.id = r.workspace_id WHERE w.drills_of_id IS NULL"
        )
    assert (one["status"], one["verdict"], one["observed"]) == ("completed", "pass", "escalate > waiting"), one
    steady = {
        part: {one["probe"]: one for one in probes} for part, probes in one["body"]["steady"].items() if part != "title"
    }
    for part in ("before", "after"):
        assert (steady[part]["state"]["output"], steady[part]["chain"]["output"]) == (
            "completed",
            "nothing decided > completed",
        )
        assert {probe["why_not"] for probe in steady[part].values()} == {""}
    assert one["body"]["rollback"] == {"done": True, "said": f"run {one['run_id']} was ended"}
    assert set(one["body"]["runs"]) == {"before", "during", "after"}
    assert real == [(0,)], "nothing of it is among what is real"


RETRIED = {FailureType.PROVIDER: "batch"}
"""Its back-offs take seconds, so that there is something to stop."""
DURING = "SELECT 1 FROM fabric_run WHERE start_key LIKE '%:during' AND state <> 'queued'"


def test_one_that_is_stopped_is_aborted_at_once_and_its_run_ended_before_its_time():
    policy = drilled().policy.model_dump(mode="json", by_alias=True)
    slow = {**policy, "retry": {**policy["retry"], "base_s": 60.0, "cap_s": 60.0}}
    with drilling("sqlite") as here:
        batch = here.ask(here.publish(policy=slow), RETRIED)
        here.wait(DURING)
        assert here.shell(STOP % batch) == {"stopped": 1}
        here.wait(f"SELECT 1 WHERE NOT EXISTS ({LIVE_RUNS})", within_s=30.0)
        [one] = here.ended(batch)
        here.wait("SELECT 1 FROM drills_drill WHERE body LIKE '%rollback%'")
        [one] = here.ended(batch)
        [(reason,)] = here.rows.read("SELECT reason FROM fabric_run WHERE start_key LIKE '%:during'")
        assert here.put_back()
    assert (one["status"], one["verdict"], one["why"]) == ("aborted", "", "enough")
    assert one["body"]["rollback"]["done"], one
    assert "drill ended" in reason


@pytest.mark.parametrize(
    ("caps", "why"),
    [
        ({"cap_s": 5}, "it has taken 5 s, and stops at 5 s"),
        ({"cap_usd_micros": 1}, "and it stops at $0.0000"),
    ],
    ids=["time", "cost"],
)
def test_one_that_passes_a_cap_is_aborted_without_a_verdict_and_put_back(caps, why):
    with drilling("sqlite") as here:
        [one] = here.ended(here.ask(here.publish(), RETRIED, **caps))
        assert here.put_back()
    assert (one["status"], one["verdict"]) == ("aborted", "")
    assert why in one["why"]
    assert one["body"]["aborted"] == one["why"]
    assert one["body"]["rollback"]["done"], one


@pytest.mark.parametrize(
    "database", ["sqlite", pytest.param("postgresql", marks=[pytest.mark.postgresql, pytest.mark.redis])]
)
def test_where_the_worker_is_killed_the_drill_is_interrupted_and_its_run_ended_by_the_next(database):
    with drilling(database) as here:
        batch = here.ask(here.publish(), RETRIED)
        here.wait(DURING)
        os.kill(here.made.workers[0].pid, signal.SIGKILL)
        [one] = here.ended(batch)
        here.wait("SELECT 1 FROM drills_drill WHERE body LIKE '%rollback%'")
        [one] = here.ended(batch)
        assert here.put_back()
        assert here.made.restarts == 1
    assert (one["status"], one["verdict"]) == ("interrupted", "")
    assert one["body"]["rollback"]["done"], one


def test_by_command_it_is_drilled_here_told_like_any_other_and_kept():
    with drilling("sqlite") as here:
        name = here.publish()
        told = here.made.manage(
            "drill", "run", name, "--live", "--here", "--failure", "plan_malformed", "--tier", "interactive", "--json"
        )
        kept = here.rows.read("SELECT mode, verdict FROM drills_drill")
        with pytest.raises(RuntimeError, match="exit 1"):
            here.made.manage("drill", "run", name, "--live", "--here", "--failure", "provider_failure", "--tier", "batch", "--cap-s", "5")  # fmt: skip
        [(status, why)] = here.rows.read("SELECT status, why FROM drills_drill WHERE failure = 'provider_failure'")
    [cell] = told["cells"]
    assert (cell["verdict"], cell["observed"], told["passed"]) == ("pass", "abort > aborted", 1)
    assert kept == [("live", "pass")]
    assert (status, why) == ("aborted", "it has taken 5 s, and stops at 5 s")
