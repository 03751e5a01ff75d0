"""A person who is asked about a call may have another tool called in its place (S2 "Correction"; docs/specification/agent-step.md): judged anew, told to the agent, under the rules of an edit."""

from __future__ import annotations

from typing import Any

import pytest

from fabric.core import events as ev
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.fingerprint import fingerprint
from fabric.core.values.flow import RunState
from fabric.core.values.saga import build_key, read_scope
from fabric.core.values.taxonomy import Cause, Tier
from fabric.core.values.units import JSON
from tests.fabric.core.fabrics import lone
from tests.fabric.core.harness import World
from tests.fabric.core.scripts import asks, call, fails, gives, say, summary

STEP = "fan_out.0.e0.r0"
PEOPLE = {"ann": "reviewer", "bea": "reviewer", "cid": "reviewer", "alice": "owner,reviewer"}
TOOLS = [
    {"name": "pay", "effect": "irreversible"},
    {"name": "book", "effect": "mutating", "compensation": "cancel"},
    {"name": "look", "description": "Looks something up.", "parameters": {"type": "object"}},
    {"name": "wire", "effect": "irreversible"},
    {"name": "cancel", "effect": "idempotent"},
]


def fabric(*, eyes: tuple[Tier, ...] = (), agent: JSON = None) -> FabricSpec:
    """One worker that may pay, wire, book and look something up."""
    tree = lone(tools=("pay", "book", "look", "wire"), humans={"four_eyes": list(eyes)}).model_dump(mode="json")
    tree["tools"] = TOOLS
    tree["agents"][0] |= agent or {}
    return FabricSpec.model_validate(tree)


def asked(*calls: Any, spec: FabricSpec | None = None, last: Any = None, **more: Any) -> World:
    wave = asks(*(calls or (call("pay", "p", room=9),)))
    script: dict[str, Any] = {
        "worker": [wave, last or summary()],
        "pay": gives("paid"),
        "book": gives("booked"),
        "look": gives("seen"),
    }
    world = World(spec or fabric(), {**script, **more.pop("script", {})}, **more).start().go()
    assert world.review.fact.item == "pre_action"
    return world


def ignored(world: World) -> list[str]:
    return [fact.reason for fact in world.of(ev.InputIgnored)]


def sent(world: World) -> list[tuple[str, str]]:
    return [(fact.call_id, fact.target) for fact in world.of(ev.CallIssued) if fact.call == "tool"]


def test_another_tool_is_called_under_the_calls_own_id_without_another_review():
    world = asked().decide("edit", tool="look", edited={"q": "x"}).go()
    assert world.end.state is RunState.COMPLETED
    assert (world.executed, sent(world)) == ([("look", {"q": "x"})], [("p", "look")])
    (edited,) = world.of(ev.CallEdited)
    assert (edited.tool, edited.proposed_tool, edited.actor) == ("look", "pay", "bob")
    assert (edited.proposed_hash, edited.args_hash) == (fingerprint({"room": 9}), fingerprint({"q": "x"}))
    assert len(world.of(ev.ReviewOpened)) == 1
    assert world.of(ev.MutationIntended) == [], "looking something up leaves nothing to undo"


def test_the_agent_is_told_and_gets_what_came_back_as_its_calls_result():
    world = asked().decide("edit", tool="look", edited={"q": "x"}, message="look first").go()
    (told,) = world.content_of(ev.MessageInjected)
    assert told["text"] == (
        "A person had look called in place of your call p of pay and says: look first. What came back is its result; "
        'it was called with: {"q":"x"}'
    )
    assert [(m.call_id, m.text) for m in world.requests[1].messages if m.role == "tool"] == [("p", "seen")]


def test_what_refers_to_the_call_gets_the_others_result():
    """It waits for it, whatever was called."""
    world = asked(call("pay", "p", room=9), call("look", "l", of={"$ref": "calls.p.result"}))
    world.decide("edit", tool="book", edited={"room": 1}).go()
    assert world.executed == [("book", {"room": 1}), ("look", {"of": "booked"})]


def test_it_is_keyed_by_its_own_tool_and_undone_by_its_own_way_back():
    world = asked(last=fails(Cause.AUTH, "401")).decide("edit", tool="book", edited={"room": 1}).go()
    (intended,) = world.of(ev.MutationIntended)
    key = build_key("run-1", read_scope(STEP, carry_over=False), "book", fingerprint({"room": 1}), 0)
    assert (intended.key, intended.tool, intended.compensation) == (key, "book", "cancel")
    assert [name for name, _ in world.executed] == ["book", "cancel"]
    assert world.executed[1][1] == {"key": key, "args": {"room": 1}, "result": "booked"}


def test_one_that_cannot_be_undone_goes_last_in_its_wave_by_the_same_word():
    world = asked(call("pay", "p"), call("wire", "w"))
    world.decide("edit", tool="wire", edited={"to": "Ana"}).go()
    assert sent(world) == [("p", "wire")]
    world.decide("approve").go()
    assert sent(world) == [("p", "wire"), ("w", "wire")]


