"""Lint: what never holds, is never reached, never ends or leads in a circle, each told with its path and its line."""

import pytest

from fabric.core.people.actor import Actor
from fabric.policies.gates import gate_evaluators
from fabric.services.errors import Refused
from fabric.services.fabrics.checks import fabric_lint
from fabric.services.fabrics.yaml.document import fabric_read
from tests.fabric.services.world import SAMPLE_NAMES, SMALL, TYPED, sample

FIXED = SMALL.replace(
    "  planner: planner\n  workers: [reader]\n",
    """\
  plan:
    briefs: [{agent: reader, instructions: Read it.}]
    exit_criteria: [It was read.]
  workers:
    - reader
    - planner
""",
)
"""Its planner is a worker to whom its fixed plan gives nothing."""


def gates(text):
    return SMALL.replace("policy:\n", f"gates:\n{text}policy:\n")


def models(*each):
    told = "".join(
        f"  - {{name: {name}, provider: scripted, price: {{input_usd_per_mtok: 1, output_usd_per_mtok: 2}}, fallbacks: [{to}]}}\n"
        for name, to in each
    )
    return SMALL.replace("models:\n", f"models:\n{told}")


def held(schema, name="reader"):
    """An agent of the small fabric with that schema, as its last line."""
    last = {"planner": "instructions: Plan.\n", "reader": "tools: [read_document]\n"}[name]
    return SMALL.replace(last, f"{last}    output_schema: {schema}\n")


def looping(innermost, levels, n=0):
    """An invariant that goes through a list within a list."""
    within = "payload.citations.all(a, " * levels + innermost + ")" * levels
    return f"{{stage: finalize, name: own{n}, message: 'No.', expression: '{within}'}}"


