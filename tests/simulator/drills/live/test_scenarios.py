"""Scenarios played live on an installation: what strikes is told by its workers, each decision is compared with the table, and everything is put back."""

from __future__ import annotations

import json

import pytest

from tests.simulator.drills.live.test_cells import drilling

pytestmark = pytest.mark.slow
PLAYED, VIRTUAL_ONLY = "rate-limit-then-healthy", "tool-error"
ABORTED = "it has taken 5 s, and stops at 5 s"
ASK = """
import json
from fabric.core.values.taxonomy import Tier
from fabric.selectors.errors import Refused
from fabric.services.actors import owner_actor
from simulator.drills.tasks import wake
from simulator.drills.library.requests import scenario_ask
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


def test_by_command_it_is_played_here_told_like_any_other_and_kept():
    with drilling("sqlite") as here:
        run = ("scenario", "run", PLAYED, here.publish(), "--live", "--here", "--tier", "batch")
        told = here.made.manage(*run, "--set", "retry_after_s=1.0", "--json")
        kept = here.rows.read("SELECT mode, scenario, verdict, cap_usd_micros FROM drills_drill")
        with pytest.raises(RuntimeError, match="exit 1"):
            here.made.manage(*run, "--set", "retry_after_s=60.0", "--cap-s", "5", "--cap-usd", "0.5")
        [(status, why, cap)] = here.rows.read(
            "SELECT status, why, cap_usd_micros FROM drills_drill ORDER BY id DESC LIMIT 1"
        )
        assert here.put_back()
    [tier] = told["tiers"]
    assert (tier["verdict"], tier["struck"], told["passed"]) == ("pass", {"retry_after": 2}, 1)
    assert [row[:3] for row in kept] == [("live", PLAYED, "pass")]
    assert (status, why, cap) == ("aborted", ABORTED, 500_000)