@pytest.mark.parametrize(
    ("verb", "tool", "edited", "said"),
    [
        ("edit", "teleport", {}, "'teleport' is no tool that may be called in place of this one; there are: book, look, wire"),
        ("edit", "cancel", {}, "'cancel' is no tool that may be called in place of this one"),
        ("edit", "book", {"room": "no"}, "the edited arguments do not fit the tool: room: a number is wanted"),
        ("edit", "book", None, "the edited arguments are not a JSON object"),
        ("approve", "book", None, "another tool goes with an edit, and with no other answer"),
        ("reject", "book", None, "another tool goes with an edit, and with no other answer"),
        ("respond", "book", None, "another tool goes with an edit, and with no other answer"),
    ],
)  # fmt: skip
def test_what_cannot_be_followed_is_ignored_with_its_reason_and_the_review_stays(verb, tool, edited, said):
    wants = {"book": lambda args: [] if isinstance(args.get("room"), int) else ["room: a number is wanted"]}
    world = asked(validators=wants).decide(verb, tool=tool, edited=edited, message="x").go()
    assert [said in one for one in ignored(world)] == [True], ignored(world)
    assert (world.executed, bool(world.run.reviews)) == ([], True)


def test_a_tool_that_the_agents_persona_bars_is_none_that_may_be_called():
    barred = fabric(agent={"persona": {"denied_capabilities": ["tool:book"]}})
    world = asked(spec=barred)
    assert world.content_of(ev.ReviewOpened)[0]["takes_tools"] == ["look", "wire"]
    world.decide("edit", tool="book", edited={}).go()
    assert "there are: look, wire" in ignored(world)[0]


def test_another_review_takes_no_tool():
    broken = {"worker": say("no")}
    cell = {"schema_grounding_fail": {"interactive": {"rungs": [{"reaction": "escalate"}]}}}
    world = World(lone(table=cell), broken).start().go().decide("approve", tool="look").go()
    assert ignored(world) == ["another tool goes with an edit of a call, and this is another review"]


def test_the_same_tool_with_the_same_arguments_is_an_approval():
    world = asked().decide("edit", tool="pay", edited={"room": 9}).go()
    assert (world.of(ev.CallEdited), sent(world)) == ([], [("p", "pay")])


def test_it_meets_the_protections_as_a_call_of_its_own_tool():
    """The third equal look is a loop, of an agent's or a person's asking."""
    world = asked(call("look", "a", q="x"), call("look", "b", q="x"), call("pay", "p"))
    world.decide("edit", tool="look", edited={"q": "x"}).go()
    assert sent(world) == [("a", "look"), ("b", "look")]
    refused = world.of(ev.CallRefused)[0]
    assert (refused.call_id, refused.tool, refused.mechanism) == ("p", "look", "loop_detector")


def test_it_survives_the_loss_of_the_worker():
    world = asked().decide("edit", tool="look", edited={"q": "x"})
    world.crash().go()
    assert world.end.state is RunState.COMPLETED
    assert {tool for tool, _ in world.executed} == {"look"}


# -- two pairs of eyes -----------------------------------------------------------------------------------------------


def test_where_two_agree_another_call_is_a_proposal_that_says_what_would_be_called():
    world = asked(spec=fabric(eyes=(Tier.BATCH,)), tier=Tier.BATCH, people=PEOPLE)
    before = world.review.fact.digest
    world.decide("edit", tool="look", edited={"q": "x"}, actor="ann").go()
    assert (world.executed, len(world.of(ev.CallEdited))) == ([], 0)
    assert world.review.fact.digest != before
    (shown,) = world.content_of(ev.ReviewEdited)
    assert (shown["tool"], shown["tool_from"], shown["payload"]) == ("look", "pay", {"q": "x"})
    assert (shown["edited"], shown["edited_from"], shown["edited_by"]) == ({"q": "x"}, {"room": 9}, "ann")
    assert (shown["description"], shown["edit_schema"]) == ("Looks something up.", {"type": "object"})
    assert shown["approve"].startswith("look is called once")
    world.decide("approve", actor="bea", digest=before).go()
    assert "its digest differs" in ignored(world)[-1]
    world.decide("approve", actor="bea").go()
    assert world.executed == [("look", {"q": "x"})]
    assert world.of(ev.CallEdited)[0].actor == "ann"


def test_a_third_person_may_write_over_a_proposal_or_put_the_first_tool_back():
    world = asked(spec=fabric(eyes=(Tier.BATCH,)), tier=Tier.BATCH, people=PEOPLE)
    world.decide("edit", tool="look", edited={"q": "x"}, actor="ann").go()
    world.decide("edit", edited={"q": "y"}, actor="bea").go()
    shown = world.content_of(ev.ReviewEdited)[-1]
    assert (shown["tool"], shown["tool_from"], shown["payload"]) == ("look", "pay", {"q": "y"})
    world.decide("edit", tool="pay", edited={"room": 3}, actor="cid").go()
    shown = world.content_of(ev.ReviewEdited)[-1]
    assert (shown["tool"], "tool_from" in shown, shown["payload"]) == ("pay", False, {"room": 3})
    world.decide("approve", actor="ann").go()
    assert world.executed == [("pay", {"room": 3})]
    (edited,) = world.of(ev.CallEdited)
    assert (edited.tool, edited.proposed_tool) == ("pay", "")


def test_in_high_stakes_no_person_lets_a_call_of_their_own_pass():
    world = asked(tier=Tier.HIGH_STAKES, people=PEOPLE)
    world.decide("edit", tool="look", edited={"q": "x"}, actor="ann").go()
    world.decide("approve", actor="ann").go()
    assert (world.executed, len(ignored(world))) == ([], 1)
    world.decide("approve", actor="bea").go()
    assert world.executed == [("look", {"q": "x"})]


def test_what_was_proposed_and_rejected_is_not_called():
    world = asked(tier=Tier.HIGH_STAKES, people=PEOPLE)
    world.decide("edit", tool="look", edited={"q": "x"}, actor="ann").go()
    world.decide("reject", actor="bea", message="neither").go()
    assert (world.end.state, world.executed) == (RunState.ABORTED, [])
