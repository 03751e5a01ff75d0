"""A fabric must have certain parts before it is published: each rule broken once, each said with its path and its remedy."""

from typing import Any

import pytest

from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.decision_table import DEFAULT_TABLE
from fabric.core.values.taxonomy import Tier
from fabric.core.workspace_policy.policy import WorkspacePolicy
from fabric.http.transport import Gate
from fabric.services.fabrics.publication.rules import RULES, deviations, publication_problems, publication_warnings
from fabric.services.fabrics.yaml.document import fabric_read
from fabric.services.installation.facts import InstallationFacts
from tests.fabric.services.world import DOUBTFUL, SMALL


def small(**changes: Any) -> FabricSpec:
    """The small fabric with whole fields replaced."""
    tree = fabric_read(SMALL).spec.model_dump(mode="json", by_alias=True)
    return FabricSpec.model_validate(tree | changes)


def model(**changes: Any) -> dict[str, Any]:
    return {
        "name": "script",
        "provider": "scripted",
        "price": {"input_usd_per_mtok": "1", "output_usd_per_mtok": "1"},
    } | changes


def tool(**changes: Any) -> dict[str, Any]:
    return {"name": "read_document"} | changes


def policy(**changes: Any) -> dict[str, Any]:
    return {"budget": {"run_usd_micros": 1_000_000}} | changes


def plan(briefs: int) -> dict[str, Any]:
    briefs_ = [{"agent": "reader", "instructions": "Read."}] * briefs
    return {"workers": ["reader"], "plan": {"briefs": briefs_, "exit_criteria": ["Done."]}}


def cell(failure: str, tier: str, *rungs: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {failure: {tier: {"rungs": rungs, **more}}}


def told(spec: FabricSpec, installation: InstallationFacts | None = None) -> list[tuple[str, str]]:
    return [(problem.path, problem.sentence) for problem in publication_problems(spec, installation)]


@pytest.mark.parametrize(
    ("group", "path", "sentence"),
    [
        ({"rules": ["creds"]}, "gates.guardrails.0.rules.0", "no guardrail is named 'creds'; there are: credentials, "),
        (
            {"patterns": [{"name": "own", "pattern": "(?=x)"}]},
            "gates.guardrails.0.patterns.0.pattern",
            "pattern 'own' is no RE2 pattern: ",
        ),
    ],
)
def test_guardrails_that_do_not_compile_are_named(group, path, sentence):
    ((where, said),) = told(small(gates={"guardrails": [group]}))
    assert where == path
    assert said.startswith(sentence)


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        ("size(payload.text", "invariant 'own' does not compile: Failed to parse expression"),
        ("payloads.text == ''", "invariant 'own' names 'payloads'; there are: payload, run, stage"),
        (
            "lengthOf(payload.text) > 3",
            "invariant 'own' calls 'lengthOf', which there is not; there are: size, contains, ",
        ),
        ("payload.text.trim() != ''", "invariant 'own' calls 'trim', which there is not; there are: size, contains, "),
        (
            "run.tire == 'batch'",
            "invariant 'own' names run.tire, which there is not; there are: id, tier, epoch, depth, ",
        ),
    ],
)
def test_an_invariant_that_does_not_compile_is_named(expression, sentence):
    one = {"stage": "finalize", "name": "own", "expression": expression, "message": "No."}
    ((where, said),) = told(small(gates={"invariants": [one]}))
    assert where == "gates.invariants.0.expression"
    assert said.startswith(sentence)


def test_a_check_of_the_oracle_that_does_not_compile_is_named():
    one = {"name": "own", "expression": "payload.text != ''", "message": "No."}
    assert told(small(gates={"oracle": [one]})) == [
        ("gates.oracle.0.expression", "check 'own' names 'payload'; there are: outcome, exit_criteria, run")
    ]
    right = one | {"expression": "outcome.text != ''"}
    assert told(small(gates={"oracle": [right, right]})) == [
        ("gates.oracle.1.name", "'own' is there twice; name them apart")
    ]


def test_an_invariants_name_stands_once_in_a_stage():
    one = {"stage": "finalize", "name": "own", "expression": "true", "message": "No."}
    assert [path for path, _ in told(small(gates={"invariants": [one, one]}))] == ["gates.invariants.1.name"]
    assert told(small(gates={"invariants": [one, one | {"stage": "fan_in"}]})) == []


