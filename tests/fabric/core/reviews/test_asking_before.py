"""Rules of tools (docs/specification/agent-step.md): before which calls a person is asked, what a rule may name, and that a rule without a value asks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fabric.core import events as ev
from fabric.core.reviews import asking_before
from fabric.core.spec.fabric import FabricSpec
from fabric.core.state.context import compile_spec
from fabric.core.state.living import visible_state
from fabric.core.values.fingerprint import fingerprint
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, Tier
from fabric.core.values.units import JSON
from fabric.policies.expressions.approvals import map_asks, problems
from tests.fabric.core.fabrics import PRICES, lone
from tests.fabric.core.harness import World, ran
from tests.fabric.core.scripts import asks, broken, call, fails, gives, say, summary

STEP = "fan_out.0.e0.r0"


def ruled(rule: str, *, plans: bool = False, tool: JSON = None, **fields: Any) -> FabricSpec:
    """One worker with three tools, of which ``pay`` has that rule."""
    tree = lone(tools=("look", "find", "pay"), **fields).model_dump(mode="json")
    tree["tools"][2] |= {"approve_when": rule, **(tool or {})}
    if plans:
        tree["agents"][0]["calls"] = "planned"
    return FabricSpec.model_validate(tree)


def paying(**args: JSON) -> Any:
    return call("pay", "p", **args)


def asked(world: World) -> list[str]:
    return [fact.scope for fact in world.of(ev.ReviewOpened)]


def sent(world: World) -> list[str]:
    return [fact.call_id for fact in world.of(ev.CallIssued) if fact.call == "tool"]


@pytest.mark.parametrize(
    ("rule", "args"),
    [
        ("args.amount > 100", {"amount": 101}),
        ("has(args.to) && args.to.startsWith('x')", {"to": "x1"}),
        ("agent == 'worker'", {}),
        ("stage == 'fan_out'", {}),
        ("run.tier == 'interactive'", {}),
        ("run.request == 'What is it?' && size(run.documents) == 0", {}),
        ("run.spent_usd_micros > 0 && run.spent_usd_micros < run.cap_usd_micros", {}),
        ("run.epoch == 0 && run.depth == 1 && run.id == 'run-1'", {}),
        ("args.lines.exists(line, line.sum > 5)", {"lines": [{"sum": 1}, {"sum": 6}]}),
    ],
)
def test_a_call_whose_rule_holds_waits_for_a_person_and_one_whose_rule_does_not_goes_out(rule, args):
    world = ran(ruled(rule), {"worker": [asks(paying(**args)), summary()]})
    assert (asked(world), sent(world)) == ([f"{STEP}.t1.c0"], [])
    assert world.review.fact.item == "pre_action"
    world.decide("approve")
    world.go()
    assert world.executed == [("pay", args)]
    assert world.end.state is RunState.COMPLETED
    opposite = ran(ruled(f"!({rule})"), {"worker": [asks(paying(**args)), summary()]})
    assert (asked(opposite), opposite.executed) == ([], [("pay", args)])


@pytest.mark.parametrize(
    ("rule", "args", "why"),
    [
        ("args.amount > 100", {}, "it could not be evaluated"),
        ("args.amount > 100", {"amount": None}, "it could not be evaluated"),
        ("args.amount > 100", {"amount": "much"}, "it could not be evaluated"),
        ("args.amount > 100.0", {"amount": float("nan")}, "it could not be evaluated"),
        ("args.amount > 100.0", {"amount": float("inf")}, "it could not be evaluated"),
        ("double(args.sums[0]) > 1.0", {"sums": ["0.5", {"deep": "+inf"}]}, "args.sums.1.deep is not a number"),
        ("double(args.amount) > 100.0", {"amount": "NaN"}, "args.amount is not a number"),
        ("double(args.amount) > 100.0", {"amount": " -Infinity"}, "args.amount is not a number"),
        ("args.amount", {"amount": 7}, "it gave int, not true or false"),
        ("args.amount", {"amount": "false"}, "it gave str, not true or false"),
        ("args.amount % args.of == 1", {"amount": 3, "of": 0}, "it could not be evaluated"),
    ],
)
def test_a_rule_that_cannot_be_evaluated_asks(rule, args, why):
    world = ran(ruled(rule), {"worker": [asks(paying(**args)), summary()]})
    assert (asked(world), world.executed) == ([f"{STEP}.t1.c0"], [])
    assert "it is unknown whether its rule needs a review" in world.review.fact.reason
    assert why in world.review.fact.reason
    assert world.content_of(ev.ReviewOpened)[0]["unsure"].startswith(why)


def test_a_text_is_only_a_number_where_the_rule_reads_it_as_one():
    assert asked(ran(ruled("args.q == 'x'"), {"worker": [asks(paying(q="nan")), summary()]})) == []


def test_a_rule_that_was_not_compiled_asks_and_such_a_fabric_is_not_run():
    world = World(ruled("args.amount > 100"), {"worker": [asks(paying(amount=1)), summary()]})
    world.compiled.evaluators.approvals.clear()
    world.start().go()
    assert "it is not compiled" in world.review.fact.reason
    with pytest.raises(ValueError, match="the rule of tool pay is not compiled"):
        compile_spec(ruled("args.amount > 100"), prices=PRICES)


def test_arguments_that_are_no_json_go_out_by_no_rule():
    world = ran(ruled("args.amount > 100"), {"worker": [broken("pay", '{"amount": NaN'), summary()]})
    assert (asked(world), world.executed) == ([], [])
    assert world.of(ev.CallRefused)[0].problem == "the arguments are not a JSON object"


# -- when it is asked ------------------------------------------------------------------------------------------------


def test_the_rule_is_asked_of_what_the_references_came_to():
    wave = asks(call(call_id="a"), call("pay", "p", amount={"$ref": "calls.a.result.sum"}))
    for amount, reviews in ((7, 0), (700, 1)):
        script = {"worker": [wave, summary()], "look": gives({"sum": amount})}
        world = ran(ruled("args.amount > 100"), script)
        assert len(asked(world)) == reviews
    assert world.content_of(ev.ReviewOpened)[0]["payload"] == {"amount": 700}
    assert world.kinds.index("call_resolved") < world.kinds.index("review_opened")
    world.decide("approve")
    world.go()
    assert world.executed[-1] == ("pay", {"amount": 700})


def test_no_person_is_asked_about_a_call_that_is_not_made():
    """One that is blocked, that falls with another, that its plan leaves out, that a protection refuses."""
    plan = {
        "calls": [
            {"id": "a", "tool": "look", "args": {}},
            {"id": "p", "tool": "pay", "args": {"of": {"$ref": "calls.a.result"}}},
            {"id": "q", "tool": "pay", "args": {}, "when": "calls.a.error == null"},
        ]
    }
    script = {"worker": [say(json.dumps(plan)), summary()], "look": gives(error="no")}
    world = ran(ruled("true", plans=True), script)
    assert (asked(world), sent(world)) == ([], ["a"])
    wrong = {"pay": lambda args: ["amount: is missing"]}
    assert asked(ran(ruled("true"), {"worker": [asks(paying()), summary()]}, validators=wrong)) == []


def test_all_that_people_are_asked_about_is_asked_at_once_and_each_call_leaves_with_its_own_answer():
    wave = asks(
        call("pay", "p1", n=1),
        call(call_id="a"),
        call("pay", "p2", n=2),
        call("find", "b", of={"$ref": "calls.a.result"}),
        call("find", "c", of={"$ref": "calls.p1.result"}),
    )
    world = ran(ruled("args.n > 0"), {"worker": [wave, summary()]})
    assert (sent(world), asked(world)) == (["a", "b"], [f"{STEP}.t1.c0", f"{STEP}.t1.c2"])
    world.decide("approve", about="c2")
    world.go()
    assert sent(world) == ["a", "b", "p2"], "the second answer came first"
    assert visible_state(world.run) is RunState.WAITING
    world.decide("approve", about="c0")
    world.go()
    assert sent(world) == ["a", "b", "p2", "p1", "c"]
    assert world.end.state is RunState.COMPLETED


def test_a_step_that_waits_with_a_call_that_is_asked_about_keeps_no_other_from_going_on():
    """Two branches: in each a payment waits for a search that is out, while a third call of the other one may go."""
    wave = asks(
        call(call_id="slow"),
        call("find", "quick"),
        call("pay", "p", of={"$ref": "calls.quick.result"}),
        call("find", "then", of={"$ref": "calls.quick.result"}),
    )
    script = {"worker": [wave, wave, summary()], "look": gives("L").after(20), "find": gives("F").after(1)}
    world = World(ruled("true", workers=2), script).start().go(until_s=10)
    assert sent(world) == ["slow", "quick", "slow", "quick", "then", "then"]
    assert len(asked(world)) == 2, "asked as soon as the search that it refers to is back"
    assert visible_state(world.run) is RunState.RUNNING, "the slow search is out"
    world.go()
    assert visible_state(world.run) is RunState.WAITING


def test_what_cannot_be_undone_is_asked_about_at_once_and_waits_for_no_other_answer():
    tree = ruled("true").model_dump(mode="json")
    tree["tools"][1]["effect"] = "irreversible"
    wave = asks(call("find", "f"), call("pay", "p"))
    world = ran(FabricSpec.model_validate(tree), {"worker": [wave, summary()]})
    assert asked(world) == [f"{STEP}.t1.c0", f"{STEP}.t1.c1"]
    world.decide("approve", about="c0")
    world.go()
    assert sent(world) == ["f"]
    world.decide("approve")
    world.go()
    assert sent(world) == ["f", "p"]
    assert world.end.state is RunState.COMPLETED


def test_an_irreversible_call_whose_approval_is_waived_goes_by_its_rule():
    waived = {"effect": "irreversible", "approval": "waived", "deviation": "small sums"}
    for amount, reviews in ((7, 0), (700, 1)):
        world = ran(ruled("args.amount > 100", tool=waived), {"worker": [asks(paying(amount=amount)), summary()]})
        assert len(asked(world)) == reviews
        assert bool(world.executed) is (not reviews)


# -- what a person is asked, and says --------------------------------------------------------------------------------


def test_the_review_says_the_rule_and_is_bound_to_the_arguments():
    worlds = [
        ran(ruled("args.amount > 100"), {"worker": [asks(paying(amount=amount)), summary()]}) for amount in (101, 102)
    ]
    first, second = (world.review.fact for world in worlds)
    assert first.reason == "worker wants to call pay, whose rule asks for a person's word: args.amount > 100"
    assert worlds[0].content_of(ev.ReviewOpened)[0]["rule"] == "args.amount > 100"
    assert first.digest != second.digest
    worlds[0].decide("approve", digest=second.digest)
    worlds[0].go()
    assert (worlds[0].executed, len(worlds[0].of(ev.InputIgnored))) == ([], 1)


def test_what_a_person_wrote_is_not_asked_about_again():
    world = ran(ruled("args.amount > 100"), {"worker": [asks(paying(amount=500)), summary()]})
    world.decide("edit", edited={"amount": 400})
    world.go()
    assert world.executed == [("pay", {"amount": 400})]
    assert len(asked(world)) == 1


def test_every_further_call_is_asked_about_anew():
    waves = [asks(call("pay", f"p{n}", amount=500)) for n in range(2)]
    world = ran(ruled("args.amount > 100"), {"worker": [*waves, summary()]})
    world.decide("approve")
    world.go()
    assert (sent(world), len(asked(world))) == (["p0"], 2)


@pytest.mark.parametrize("by", ["person", "time"])
def test_what_is_rejected_is_not_called(by):
    world = ran(ruled("true"), {"worker": [asks(paying(amount=1)), summary()]}, tier=Tier.BATCH)
    if by == "person":
        world.decide("reject", message="no")
    else:
        world.wait(90_000)
    world.go()
    assert (world.end.state, world.executed) == (RunState.ABORTED, [])


def test_a_call_that_was_let_pass_is_tried_again_without_a_further_review():
    script = {"worker": [asks(paying(amount=1)), summary()], "pay": [fails(Cause.SERVER_ERROR), gives("done")]}
    world = ran(ruled("true"), script)
    world.decide("approve")
    world.go()
    assert [fact.attempt for fact in world.of(ev.CallIssued) if fact.call == "tool"] == [1, 2]
    assert len(asked(world)) == 1


# -- the words themselves --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("args.amount >", "does not compile"),
        ("payload.amount > 1", "names 'payload'; there are: args, agent, stage, run"),
        ("run.owner == 'a'", "names run.owner, which there is not; there are: id, tier"),
        ("open('x')", "calls 'open', which there is not"),
        ("args.a / args.b > 2.0", "divides, and what is divided by zero is neither more nor less than anything"),
    ],
)
def test_a_rule_that_is_none_is_told_with_its_path(rule, said):
    ((path, sentence),) = problems(ruled(rule))
    assert path == "tools.2.approve_when"
    assert f"the rule of tool 'pay' {said}" in sentence


def test_a_stroke_in_a_text_divides_nothing():
    assert list(problems(ruled("args.path.startsWith('/etc/')"))) == []


def test_what_a_rule_may_name_of_the_run_is_what_it_is_told():
    world = ran(ruled("args.amount > 100"), {"worker": [asks(paying(amount=500)), summary()]})
    seen: dict[str, JSON] = {}

    def keep(about: Any) -> tuple[bool, str]:
        seen.update(about)
        return True, ""

    again = World(ruled("args.amount > 100"), {"worker": [asks(paying(amount=500)), summary()]})
    again.compiled.evaluators.approvals["pay"] = keep
    again.start().go()
    assert tuple(seen["run"]) == asking_before.RUN
    assert set(seen) == {"args", "agent", "stage", "run"}
    assert world.review.fact.digest == again.review.fact.digest


def test_an_expression_is_part_of_the_digest():
    assert fingerprint(ruled("true").model_dump(mode="json")) != fingerprint(ruled("false").model_dump(mode="json"))
    assert set(map_asks(ruled("true"))) == {"pay"}
