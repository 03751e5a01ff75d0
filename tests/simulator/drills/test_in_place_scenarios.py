"""Scenarios played live on an installation: what strikes is told by its workers, each decision is held against the table, and everything is put back."""

from __future__ import annotations

import json

import pytest

from tests.simulator.drills.test_in_place import drilling

pytestmark = pytest.mark.slow
PLAYED, VIRTUAL_ONLY = "rate-limit-then-healthy", "tool-error"
ASK = """
import json
from fabric.core.taxonomy import Tier
from fabric.selectors.errors import Refused
from fabric.services.workspaces import owner_actor
from simulator.drills.tasks import wake
from simulator.library.asking import scenario_ask
try:
    made = scenario_ask(actor=owner_actor(), fabric=%r, scenario=%r, tiers=[Tier.BATCH], mode="live", wake=wake)
    print(json.dumps({"batch": made.batch}))
except Refused as refused:
    print(json.dumps({"refused": refused.message, "field": refused.field}))
"""


def test_a_scenario_is_played_by_real_workers_and_one_whose_faults_cannot_be_is_refused_by_name():
    with drilling("sqlite") as here:
        name = here.publish()
        refused = here.shell(ASK % (name, VIRTUAL_ONLY))
        asked = here.shell(ASK % (name, PLAYED))
        [one] = here.ended(asked["batch"])
        assert here.put_back()
        strikes = here.rows.read("SELECT fault, count(*) FROM drills_strike GROUP BY fault")
    assert refused["field"] == "mode"
    assert "cannot be injected live" in refused["refused"]
    assert (one["status"], one["verdict"]) == ("completed", "pass"), one
    assert one["body"]["struck"] == dict(strikes)
    assert one["body"]["lines"]
    assert all(line["expected"] == line["observed"] for line in one["body"]["lines"])
    assert one["body"]["rollback"]["done"], json.dumps(one)
    assert set(one["body"]["steady"]) == {"title", "before", "during", "after"}
