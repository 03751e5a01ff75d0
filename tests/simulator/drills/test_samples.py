"""Every cell of every sample fabric, by the fabric's own table, gates and limits; and what keeps a fabric from being drilled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fabric.core.events.envelope import from_row
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.services.fabrics.yaml.document import fabric_read
from simulator.scenarios.baseline import work as baseline
from simulator.scenarios.baseline.equipment import MEETS, equip_fabric
from simulator.scenarios.baseline.work import observe_chain
from simulator.scenarios.play.cells import drill, matrix
from simulator.scenarios.promises.digests import CELLS
from simulator.scenarios.strikes.failures import SUSTAINED
from simulator.scenarios.strikes.places import build_places
from tests.simulator.drills.drilled import drilled

SAMPLES = sorted((Path(__file__).parents[3] / "fabric/samples").glob("*.yaml"))


def sample(name: str) -> FabricSpec:
    path = next(one for one in SAMPLES if one.stem == name)
    return fabric_read(path.read_text(), origin=path.name).spec


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_all_24_cells_of_a_sample_do_what_its_table_says(path):
    found = matrix(sample(path.stem))
    assert [(cell.failure, cell.tier) for cell in found] == list(CELLS)
    assert [cell for cell in found if cell.verdict != "pass"] == []
    assert all(cell.expected == cell.observed for cell in found)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("tier", Tier)
def test_undisturbed_a_sample_completes_and_decides_nothing(path, tier):
    before = baseline.drive_undisturbed(baseline.scripted_models(sample(path.stem)), tier, seed=1)
    assert before.why == ""
    assert str(observe_chain(before.world)) == "nothing decided > completed"


LACKS = {
    "contract-check": {"a planner", "a finalizer"},
    "vendor-debate": {"a planner", "an aggregator and a finalizer", "a finalizer"},
    "checked-answer": {"a finalizer"},
    "document-review": {"a finalizer"},
    "incident-triage": {"a planner", "an aggregator", "a finalizer"},
    "research-desk": set(),
    "research-teams": set(),
    "small-model": {"a tool that reads", "a planner", "an aggregator and a finalizer", "a finalizer"},
    "small-model-planned": {"a tool that reads", "an aggregator and a finalizer", "a finalizer"},
    "supplier-notes": {"a tool that reads", "a planner", "an aggregator and a finalizer", "a finalizer"},
    "support-routing": {"a tool that reads", "a planner", "an aggregator", "a finalizer"},
    "trip-desk": {"a tool that reads", "a planner", "an aggregator", "a finalizer"},
}
"""By hand: who meets a failure in none of them."""


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_fabric_is_given_what_it_lacks_for_a_failure_and_the_drill_says_so(path):
    spec = sample(path.stem)
    told = {failure: equip_fabric(spec, failure) for failure in FailureType}
    assert {said for _, said in told.values() if said} == LACKS[path.stem]
    for failure, (given, said) in told.items():
        assert (given == spec) is (said == "")
        assert MEETS[failure](given) == (given, ""), "what it lacked is there"
        assert (given.policy, given.gates, given.decision_table) == (spec.policy, spec.gates, spec.decision_table)
        FabricSpec.model_validate(given.model_dump(mode="json", by_alias=True))


def test_the_drill_names_what_it_put_in():
    assert drill(sample("trip-desk"), FailureType.DEADLOCK, Tier.BATCH).equipped == "a planner"
    assert drill(sample("research-desk"), FailureType.DEADLOCK, Tier.BATCH).equipped == ""


def with_gates(**gates: Any) -> FabricSpec:
    plain = drilled()
    return drilled(gates={**plain.gates.model_dump(mode="json"), **gates})


def test_a_fabric_that_does_not_complete_undisturbed_is_an_error_and_says_what_stood_in_the_way():
    never = {"name": "never", "stage": "finalize", "expression": "false", "message": "Nothing is good enough."}
    cell = drill(with_gates(invariants=[never]), FailureType.PROVIDER, Tier.INTERACTIVE)
    assert (cell.verdict, cell.observed) == ("error", "not drilled")
    assert "Nothing is good enough." in cell.why
    assert cell.why.startswith("undisturbed, with scripted agents, the run does not simply complete")


def test_models_are_answered_by_scripted_agents_whatever_they_are_called_and_told():
    spec = drilled()
    failing = [
        {**model.model_dump(mode="json"), "provider": "openai", "options": {"fail": {"cause": "auth"}}}
        for model in spec.models
    ]
    found = drill(drilled(models=failing), FailureType.PLAN_MALFORMED, Tier.BATCH)
    assert (found.verdict, found.observed) == ("pass", "replan > replan > abort > aborted")


LIMITS = {
    1: "replan > skips replan > abort > aborted",
    2: "replan > replan > abort > aborted",
    3: "replan > replan > abort > aborted",
}
"""Replans of a stage that are allowed, and what becomes of two in the table. By hand."""


@pytest.mark.parametrize("limit", LIMITS)
def test_another_limit_is_another_promise(limit):
    policy = drilled().policy.model_dump(mode="json")
    policy["limits"]["replans_per_stage"] = limit
    cell = drill(drilled(policy=policy), FailureType.PLAN_MALFORMED, Tier.BATCH)
    assert (cell.verdict, cell.expected, cell.observed) == ("pass", LIMITS[limit], LIMITS[limit])


def test_where_all_workers_lead_teams_one_who_does_not_is_put_in():
    spec = sample("research-teams")
    led = spec.topology.model_copy(update={"workers": ("analyst", "auditor", "counsel")})
    given = spec.model_copy(update={"topology": led})
    for failure in (FailureType.TOOL_LOOP, FailureType.NO_PROGRESS):
        cell = drill(given, failure, Tier.INTERACTIVE)
        assert (cell.equipped, cell.verdict) == ("a worker with a tool that reads", "pass")


OF_THE_RUN = (
    FailureType.DEADLOCK,
    FailureType.COST_OVERRUN,
    FailureType.PROVIDER,
    FailureType.SCHEMA_GROUNDING,
    FailureType.PLAN_MALFORMED,
    FailureType.UNSAFE_OUTPUT,
)
"""Failures that a drill's run meets itself, and no child of it."""