def test_a_policy_that_does_not_parse_is_told_with_line_and_field():
    policies = [{"name": "all", "text": "permit(principal, action, resource);"}]
    policies.append({"name": "own", "text": "forbid(principal,\n  action resource);"})
    ((where, said),) = told(small(gates={"policies": policies}))
    assert where == "gates.policies.1.text"
    assert said == "policy 'own' does not parse, line 2: unexpected token 'resource'"


@pytest.mark.parametrize(
    ("roles", "refused"),
    [
        ({"critic": "reader"}, "is one of the workers, whose summaries the engine joins"),
        ({"critic": "planner", "aggregator": "planner"}, "is the aggregator"),
        ({"critic": "planner"}, ""),
        ({"critic": "reader", "aggregator": "planner"}, ""),
    ],
)
def test_a_critic_never_scores_what_it_wrote_itself(roles, refused):
    found = [said for where, said in told(small(topology=plan(1) | roles)) if where == "topology.critic"]
    assert len(found) == bool(refused)
    assert all(refused in said for said in found)


def test_a_good_fabric_has_no_problem_and_no_warning():
    assert told(small()) == []
    assert publication_warnings(small()) == []
    assert deviations(small()) == []


BROKEN: dict[str, tuple[dict[str, Any], str, str]] = {
    "prices": ({"models": [model(price=None)]}, "models.0.price", "no price is known for 'script'"),
    "caps": ({"policy": {"budget": {"run_usd_micros": 0}}}, "policy.budget.run_usd_micros", "give a cap in micro-dollars"),
    "endpoints": ({"models": [model(base_url="http://10.0.0.1/v1")]}, "models.0.base_url", "FABRIC_ALLOWED_HOSTS"),
    "ways_back": (
        {"tools": [tool(), {"name": "send", "kind": "http", "target": "https://example.org/", "effect": "mutating", "description": "Sends.", "parameters": {"type": "object"}}]},
        "tools.1.compensation",
        "is mutating; name the tool that undoes it, or declare it irreversible",
    ),
    "not_below_list": (
        {
            "models": [
                model(provider="openai", model="gpt-4o", price={"input_usd_per_mtok": "0", "output_usd_per_mtok": "0"})
            ]
        },
        "models.0.price",
        "input_usd_per_mtok of model 'script' is below the $2.50 of the price list; leave price out, or have the operator name",
    ),
    "sendable_options": (
        {"models": [model(provider="openai", model="gpt-4o", price=None, options={"extra_body": {"n": 50}})]},
        "models.0",
        "options.extra_body.n is not sent: it may change what a call costs, says or asks; leave it out, or have the operator",
    ),
    "priced_errands": (
        {"tools": [
            tool(),
            {"name": "send", "kind": "http", "target": "https://example.org/", "effect": "mutating", "compensation": "unsend", "description": "Sends.", "parameters": {"type": "object"}},
            {"name": "unsend", "kind": "http", "target": "https://example.org/undo", "effect": "idempotent", "usd_per_call": "0.01", "description": "Undoes.", "parameters": {"type": "object"}},
        ]},
        "tools.2.usd_per_call",
        "tool 'unsend' undoes 'send', which no budget can stop; leave its price out",
    ),
    "_tools": ({"tools": [tool(target="read_minds")]}, "tools.0", "there is no built-in 'read_minds'"),
    "named_functions": (
        {"tools": [tool(), {"name": "x", "kind": "callable", "target": "os.system", "description": "Acts.", "parameters": {"type": "object"}}]},
        "tools.1.target",
        "'os.system' is no tool that the operator names here",
    ),
    "mcp_servers": ({"mcp_servers": [{"name": "files", "transport": "stdio", "command": "rm"}]}, "mcp_servers.0", "the command 'rm' is not allowed"),
    "memory_values": (
        {"memories": [{"name": "notes", "scope": "run", "value_schema": {"type": "nothing"}}]},
        "memories.0.value_schema",
        "memory 'notes': the schema does not compile",
    ),
    "_tool_users": ({"models": [model(tool_calls=False)]}, "agents.1.tools", "takes no tool calls"),
    "_fallback_models": (
        {"models": [model(fallbacks=["words"]), model(name="words", tool_calls=False)]},
        "models.0.fallbacks.0",
        "model 'words' is a fallback of agent 'reader', but lacks tool_use",
    ),
    "_find_open_problems": (
        {"policy": policy(breakers=[{"preset": "endpoint", "on_open": "model"}])},
        "policy.breakers.0.on_open",
        "no model of the fabric names fallbacks",
    ),
    "_breakers": ({"policy": policy(breakers=[{"preset": "endpoint", "scope": "fabric"}] * 2)}, "policy.breakers.1", "equals policy.breakers.0 in front of the fabric; take one of the two out"),
    "_judges": ({"topology": plan(1) | {"critic": "reader"}}, "topology.critic", "name another agent"),
    "unsound_graphs": ({"topology": {"kind": "graph", "workers": ["planner", "reader"], "initial_speaker": "nobody"}}, "topology.initial_speaker", "no participant is named 'nobody'; there are: planner, reader"),
    "typed_outputs": ({"agents": [{"name": "planner", "model": "script", "instructions": "Plan."}, {"name": "reader", "model": "script", "instructions": "Read.", "output_schema": {}, "answers": "text"}]}, "agents.1.output_schema", "answers in text, which have no data"),
    "planned_calls": ({"agents": [{"name": "planner", "model": "script", "instructions": "Plan."}, {"name": "reader", "model": "script", "instructions": "Read.", "calls": "planned"}]}, "agents.1.calls", "has no tools to plan calls of"),
    "find_team_problems": ({"topology": {"kind": "hierarchical", **plan(1), "teams": {"reader": {"topology": {"workers": ["planner"], "planner": "planner", "critic": "planner"}}}}}, "topology.teams.reader.topology.critic", "is one of the workers, whose summaries the engine joins"),
    "_gates": ({"gates": {"guardrails": [{}]}}, "gates.guardrails.0", "looks for nothing; name rules (credentials, "),
    "branches": ({"topology": plan(17)}, "topology.plan.briefs", "17 briefs, more than policy.limits.plan_branches (16)"),
    "_detectors": ({"policy": policy(loop_detector={"identical_threshold": 6})}, "policy.loop_detector.identical_threshold", "switch the detector off"),
    "quorum": ({"policy": policy(fan_in={"mode": "quorum", "k": 17})}, "policy.fan_in.k", "a quorum of 17 can never be met, policy.limits.plan_branches allows 16 briefs"),
    "_reminders": ({"policy": policy(humans={"reminder_at": 0.8})}, "policy.humans.reminder_at", "0.8 is not before onward_at (0.75)"),
    "_deadlines": ({"policy": policy(deadlines={"batch": {"call_s": 5, "stage_s": 60, "run_s": 30}})}, "policy.deadlines.batch.stage_s", "60 s is longer than run_s (30 s)"),
    "_silence": ({"policy": policy(deadlines={"batch": {"call_s": 40, "stage_s": 60, "run_s": 90}})}, "policy.deadlines.batch.call_s", "30 s without an event are taken for a stall"),
    "_tokens": ({"policy": policy(budget={"run_usd_micros": 1_000_000, "agent_tokens": 100})}, "policy.budget.agent_tokens", "no call of it fits into 100"),
    "find_idle_limits": ({"policy": policy(stages={"plan": {"deadlines": {"batch": {"stage_s": 90_000}}}})}, "policy.stages.plan.deadlines.batch.stage_s", "90000 s is longer than run_s (86400 s)"),
    "_replans": ({"policy": policy(limits={"replans_per_stage": 3})}, "policy.limits.replans_per_stage", "at most 2 are allowed"),
    "_retries": ({"policy": policy(retry={"shared": False})}, "policy.retry.shared", "give `retry` a `deviation`"),
    "_people": ({"reviewers": []}, "reviewers", "name users or roles who answer"),
    "_fallbacks": (
        {"safe_fallback": None, "decision_table": cell("cost_overrun", "interactive", {"reaction": "safe_fallback"})},
        "decision_table.cost_overrun.interactive",
        "the fabric has no static answer; give it one in safe_fallback, or let the cell say surface",
    ),
    "_deviations": (
        {"decision_table": cell("provider_failure", "high_stakes", {"reaction": "surface"})},
        "decision_table.provider_failure.high_stakes",
        "give the cell a `deviation` with the reason",
    ),
    "find_policy_problems": ({"tools": [tool(), {"name": "pay", "kind": "http", "target": "https://pay.example.com/charge", "description": "Pays.", "parameters": {"type": "object"}}]}, "tools.1.target", "is not among the tools that the workspace's policy allows"),
}  # fmt: skip
POLICED = InstallationFacts(Gate(), policy=WorkspacePolicy.model_validate({"tools": ["http:crm.example.com/*"]}))