LONG = f"[{','.join(['1'] * 200)}]"
PERMIT = "  policies:\n    - name: one\n      text: permit(principal, action, resource);\n"
ERRORS = {
    "an invariant that is never true": (
        gates(
            "  invariants:\n    - stage: finalize\n      name: own\n      expression: payload.text != '' && 1 > 2\n      message: No.\n"
        ),
        (25, "gates.invariants.0.expression", "invariant 'own' is always false"),
    ),
    "a check of the oracle that is never true": (
        gates("  oracle:\n    - name: own\n      message: No.\n      expression: 'false'\n"),
        (25, "gates.oracle.0.expression", "check 'own' is always false"),
    ),
    "loops within loops within loops": (
        gates(f"  invariants: [{looping('payload.text == a', 3)}]\n"),
        (
            22,
            "gates.invariants.0.expression",
            "invariant 'own0' goes through lists within each other 3 deep; at most 2",
        ),
    ),
    "a check of the oracle over lists of its own that are long": (
        gates(f"  oracle: [{{name: own, message: 'No.', expression: '{LONG}.all(a, {LONG}.all(b, a == b))'}}]\n"),
        (22, "gates.oracle.0.expression", "check 'own' may go through its own lists 40,000 times; at most 10,000"),
    ),
    "eleven conditions of one stage that go through lists": (
        gates(f"  invariants: [{', '.join(looping('true', 1, n) for n in range(11))}]\n"),
        (22, "gates.invariants.10.expression", "invariant 'own10' is one too many of those that go through lists"),
    ),
    "policies that permit nothing": (
        gates(PERMIT.replace("permit", "forbid", 1)),
        (22, "gates.policies", "permit nothing, so that every action would be denied"),
    ),
    "a policy about an agent that there is not": (
        gates(PERMIT.replace("(principal", '(principal == Agent::"raeder"')),
        (
            24,
            "gates.policies.0.text",
            "policy 'one' names Agent::\"raeder\", which there is not; there are: planner, reader",
        ),
    ),
    "a policy about a tool that there is not": (
        gates(PERMIT.replace("resource)", 'resource == Tool::"pay")')),
        (24, "gates.policies.0.text", "policy 'one' names Tool::\"pay\", which there is not"),
    ),
    "a policy about a stage that there is not": (
        gates(PERMIT.replace("resource)", 'resource == Stage::"dream")')),
        (24, "gates.policies.0.text", "policy 'one' names Stage::\"dream\", which there is not"),
    ),
    "a schema of data that does not compile": (
        held("{type: nothing}"),
        (18, "agents.1.output_schema", "agent 'reader': the schema does not compile: "),
    ),
    "a schema of data that refers elsewhere": (
        held("{$ref: 'https://schemas.example/total'}"),
        (18, "agents.1.output_schema", "agent 'reader' refers ($ref) to another schema; write it out in its place"),
    ),
    "data of a planner": (
        held("{type: object}", "planner"),
        (14, "agents.0.output_schema", "agent 'planner' plans, and its answer is a plan; leave the schema out, or "),
    ),
    "data of a critic": (
        TYPED.replace("finalizer: writer", "critic: writer"),
        (21, "agents.2.output_schema", "agent 'writer' is the critic, and its answer is a score; leave the schema out"),
    ),
    "data of who takes over": (
        TYPED.replace("finalizer: writer", "handover: writer"),
        (21, "agents.2.output_schema", "agent 'writer' may plan where the run is handed over, and for whom it takes"),
    ),
    "data of who judges for a gate": (
        TYPED.replace("finalizer: writer", "planner: planner").replace("  planner: planner\n", "", 1)
        + "gates: {grounding: numbers, grounding_critic: writer}\n",
        (21, "agents.2.output_schema", "agent 'writer' judges for a gate, and its answer is a verdict; leave the"),
    ),
    "data in plain words": (
        TYPED.replace("    instructions: Write.\n", "    instructions: Write.\n    answers: text\n"),
        (22, "agents.2.output_schema", "agent 'writer' answers in text, which have no data; let it answer in "),
    ),
    "calls planned in plain words": (
        SMALL.replace("tools: [read_document]\n", "tools: [read_document]\n    answers: text\n    calls: planned\n"),
        (19, "agents.1.calls", "agent 'reader' answers in text, and a plan is JSON; let it answer in json"),
    ),
    "calls planned without tools": (
        SMALL.replace("instructions: Plan.\n", "instructions: Plan.\n    calls: planned\n"),
        (14, "agents.0.calls", "agent 'planner' has no tools to plan calls of; give it some, or leave this out"),
    ),
    "models that stand in for each other": (
        models(("one", "two"), ("two", "one")),
        (5, "models.0.fallbacks", "one -> two -> one leads back to where it began"),
    ),
    "a cell without an end": (
        SMALL + "decision_table:\n  provider_failure:\n    batch:\n      rungs: [{reaction: retry, times: 2}]\n",
        (
            27,
            "decision_table.provider_failure.batch",
            "the last rung must be unbounded, so that the ladder always ends",
        ),
    ),
    "a cell that ends with what ends nothing": (
        SMALL + "decision_table:\n  provider_failure:\n    batch:\n      rungs: [{reaction: retry}]\n",
        (27, "decision_table.provider_failure.batch", "retry does not end anything, so it cannot be the last rung"),
    ),
}
WARNINGS = {
    "a worker without input": (
        FIXED,
        (24, "topology.workers.1", "no brief of the fixed plan is for 'planner', so it never works"),
    ),
    "data of workers that is not shown": (
        held("{type: object}"),
        (
            18,
            "agents.1.output_schema",
            "agent 'reader' is a worker, and without an aggregator no agent reads the workers' data; name an aggregator",
        ),
    ),
    "data that the finalizer leaves out": (
        TYPED.replace("  finalizer: writer\n", "  aggregator: writer\n  finalizer: last\n").replace(
            "topology:\n", "  - {name: last, model: script, instructions: Word it.}\ntopology:\n"
        ),
        (
            21,
            "agents.2.output_schema",
            "agent 'writer' is the aggregator, whose outcome finalizer 'last' words without data; give it an output_schema too",
        ),
    ),
    "an agent in no role": (
        SMALL.replace("topology:", "  - name: idle\n    model: script\n    instructions: Wait.\ntopology:"),
        (18, "agents.2", "agent 'idle' is used nowhere"),
    ),
}


PERSONAS = SMALL.replace("  - name: reader\n", "  - name: reader\n    persona: {PERSONA}\n")
assert PERSONAS != SMALL
BARRED = {
    "a tool that its agent can never call": (
        "denied_capabilities: ['tool:*']",
        [("agents.1.tools.0", "agent 'reader' can never call 'read_document': it needs tool:read_document, which its persona denies")],
    ),
    "a tool that is not among what its agent may use": (
        "allowed_capabilities: ['files:read']",
        [
            ("agents.1.tools.0", "agent 'reader' can never call 'read_document': it needs tool:read_document, which its persona does not allow"),
            ("agents.1.persona.allowed_capabilities.0", "no tool of this fabric needs 'files:read'"),
        ],
    ),
    "a capability that no tool needs": (
        "denied_capabilities: ['database:write', 'files:*']",
        [
            ("agents.1.persona.denied_capabilities.0", "no tool of this fabric needs 'database:write'"),
            ("agents.1.persona.denied_capabilities.1", "no tool of this fabric needs 'files:*'"),
        ],
    ),
}  # fmt: skip


def placed(found):
    return [(one.line, one.path, one.sentence) for one in found]