def test_children_are_known_by_their_lineage_and_meet_nothing_that_is_the_runs_own():
    spec, asked = sample("research-teams"), []

    def noting(world, ask, serve):
        return lambda request: (asked.append(request), ask(request))[1], serve

    world = baseline.drive(spec, Tier.BATCH, seed=1, disturbed=noting)
    children = {run.id for run in world.watch.runs() if run.family.lineage is not None}
    assert children
    assert {one.run_id for one in asked if one.child} == children
    where = build_places(spec)
    for failure in OF_THE_RUN:
        struck = SUSTAINED[failure].strikes
        assert [one for one in asked if one.child and struck(where, one)] == []
        own = [one for one in asked if not one.child]
        assert [struck(where, replace(one, child=True)) for one in own] == [False] * len(own)
    assert any(SUSTAINED[FailureType.PLAN_MALFORMED].strikes(where, one) for one in asked)


@pytest.mark.parametrize("failure", FailureType)
def test_what_is_struck_is_the_run_itself_where_its_agents_work_in_teams_as_well(failure):
    """The writer and the editor have the same roles in a team: the run's own row is met all the same, and no team's."""
    spec = sample("research-teams")
    team = spec.topology.teams["analyst"]
    within = team.topology.model_copy(update={"aggregator": "editor", "finalizer": "writer", "planner": "head"})
    teams = {**spec.topology.teams, "analyst": team.model_copy(update={"topology": within})}
    given = spec.model_copy(update={"topology": spec.topology.model_copy(update={"teams": teams})})
    assert drill(given, failure, Tier.BATCH).verdict == "pass"


@pytest.mark.parametrize("tier", Tier)
def test_a_fabric_whose_rules_ask_about_each_reading_is_drilled_all_the_same(tier):
    """A person who is asked before a call of everyday lets it pass, also where they reject what failed."""
    tree = sample("document-review").model_dump(mode="json", by_alias=True)
    for tool in tree["tools"]:
        tool["approve_when"] = "size(args) >= 0"
    ruled = baseline.scripted_models(FabricSpec.model_validate(tree))
    before = baseline.drive_undisturbed(ruled, tier, seed=1)
    assert before.why == ""
    assert any(fact.item == "pre_action" for fact in _opened(before.world))
    assert drill(ruled, FailureType.TOOL_LOOP, tier).verdict == "pass"


def _opened(world: Any) -> list[Any]:
    rows = (row for run_id in world.store.run_ids() for row in world.store.rows(run_id))
    return [from_row(row.seq, row.kind, row.version, row.header).fact for row in rows if row.kind == "review_opened"]


def test_a_fabric_whose_agents_plan_their_calls_is_drilled():
    plain = drilled()
    agents = [
        {**agent.model_dump(mode="json"), **({"calls": "planned"} if agent.tools else {})} for agent in plain.agents
    ]
    assert any("calls" in agent for agent in agents)
    assert [cell for cell in matrix(drilled(agents=agents)) if cell.verdict != "pass"] == []