@pytest.mark.parametrize("rule", [rule.__name__ for rule in RULES])
def test_each_rule_finds_what_it_is_for(rule):
    changes, path, sentence = BROKEN[rule]
    found = told(small(**changes), POLICED if rule == "find_policy_problems" else None)
    assert [one for one in found if one[0] == path and sentence in one[1]], found


def test_a_price_of_nothing_has_to_be_written_and_is_then_enough():
    free = {"input_usd_per_mtok": 0, "output_usd_per_mtok": 0}
    assert told(small(models=[model(price=free)], policy={"budget": {"run_usd_micros": 0}})) == []


def test_a_model_of_the_price_list_needs_no_price_of_its_own():
    assert told(small(models=[model(provider="openai", model="gpt-4o-mini", price=None)])) == []


def test_a_model_that_is_left_open_is_priced_as_the_installations():
    left_open = small(models=[model(provider="openai", price=None)])
    assert told(left_open, InstallationFacts(Gate(), default_model="gpt-4o-mini")) == []
    private = InstallationFacts(Gate(), default_model="gpt-4o-mini", default_url="http://127.0.0.1:9/v1")
    assert [path for path, _ in told(left_open, private)] == ["models.0.price"]


def test_a_host_that_the_operator_trusts_may_be_private():
    spec = small(models=[model(base_url="http://127.0.0.1:8081/v1")])
    assert told(spec, InstallationFacts(Gate.trust_hosts(["127.0.0.1:8081"]))) == []


