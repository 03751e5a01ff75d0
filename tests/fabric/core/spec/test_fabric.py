"""A fabric that cannot work is refused when it is read, with the path of the field that says it."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from fabric.core.schema.paths import path_in
from fabric.core.spec.endpoints import list_names
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.breakers import BreakerScope, outage
from fabric.core.spec.price import ModelPrice
from fabric.core.spec.tree import Capability, ModelSpec
from fabric.core.values.cost import Price
from fabric.core.values.taxonomy import Tier
from tests.fabric.core.fabrics import agent, lone, plan, spec, tree


def problems(given) -> str:
    with pytest.raises(ValidationError) as caught:
        FabricSpec.model_validate(given)
    return "; ".join(f"{path_in(given, e['loc'])}: {e['msg']}" for e in caught.value.errors())


def changed(**fields):
    return tree() | fields


def test_a_good_one_survives_json_byte_for_byte():
    fabric = spec(workers=2, gates={"citations": "exist"}, budget={"call_usd_micros": 5})
    again = FabricSpec.model_validate_json(fabric.model_dump_json(by_alias=True))
    assert again == fabric
    assert again.digest() == fabric.digest()


def test_the_revision_is_the_digest_of_the_whole_tree():
    assert spec().digest() == spec().digest()
    assert spec().digest() != spec(tau=0.8).digest()
    assert len(spec().digest()) == 32


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["planner", "aggregator", "critic", "finalizer"])
def test_a_role_for_an_unknown_agent_names_its_field(role):
    assert f"topology.{role}: no agent is named 'nobody'" in problems(tree(topology={role: "nobody"}))


def test_an_unknown_worker_model_and_tool_name_their_fields():
    given = changed(agents=[agent("worker", model="huge", tools=["look", "saw"]), agent("planner")])
    given["topology"] = {"planner": "planner", "workers": ["worker", "ghost"]}
    said = problems(given)
    assert "topology.workers.1: no agent is named 'ghost'" in said
    assert "agents.0.model: no model is named 'huge'" in said
    assert "agents.0.tools: no tool is named 'saw'" in said


def test_a_brief_of_a_fixed_plan_names_a_worker():
    said = problems(tree(roles=(), topology={"plan": plan(2, agent="stranger")}))
    assert "topology.plan.briefs.0.agent: 'stranger' is not one of the workers" in said
    assert "topology.plan.briefs.1.agent: 'stranger' is not one of the workers" in said


@pytest.mark.parametrize("field", ["models", "tools", "agents"])
def test_a_name_that_is_there_twice_is_refused(field):
    given = tree()
    given[field] = [*given[field], given[field][0]]
    name = given[field][0]["name"]
    assert f"{field}.{len(given[field]) - 1}.name: {name!r} is there twice" in problems(given)


@pytest.mark.parametrize("name", ["", "Upper", "9lives", "with space", "ümlaut", "a" * 64, "a/b"])
def test_a_name_is_safe_in_an_address_and_a_file(name):
    assert "name: " in problems(changed(name=name))


def test_lookups_by_name():
    fabric = spec()
    assert (fabric.agent("worker").name, fabric.model("small").name, fabric.tool("look").name) == (
        "worker",
        "small",
        "look",
    )
    for look in (fabric.agent, fabric.model, fabric.tool):
        with pytest.raises(KeyError):
            look("nobody")


# -- plans, roles, answers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topology", [{"plan": plan()}, {"planner": None}])
def test_a_planner_or_a_fixed_plan_and_never_both(topology):
    assert "topology: name a planner or give a fixed plan, one of the two" in problems(tree(topology=topology))


@pytest.mark.parametrize("role", ["planner", "critic"])
def test_who_must_answer_in_json_may_not_answer_in_text(role):
    said = problems(tree(agents={role: {"answers": "text"}}))
    assert f"topology.{role}: {role!r} answers in text, but a {role} must answer in json" in said


@pytest.mark.parametrize("role", ["aggregator", "finalizer", "worker"])
def test_the_others_may(role):
    assert spec(agents={role: {"answers": "text"}}).agent(role).answers == "text"


def test_a_fixed_plan_has_an_exit_criterion():
    assert "topology.plan.exit_criteria" in problems(tree(roles=(), topology={"plan": plan(exit_criteria=[])}))


# -- money -------------------------------------------------------------------------------------------------------------


def priced(**fields) -> ModelPrice:
    return ModelPrice.model_validate({"input_usd_per_mtok": "0.15", "output_usd_per_mtok": "0.60", **fields})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cheap", "'cheap' is not a price; write dollars per million tokens, such as 0.15"),
        ("", "'' is not a price"),
        ("1,5", "'1,5' is not a price"),
        ("-1", "'-1' is not a price between 0 and 100000 dollars per million tokens"),
        ("NaN", "'NaN' is not a price between"),
        ("Infinity", "'Infinity' is not a price between"),
        ("100001", "'100001' is not a price between"),
        (None, "'None' is not a price"),
    ],
)
def test_a_price_that_is_none_says_what_one_looks_like(text, message):
    with pytest.raises(ValidationError, match=message):
        priced(input_usd_per_mtok=text)


@pytest.mark.parametrize(
    ("text", "micros"), [("0", 0), ("0.15", 150_000), (0.6, 600_000), ("0.0000001", 1), (3, 3_000_000)]
)
def test_a_price_is_whole_micro_dollars_rounded_up(text, micros):
    assert priced(input_usd_per_mtok=text).price() == Price(micros, 600_000)


def test_money_has_no_default():
    given = tree()
    given["policy"]["budget"] = {}
    assert "policy.budget.run_usd_micros: Field required" in problems(given)
    del given["policy"]
    assert "policy: Field required" in problems(given)


# -- policy ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "where"),
    [
        ({"limits": {"hops": 0}}, "policy.limits.hops"),
        ({"limits": {"leaps": 1}}, "policy.limits.leaps"),
        ({"tau": 1.1}, "policy.tau"),
        ({"retry": {"factor": 0.5}}, "policy.retry.factor"),
        (
            {"deadlines": {"interactive": {"call_s": 0, "stage_s": 1, "run_s": 1}}},
            "policy.deadlines.interactive.call_s",
        ),
        ({"deadlines": {"sometimes": {"call_s": 1, "stage_s": 1, "run_s": 1}}}, "policy.deadlines.sometimes"),
        ({"budget": {"run_usd_micros": -1}}, "policy.budget.run_usd_micros"),
        ({"surprise": 1}, "policy.surprise"),
    ],
)
def test_a_limit_that_is_none_is_refused_by_its_path(policy, where):
    assert where in problems(tree(**policy))


@pytest.mark.parametrize("fan_in", [{"mode": "quorum"}, {"mode": "all", "k": 2}, {"mode": "best_effort", "k": 1}])
def test_a_quorum_and_only_a_quorum_names_k(fan_in):
    assert "fan_in: give k with mode quorum, and only then" in problems(tree(fan_in=fan_in))


def test_the_default_tier_is_among_the_allowed():
    said = problems(changed(tiers={"default": "batch", "allowed": ["interactive"]}))
    assert "the default batch is not among the allowed ones" in said


def test_a_tiers_deadlines_may_be_set_and_the_others_keep_theirs():
    policy = spec(deadlines={"batch": {"call_s": 1, "stage_s": 2, "run_s": 3}}).policy
    assert policy.deadlines_of(Tier.BATCH).run_s == 3
    assert policy.deadlines_of(Tier.INTERACTIVE).run_s == 300


def test_due_times_are_the_tiers_or_the_fabrics():
    assert [spec().policy.due_s(tier) for tier in Tier] == [300, 86_400, 28_800]
    assert spec(humans={"due_s": 60}).policy.due_s(Tier.BATCH) == 60


def test_a_table_cell_names_rows_and_tiers_that_exist():
    good = {"rungs": [{"reaction": "abort"}]}
    assert "decision_table.bad_luck" in problems(changed(decision_table={"bad_luck": {"batch": good}}))
    assert "decision_table.cost_overrun.nightly" in problems(
        changed(decision_table={"cost_overrun": {"nightly": good}})
    )


def test_everything_published_is_frozen():
    with pytest.raises(ValidationError, match="frozen"):
        spec().policy.limits.hops = 99


# -- fallbacks ---------------------------------------------------------------------------------------------------------


def with_models(*models):
    given = tree()
    return given | {"models": [{**given["models"][0], **model} for model in ({}, *models)]}


def test_a_fallback_that_is_not_there_or_twice_names_its_field():
    given = with_models({"name": "spare", "fallbacks": ["ghost"]}, {"name": "third", "fallbacks": ["spare", "spare"]})
    said = problems(given)
    assert "models.1.fallbacks.0: no model is named 'ghost'" in said
    assert "models.2.fallbacks.1: 'spare' is there twice" in said


def test_fallbacks_that_lead_back_are_told_with_their_way():
    given = with_models(
        {"name": "b", "fallbacks": ["c"]}, {"name": "c", "fallbacks": ["d"]}, {"name": "d", "fallbacks": ["b"]}
    )
    assert "models.1.fallbacks: b -> c -> d -> b leads back to where it began; take one of them out" in problems(given)
    assert "models.1.fallbacks: b -> b leads back" in problems(with_models({"name": "b", "fallbacks": ["b"]}))


def test_an_unknown_capability_is_refused():
    assert "models.0.capabilities.0" in problems(
        with_models() | {"models": [{"name": "m", "capabilities": ["flying"]}]}
    )


def test_what_a_model_can_is_told_in_three_fields():
    assert ModelSpec(name="m").capable == {Capability.TOOL_USE, Capability.STRUCTURED_OUTPUT}
    assert ModelSpec(name="m", tool_calls=False, structured_output=False).capable == set()
    assert ModelSpec(name="m", capabilities=("vision", "reasoning")).capable == set(Capability)


def test_what_is_stored_reads_as_the_revision_that_runs_have_pinned():
    named = FabricSpec.model_validate(
        with_models({"name": "b", "capabilities": ["vision"]}, {"name": "c", "fallbacks": ["b"]})
    )
    again = FabricSpec.model_validate_json(named.model_dump_json(by_alias=True))
    assert (again, again.digest()) == (named, named.digest())
    assert [(model.capabilities, model.fallbacks) for model in again.models[1:]] == [(("vision",), ()), ((), ("b",))]


def test_a_breaker_names_what_is_there_and_each_problem_has_its_path():
    unknown = [
        {"preset": "endpoint", "scope": "agent", "only": ["worker", "ghost"]},
        {"preset": "endpoint", "only": ["x"]},
    ]
    said = problems(tree(breakers=unknown))
    assert "policy.breakers.0.only.1: no agent is called 'ghost'; there are: worker, planner" in said
    assert "policy.breakers.1.only.0: no model of this fabric is asked at 'x'; there are: scripted" in said
    none = problems(tree(tools=(), breakers=[{"preset": "endpoint", "scope": "tool", "only": ["look"]}]))
    assert "no tool is called 'look'; the fabric has no tools" in none


def test_a_breaker_of_providers_names_endpoints_and_two_addresses_are_two():
    models = [{"name": "small", "provider": "scripted", "base_url": url} for url in ("", "https://eu.host:8/v1/")]
    given = tree(breakers=[{"preset": "endpoint", "only": ["scripted", "scripted@eu.host:8/v1"]}])
    given["models"] = [models[0], models[1] | {"name": "eu"}]
    assert FabricSpec.model_validate(given).policy.breakers[0].stands_before("scripted@eu.host:8/v1")
    said = problems(given | {"models": [models[1]]})
    assert "no model of this fabric is asked at 'scripted'; there are: scripted@eu.host:8/v1" in said


def test_a_breaker_of_tools_names_what_goes_out_alone():
    """A run's own memory is its journal; what takes a change back, and asks whether it was made, is stopped by no breaker."""
    memories = [{"name": "own", "scope": "run"}, {"name": "all", "scope": "fabric"}]
    gates = {"oracle": [{"name": "site", "message": "It is down.", "http": {"url": "https://eu.host/health"}}]}
    fabric = FabricSpec.model_validate(tree(gates=gates) | {"memories": memories})
    made = ("memory_write_all", "memory_read_all", "memory_delete_all")
    assert list_names(BreakerScope.TOOL, fabric) == ("look", *made, "oracle:site")


