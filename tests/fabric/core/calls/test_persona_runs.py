"""Personas in runs: what an agent may not use it does not call, whatever its model proposes (S3 "Persona constraints"; docs/specification/protections.md)."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from fabric.core import events as ev
from fabric.core.mechanisms import policy
from fabric.core.mechanisms.policy import Config, State
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.tools import Persona, ToolSpec, covers, violations
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import PASS, Cause, FailureType, Tier, Trip
from tests.fabric.core.fabrics import lone, proposal, tree, view
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import asks, call, summary

WRITE = ["database:write"]
TOOLS = ("look", "store")


def fabric(persona, *, stores=WRITE, **more):
    """A worker with two tools: ``look`` declares nothing, ``store`` what it is given."""
    made = lone(tools=TOOLS, agents={"worker": {"tools": TOOLS, "persona": persona}}, **more)
    tools = tuple(
        one.model_copy(update={"capabilities": tuple(stores)}) if one.name == "store" else one for one in made.tools
    )
    return made.model_copy(update={"tools": tools})


DENYING = {"denied_capabilities": WRITE}
BOTH = {"worker": [asks(call("store", q="x"), call("look", q="y")), summary()]}


def refusals(world) -> list[tuple[str, Cause]]:
    return [(fact.tool, fact.cause) for fact in world.of(ev.CallRefused)]


# -- in a run --------------------------------------------------------------------------------------------------------


def test_a_call_that_the_persona_denies_does_not_go_out_and_the_one_beside_it_does():
    world = ran(fabric(DENYING), BOTH, tier=Tier.HIGH_STAKES)
    assert [fact.target for fact in world.of(ev.CallIssued) if fact.call == "tool"] == ["look"]
    assert refusals(world) == [("store", Cause.PERSONA_VIOLATION)]


def test_after_a_persons_word_the_agent_goes_on_with_what_it_may_do():
    script = {"worker": [asks(call("store", q="x")), asks(call("look", q="y")), summary()]}
    world = ran(fabric(DENYING), script, tier=Tier.HIGH_STAKES).decide().go()
    assert [tool for tool, _ in world.executed] == ["look"]
    assert world.end.state is RunState.COMPLETED


def test_the_model_is_told_which_capability_and_to_do_without():
    world = ran(fabric(DENYING), BOTH, tier=Tier.HIGH_STAKES)
    said = "worker may not call store: it needs database:write, which its persona denies. Do without it."
    (told,) = world.content_of(ev.CallRefused)
    assert told["error"] == {"cause": "persona_violation", "mechanism": "policy", "message": said}
    assert world.of(ev.CallRefused)[0].problem == said


def test_the_journal_holds_what_s3_records_of_it():
    world = ran(fabric(DENYING), BOTH)
    decided = world.of(ev.ReactionDecided)[0]
    assert (decided.failure_type, decided.accompanies) == (FailureType.UNSAFE_OUTPUT, ("block",))
    trip = decided.cause
    assert (trip.mechanism, trip.cause) == ("policy", Cause.PERSONA_VIOLATION)
    assert (trip.evidence.limit, trip.evidence.observed, trip.evidence.unit) == (0, 1, "violations")
    assert trip.evidence.details == {
        "agent": "worker",
        "tool": "store",
        "requested_capability": "database:write",
        "violations": [{"constraint": "denied_capabilities", "value": "database:write", "action": "block"}],
        "action": "reject_with_error",
        "outcome": "blocked",
        "severity": "critical",
    }
    assert world.end.state is RunState.FAILED


@pytest.mark.parametrize(
    ("tier", "reaction"), [(Tier.INTERACTIVE, "safe_fallback"), (Tier.BATCH, "halt"), (Tier.HIGH_STAKES, "escalate")]
)
def test_it_takes_the_unsafe_row_of_its_tier(tier, reaction):
    assert ran(fabric(DENYING), BOTH, tier=tier).reactions[0] == reaction


def test_what_people_are_asked_holds_the_violation_and_survives_the_process():
    world = ran(fabric(DENYING), BOTH, tier=Tier.HIGH_STAKES)
    shown = world.content_of(ev.ReviewOpened)[-1]
    assert shown["details"]["violations"][0]["value"] == "database:write"
    assert world.crash().go().of(ev.ReactionDecided)[0].cause.evidence.details["violations"][0]["action"] == "block"


def test_without_a_persona_and_with_one_that_lets_it_pass_everything_goes_out():
    for persona in (None, {"denied_capabilities": ["files:*"]}, {"allowed_capabilities": [*WRITE, "tool:look"]}):
        world = ran(fabric(persona), BOTH)
        assert {tool for tool, _ in world.executed} == {"look", "store"}, persona
        assert world.end.state is RunState.COMPLETED


def test_it_is_judged_before_the_policies_of_the_fabric():
    forbid = {"name": "no", "text": 'forbid(principal, action == Action::"tool", resource);'}
    permit = {"name": "all", "text": "permit(principal, action, resource);"}
    world = ran(fabric(DENYING, gates={"policies": [permit, forbid]}), {"worker": [asks(call("store")), summary()]})
    assert refusals(world) == [("store", Cause.PERSONA_VIOLATION)]


def test_a_memory_is_a_tool_like_any_other():
    worker = {"tools": ["look", "memory_write_notes"], "persona": {"allowed_capabilities": ["tool:look"]}}
    made = tree(roles=(), agents={"worker": worker}) | {"memories": [{"name": "notes", "scope": "run"}]}
    script = {"worker": [asks(call("memory_write_notes", key="a", value=1)), summary()]}
    world = ran(FabricSpec.model_validate(made), script)
    assert refusals(world) == [("memory_write_notes", Cause.PERSONA_VIOLATION)]
    assert world.of(ev.CallRefused)[0].problem.startswith(
        "worker may not call memory_write_notes: it needs tool:memory_write_notes, which its persona does not allow"
    )


# -- the rule --------------------------------------------------------------------------------------------------------

ALLOWS, DENIES = "allowed_capabilities", "denied_capabilities"


@pytest.mark.parametrize(
    ("persona", "needs", "found"),
    [
        ({DENIES: ["database:write"]}, ["database:write"], [(DENIES, "database:write")]),
        ({DENIES: ["database:write"]}, ["database:read"], []),
        ({DENIES: ["database:*"]}, ["database:read", "database:rows:drop"], [(DENIES, "database:read"), (DENIES, "database:rows:drop")]),
        ({DENIES: ["database:*"]}, ["databases:read"], []),
        ({ALLOWS: ["database:read"]}, ["database:read"], []),
        ({ALLOWS: ["database:read"]}, ["database:read", "mail:send"], [(ALLOWS, "mail:send")]),
        ({ALLOWS: ["database:*"], DENIES: ["database:write"]}, ["database:write"], [(DENIES, "database:write")]),
        ({ALLOWS: ["database:write"], DENIES: ["database:*"]}, ["database:write"], [(DENIES, "database:write")]),
    ],
)  # fmt: skip
def test_denied_beats_allowed_and_no_list_of_what_is_allowed_is_everything(persona, needs, found):
    made = Persona.model_validate(persona)
    assert [(one.constraint, one.capability) for one in violations(made, needs)] == found


def test_an_entry_covers_what_is_equal_or_begins_like_it():
    assert covers("files:*", "files:read")
    assert not covers("files:*", "files")
    assert not covers("files:read", "files:read:all")


def test_a_tool_that_declares_none_needs_the_one_of_its_name_and_the_engine_itself_has_no_persona():
    barring = fabric({DENIES: ["tool:look"]})
    about = {"agent": "worker", "target": "look", "args": {}}
    trip = policy.check(Config(), State(), proposal(**about), view(fabric=barring))
    assert isinstance(trip, Trip)
    assert trip.evidence.details["requested_capability"] == "tool:look"
    assert policy.check(Config(), State(), proposal(**about | {"agent": ""}), view(fabric=barring)) is PASS
    assert policy.check(Config(), State(), proposal(**about | {"kind": "handoff"}), view(fabric=barring)) is PASS


# -- as it is written ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["database", "Database:write", "database:", ":write", "database: write", "database:*", "a:b;c"]
)
def test_what_is_no_capability_is_refused_with_how_to_write_one(text):
    with pytest.raises(ValidationError, match=r"is no capability; write lower-case words"):
        ToolSpec(name="t", capabilities=(text,))


@pytest.mark.parametrize("text", ["*", "database", "data*:write", "database:*:write", "database:wri*"])
def test_an_entry_of_a_persona_may_only_end_in_a_star_of_its_own(text):
    with pytest.raises(ValidationError, match=r"or database:\* for all that begin like it"):
        Persona(denied_capabilities=(text,))


def test_a_persona_that_says_nothing_and_one_that_allows_nothing_are_refused():
    with pytest.raises(ValidationError, match="says nothing: give allowed_capabilities or denied_capabilities"):
        Persona()
    with pytest.raises(ValidationError, match="at least 1 item"):
        Persona(allowed_capabilities=())
    with pytest.raises(ValidationError, match="at most 16 items"):
        ToolSpec(name="t", capabilities=tuple(f"a:b{n}" for n in range(17)))