def test_a_provider_that_does_not_exist_is_found_where_they_are_known():
    known = InstallationFacts(Gate(), providers=frozenset({"openai", "scripted"}))
    assert told(small(), known) == []
    ((path, sentence),) = told(small(models=[model(provider="oracle")]), known)
    assert path == "models.0.provider"
    assert "there are: openai, scripted" in sentence


def test_no_reviewer_is_needed_for_what_never_asks():
    alone = {"tiers": {"default": "interactive", "allowed": ["interactive"]}, "reviewers": []}
    assert [path for path, _ in told(small(**alone))] == ["reviewers"], "a loop that may be a poll goes to a person"
    silent = cell("infinite_tool_loop", "interactive", {"reaction": "terminate"})
    assert told(small(**alone, decision_table=silent)) == []
    asks = silent | cell("cost_overrun", "interactive", {"reaction": "escalate"})
    assert [path for path, _ in told(small(**alone, decision_table=asks))] == ["reviewers"]
    ruled = [tool(approve_when="size(args.name) > 5")]
    ((path, said),) = told(small(**alone, decision_table=silent, tools=ruled))
    assert path == "reviewers"
    assert "is empty, but a call that the rule of read_document asks about goes to a person" in said


def test_a_critic_asks_a_person_in_every_tier():
    tree = fabric_read(DOUBTFUL).spec.model_dump(mode="json", by_alias=True)
    tree |= {"tiers": {"default": "interactive", "allowed": ["interactive"]}, "reviewers": []}
    tree["decision_table"] = cell("infinite_tool_loop", "interactive", {"reaction": "terminate"})
    ((path, sentence),) = told(FabricSpec.model_validate(tree))
    assert path == "reviewers"
    assert "a critic's score below the needed score" in sentence


LAX = [
    ("plan_malformed", "batch", [{"reaction": "replan", "times": 3}, {"reaction": "abort"}], "replans 3 times"),
    ("plan_malformed", "batch", [{"reaction": "replan", "times": 2}, {"reaction": "replan", "times": 1}, {"reaction": "abort"}], "replans 3 times"),
    ("unsafe_output", "interactive", [{"reaction": "surface"}], "must block"),
    ("unsafe_output", "batch", [{"reaction": "inject", "times": 1}, {"reaction": "halt", "with": ["block"]}], "must block"),
    ("provider_failure", "high_stakes", [{"reaction": "fallback_model", "times": 1}, {"reaction": "escalate"}], "fallback_model"),
    ("cost_overrun", "high_stakes", [{"reaction": "cheaper_model", "times": 1}, {"reaction": "escalate"}], "cheaper_model"),
    ("infinite_tool_loop", "high_stakes", [{"reaction": "inject", "times": 1}, {"reaction": "escalate"}], "inject"),
    ("provider_failure", "high_stakes", [{"reaction": "retry", "times": 3}, {"reaction": "escalate"}], "at most 2"),
    ("plan_malformed", "high_stakes", [{"reaction": "replan", "times": 1}, {"reaction": "abort", "with": ["follow_up"]}], "replans without a review"),
    ("semantic_no_progress", "high_stakes", [{"reaction": "terminate"}], "high-stakes ends with"),
    ("sub_agent_deadlock", "high_stakes", [{"reaction": "abort"}], "must go to a person"),
]  # fmt: skip


