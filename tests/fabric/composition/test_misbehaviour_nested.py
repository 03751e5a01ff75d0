"""Supervisors that plan for supervisors, over real HTTP: the row "sub-agents spawning" of the comparison, with runs below runs (``test_misbehaviour_http``)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fabric.models import Run
from simulator.endpoint import Received, Step, answer
from tests.fabric.composition.test_misbehaviour_http import Row, Seen, seen_of

pytestmark = pytest.mark.django_db(transaction=True)

LEADS = tuple(f"lead{n}" for n in range(5))
TEAMS = ", ".join(
    f"{lead}: {{topology: {{planner: {lead}, workers: [{below}]}}}}"
    for lead, below in zip(LEADS, (*LEADS[1:], "worker"), strict=True)
)
NESTED = {
    "topology": f"{{kind: hierarchical, planner: planner, workers: [{LEADS[0]}], teams: {{{TEAMS}}}}}",
    "agents": "".join(f"  - {{name: {lead}, model: script, instructions: Lead.}}\n" for lead in LEADS),
}


def plans_for_the_next(received: Received, wide: int) -> Step:
    """A plan of so many briefs for the lead below the planner that asks."""
    who = received.body["messages"][0]["content"].removeprefix("You are ").partition(".")[0]
    below = (*LEADS, "worker")[LEADS.index(who) + 1 if who in LEADS else 0]
    briefs = [{"agent": below, "title": f"Part {part}", "instructions": f"Do part {part}."} for part in range(wide)]
    return answer(json.dumps({"goal": "Answer.", "briefs": briefs, "exit_criteria": ["Done."]}))


def decided(seen: Seen) -> list[Any]:
    """Return what was decided about in the run and in all below it."""
    ids = Run.objects.order_by("created_at").values_list("id", flat=True)
    return [
        one.fact["cause"] for run_id in ids for one in seen.site.events(str(run_id)) if one.kind == "reaction_decided"
    ]


def holds(seen: Seen) -> None:
    """No agent works, the cause is named at the top, and the refused run says whose run it is and under which root."""
    assert seen.row.state in ("failed", "aborted")
    assert len(seen.requests) <= 10
    assert "worker" not in {request.agent for request in seen.requests}
    assert "sub_agent_cap" in seen.said
    refused = [cause["evidence"]["details"] for cause in decided(seen) if cause["mechanism"] == "hop_limit"]
    assert refused
    assert all(one.get("root", one["run"]) == str(seen.row.id) for one in refused)


def holds_at_once(seen: Seen) -> None:
    """So many briefs leave a team too few agents: the plan is refused before any agent below is asked, and the reason says what to do."""
    assert seen.row.state in ("failed", "aborted")
    assert len(seen.requests) <= 10
    assert {request.agent for request in seen.requests} == {"planner"}
    assert "16 of them leave the team of lead0 a single agent" in seen.said, seen.said
    assert "fewer" in seen.said


@pytest.mark.parametrize("wide", [2, 3, 16])
def test_supervisors_that_plan_for_supervisors_are_stopped_within_ten_requests(settings, caplog, wide):
    judged = holds_at_once if wide == 16 else holds
    row = Row(
        lambda n: answer(""), judged, fabric=NESTED, by_request=lambda received: plans_for_the_next(received, wide)
    )
    seen = seen_of(row, settings, caplog)
    judged(seen)