def test_the_names_of_a_breaker_are_part_of_the_digest():
    named = spec(breakers=[{"preset": "endpoint", "only": ["scripted"]}])
    again = FabricSpec.model_validate_json(named.model_dump_json(by_alias=True))
    assert (again, again.digest(), again.policy.breakers[0].only) == (named, named.digest(), ("scripted",))
    assert named.digest() != spec(breakers=[{"preset": "endpoint"}]).digest()


def test_a_revision_that_was_published_without_breakers_has_none_and_a_new_one_has_that_of_outages():
    before = FabricSpec.model_validate_json(FabricSpec.model_validate(tree(breakers=[])).model_dump_json(by_alias=True))
    assert before.policy.breakers == ()
    (unnamed,) = FabricSpec.model_validate(tree()).policy.breakers
    assert unnamed == outage().model_copy(update={"on_open": "model"})


def test_retries_are_shared_unless_a_fabric_says_otherwise():
    own = FabricSpec.model_validate(tree(roles=(), retry={"shared": False}))
    assert not own.policy.retry.shared
    assert FabricSpec.model_validate(tree(roles=())).policy.retry.shared


@pytest.mark.parametrize("field", ["sub_agents_alive", "sub_agents_spawned", "plan_branches"])
@pytest.mark.parametrize("value", [0, -1])
def test_a_cap_on_sub_agents_that_is_not_above_zero_is_refused(field, value):
    said = problems(tree(limits={field: value}))
    assert said == f"policy.limits.{field}: Input should be greater than or equal to 1"


def test_a_copy_knows_nothing_of_what_its_original_worked_out():
    before = lone()
    assert before.tool("look").effect == "read_only"
    looks = before.tool("look").model_copy(update={"effect": "idempotent"})
    after = before.model_copy(update={"tools": (looks,)})
    assert after.tool("look") is looks
    assert before.tool("look").effect == "read_only"