@pytest.mark.parametrize(("failure", "tier", "rungs", "what"), LAX)
def test_a_cell_that_is_too_lax_needs_a_reason_and_is_listed_with_it(failure, tier, rungs, what):
    path = f"decision_table.{failure}.{tier}"
    ((found, sentence),) = told(small(decision_table=cell(failure, tier, *rungs)))
    assert found == path
    assert what in sentence
    excused = small(decision_table=cell(failure, tier, *rungs, deviation="Agreed with the customer."))
    assert told(excused) == []
    (deviation,) = deviations(excused)
    assert (deviation.path, deviation.reason) == (path, "Agreed with the customer.")
    assert what in deviation.what


def test_the_default_table_is_nowhere_too_lax():
    table: dict[str, dict[str, Any]] = {}
    for (failure, tier), ladder in DEFAULT_TABLE.items():
        table.setdefault(failure, {})[tier] = ladder.model_dump(mode="json", by_alias=True)
    assert deviations(small(decision_table=table)) == []


def test_a_stricter_cell_is_no_deviation():
    strict = cell("provider_failure", "high_stakes", {"reaction": "abort"})
    assert deviations(small(decision_table=strict)) == []


def test_more_replans_may_be_agreed_upon():
    many = cell(
        "plan_malformed", "batch", {"reaction": "replan", "times": 3}, {"reaction": "abort"}, deviation="It pays."
    )
    assert told(small(decision_table=many, policy=policy(limits={"replans_per_stage": 3}))) == []


def test_a_model_that_another_names_as_cheaper_is_used():
    spec = small(
        models=[model(cheaper="less"), model(name="less", fallbacks=["last"]), model(name="last"), model(name="idle")]
    )
    assert [one.sentence for one in publication_warnings(spec)] == ["model 'idle' is used nowhere"]


def test_a_model_that_only_stands_in_for_another_is_used():
    spec = small(models=[model(fallbacks=["spare"]), model(name="spare", fallbacks=["last"]), model(name="last")])
    assert publication_warnings(spec) == []


@pytest.mark.parametrize("provider", ["anthropic", "google"])
def test_a_provider_without_a_model_of_the_installation_s_wants_its_id(provider):
    unnamed = small(models=[model(provider=provider)])
    sentence = f"is empty, and provider {provider!r} has no model of the installation's; give its id"
    assert told(unnamed, InstallationFacts(Gate(), default_model="gpt-4o-mini")) == [("models.0.model", sentence)]
    assert told(small(models=[model(provider=provider, model="some-model")])) == []


def test_a_vendor_s_model_behind_a_gateway_wants_a_price():
    spec = small(models=[model(provider="anthropic", model="claude-opus-4-8", price=None)])
    vendor = InstallationFacts(Gate(), urls={"anthropic": "https://api.anthropic.com"})
    assert told(spec, vendor) == []
    ((path, sentence),) = told(spec, InstallationFacts(Gate(), urls={"anthropic": "https://gateway.example.org"}))
    assert path == "models.0.price"
    assert "no price is known for 'claude-opus-4-8'" in sentence


def test_a_deployment_without_a_known_price_is_told_how_its_price_is_found():
    def sentence(**options):
        spec = small(models=[model(provider="azure", model="sales-bot", price=None, options=options)])
        return told(spec)

    ((path, said),) = sentence()
    assert path == "models.0.price"
    assert said.endswith("or name the model behind it in options.priced_as")
    ((_, named),) = sentence(priced_as="no-such")
    assert "'sales-bot', priced as 'no-such'" in named
    assert named.endswith("(0 where it costs nothing)"), "it is named already"
    assert sentence(priced_as="gpt-4o") == []


def test_what_is_used_nowhere_is_warned_about():
    tree = fabric_read(SMALL).spec.model_dump(mode="json", by_alias=True)
    tree["agents"].append({"name": "idler", "model": "spare", "instructions": "Wait.", "tools": ["calculator"]})
    tree["models"].append(model(name="spare"))
    tree["tools"].append({"name": "calculator"})
    tree["tiers"] = {"default": "batch", "allowed": ["batch"]}
    tree["policy"]["deadlines"] = {Tier.INTERACTIVE: {"call_s": 1, "stage_s": 2, "run_s": 3}}
    spec = FabricSpec.model_validate(tree)
    assert [(one.path, one.sentence) for one in publication_warnings(spec)] == [
        ("agents.2", "agent 'idler' is used nowhere"),
        ("models.1", "model 'spare' is used nowhere"),
        ("tools.1", "tool 'calculator' is used nowhere"),
        ("policy.deadlines.interactive", "no run can pick tier interactive"),
    ]
    assert told(spec) == []