@pytest.mark.parametrize("what", ERRORS)
def test_what_keeps_a_fabric_from_being_published(actor, what):
    source, (line, path, sentence) = ERRORS[what]
    found = fabric_lint(actor=actor, source=source, origin="f.yaml")
    ((at, where, said),) = placed(found.problems)
    assert (at, where, said[: len(sentence)]) == (line, path, sentence)
    assert not found.publishable
    assert str(found.problems[0]).startswith(f"f.yaml, line {line}, column ")


@pytest.mark.parametrize("what", WARNINGS)
def test_what_its_author_probably_did_not_mean(actor, what):
    source, told = WARNINGS[what]
    found = fabric_lint(actor=actor, source=source)
    assert placed(found.warnings) == [told]
    assert found.publishable, found.problems


@pytest.mark.parametrize("what", BARRED)
def test_a_persona_that_bars_a_tool_and_one_about_nothing(actor, what):
    persona, told = BARRED[what]
    source = PERSONAS.replace("PERSONA", persona)
    found = fabric_lint(actor=actor, source=source)
    assert [(one.path, one.sentence) for one in found.warnings] == told
    lines = source.splitlines()
    for one in found.warnings:
        assert ("persona: {" if "persona" in one.path else "tools:") in lines[one.line - 1]
    assert found.publishable, found.problems


def test_an_agent_whose_persona_bars_all_of_several_tools_is_told_once_of_that(actor):
    source = PERSONAS.replace("PERSONA", "denied_capabilities: ['tool:*']")
    source = source.replace("tools: [read_document]", "tools: [read_document, search_documents]")
    source = source.replace("  - name: read_document\n", "  - name: read_document\n  - name: search_documents\n")
    first, *others = placed(fabric_lint(actor=actor, source=source).warnings)
    assert first[1:] == ("agents.1.persona", "agent 'reader' may call none of its 2 tools: its persona bars them all")
    assert [one[1] for one in others] == ["agents.1.tools.0", "agents.1.tools.1"]


@pytest.mark.parametrize(
    ("persona", "path", "said"),
    [
        ("denied_capabilities: [database]", "agents.1.persona.denied_capabilities.0", "'database' is no capability; write lower-case words"),
        ("allowed_capabilities: []", "agents.1.persona.allowed_capabilities", "is empty; give at least one"),
        ("", "agents.1.persona", "says nothing: give allowed_capabilities or denied_capabilities"),
    ],
)  # fmt: skip
def test_a_persona_that_is_written_wrongly_is_told_where(actor, persona, path, said):
    source = PERSONAS.replace("PERSONA", persona)
    ((at, where, sentence),) = placed(fabric_lint(actor=actor, source=source).problems)
    assert (where, sentence[: len(said)]) == (path, said)
    assert "persona" in source.splitlines()[at - 1]


def test_what_loops_is_not_decided(actor):
    loops = "[0, 1, 2].exists(a, [0, 1, 2].exists(b, false))"
    one = f'  invariants: [{{stage: finalize, name: own, expression: "{loops}", message: No.}}]\n'
    assert fabric_lint(actor=actor, source=gates(one)).publishable


@pytest.mark.parametrize(
    "expression", ["payload.text == ''", "run.tier == 'batch' ? false : false", "true", "payload.text == '' || 1 > 2"]
)
def test_what_may_hold_is_no_problem(actor, expression):
    one = f'  invariants: [{{stage: finalize, name: own, expression: "{expression}", message: No.}}]\n'
    assert fabric_lint(actor=actor, source=gates(one)).publishable


def test_what_was_published_before_goes_on_running():
    assert gate_evaluators(fabric_read(ERRORS["an invariant that is never true"][0]).spec).digest


def test_who_stands_above_may_plan_anew(actor):
    above = "  - name: boss\n    model: script\n    instructions: Take over.\ntopology:\n  handover: boss\n"
    found = fabric_lint(actor=actor, source=FIXED.replace("topology:\n", above))
    assert (found.warnings, found.problems) == ((), ())


@pytest.mark.parametrize("name", SAMPLE_NAMES)
def test_no_sample_has_anything_to_be_told(actor, settings, name):
    settings.FABRIC_ALLOWED_HOSTS = ("127.0.0.1:8421",)
    settings.FABRIC_MODEL = "a-model"
    found = fabric_lint(actor=actor, source=sample(name))
    assert found.publishable, found.problems
    assert [one for one in found.warnings if "reach" in one.sentence] == []


def test_it_is_for_those_who_may_edit(actor):
    viewer = Actor(name="vera", workspace_id=actor.workspace_id, roles=("viewer",))
    with pytest.raises(Refused, match="vera may not check fabrics"):
        fabric_lint(actor=viewer, source=SMALL)
