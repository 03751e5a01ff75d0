"""The people whom a review asks answer and no others, two where the fabric asks for two, and an edit is a proposal of its own (docs/specification/reviews.md)."""

import pytest

from fabric.core import events as ev
from fabric.core.events.inputs import INBOX, DecisionMade
from fabric.core.handlers.people import ANSWERS
from fabric.core.reviews.reviews import VERBS
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, Tier
from fabric.runtime.ports.journal import InboxItem
from tests.fabric.core.fabrics import lone, spec
from tests.fabric.core.harness import World, ran
from tests.fabric.core.scripts import fails, say, scored, summary

HIGH, BATCH = Tier.HIGH_STAKES, Tier.BATCH
BROKEN = {"worker": [*[say("no")] * 4, summary("At last.")]}
PEOPLE = {
    "ann": "reviewer",
    "bea": "finance,reviewer",
    "cid": "reviewer,safety",
    "alice": "owner,reviewer",
    "eve": "viewer",
}
BRIEF = {"agent": "worker", "title": "Part 1", "instructions": "Do it in one word."}


def asked(fabric=None, script=BROKEN, tier=BATCH, **fields) -> World:
    world = ran(fabric or lone(table=CELL), script, tier=tier, **{"people": dict(PEOPLE), **fields})
    assert world.run.reviews
    return world


CELL = {"schema_grounding_fail": {tier: {"rungs": [{"reaction": "escalate"}]} for tier in Tier}}
EYES = {"four_eyes": [BATCH, HIGH]}


def ignored(world) -> list[str]:
    return [fact.reason for fact in world.of(ev.InputIgnored)]


def test_each_kind_of_item_has_a_function_for_each_of_its_verbs():
    expiring = {("compensation", "reject")}
    assert (
        set(ANSWERS)
        == {(item, verb) for item, verbs in VERBS.items() if item != "follow_up" for verb in verbs} | expiring
    )


# -- who -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("actor", "verb", "said"),
    [
        ("eve", "approve", "eve is not asked: this is for reviewer"),
        ("eve", "reject", "eve is not asked: this is for reviewer"),
        ("nobody", "approve", "nobody is no member of this workspace (any more)"),
        ("system", "reject", "system is no member of this workspace (any more)"),
        ("alice", "approve", "alice may only reject this: it is their own, so a second person must approve"),
        ("alice", "respond", "alice may only reject this: it is their own, so a second person must approve"),
    ],
)  # fmt: skip
def test_who_may_not_is_told_why_and_the_review_stays_open(actor, verb, said):
    world = asked().decide(verb, actor=actor, message="x").go()
    assert ignored(world) == [said]
    assert world.run.reviews
    world.decide("approve", actor="ann").go()
    assert world.end.state is RunState.COMPLETED


def test_its_starter_may_reject_it():
    world = asked().decide("reject", actor="alice", message="enough").go()
    assert (world.end.state, world.end.reaction) == (RunState.ABORTED, "reject")


def test_a_role_that_was_taken_away_meanwhile_counts_no_longer():
    world = asked()
    world.people["ann"] = "viewer"
    world.decide("approve", actor="ann").go()
    assert ignored(world) == ["ann is not asked: this is for reviewer"]
    world.people["ann"] = None
    world.decide("approve", actor="ann").go()
    assert ignored(world)[1] == "ann is no member of this workspace (any more)"


def test_what_was_judged_on_stands_in_the_event_and_in_the_batch():
    world = asked().decide("approve", actor="bea").go()
    assert world.of(ev.ReviewDecided)[0].roles == ("finance", "reviewer")
    [standing] = [one for batch in world.written for one in batch.standings]
    assert (standing[1].name, standing[1].roles) == ("bea", "finance,reviewer")


def test_an_answer_of_an_unknown_author_is_not_taken():
    world = asked()
    review = world.review.fact
    given = DecisionMade(input_id="bare", review_id=review.review_id, verb="approve", actor="ann", digest=review.digest)
    world.inbox.append(InboxItem("run-1", given.input_id, INBOX.dump_json(given)))
    world.go()
    assert ignored(world) == ["the rights of ann here are unknown"]
    assert world.run.reviews


def test_once_passed_on_the_owner_may_answer_too():
    people = {**PEOPLE, "oda": "owner"}
    world = asked(people=people).decide("approve", actor="oda").go()
    assert ignored(world) == ["oda is not asked: this is for reviewer"]
    world.wait(86_400 * 0.8).decide("approve", actor="oda").go()
    assert world.end.state is RunState.COMPLETED


def test_the_fabric_lists_who_reviews_and_who_is_next():
    fabric = lone(table=CELL, humans={"onward_to": ["on-call"]}).model_copy(update={"reviewers": ("cid", "desk")})
    world = asked(fabric, people={**PEOPLE, "dan": "desk", "fay": "on-call"})
    assert (world.review.fact.reviewers, world.review.fact.onward_to) == (("cid", "desk"), ("on-call",))
    world.decide("approve", actor="ann").go()
    assert ignored(world) == ["ann is not asked: this is for cid, desk"]
    world.wait(86_400 * 0.8).decide("approve", actor="fay").go()
    assert world.end.state is RunState.COMPLETED


def test_new_caps_are_for_finance():
    costly = lone(budget={"run_usd_micros": 300})
    world = asked(costly, {"worker": summary()}, HIGH, people={**PEOPLE, "may": "finance"})
    assert world.review.fact.required_role == "finance"
    assert world.review.fact.failure_type == "cost_overrun"
    world.decide("approve", actor="may", cap_usd_micros=10_000_000).go()
    assert world.end.state is RunState.COMPLETED


@pytest.mark.parametrize("tier", [BATCH, HIGH])
def test_who_is_alone_in_the_workspace_lets_their_own_run_go_on(tier):
    world = World(lone(table=CELL), BROKEN, tier=tier, requester="ann", people={"ann": "alone,reviewer"}).start().go()
    assert world.review.fact.barred == ("ann",)
    world.decide("approve", actor="ann", message="x").go()
    assert world.end.state is RunState.COMPLETED
    assert world.of(ev.ReviewDecided)[0].roles == ("alone", "reviewer"), "so that it can be judged again"


@pytest.mark.parametrize(
    ("who", "roles", "eyes"), [("owner", "owner,reviewer", {}), ("ann", "alone,reviewer", EYES), ("owner", "alone,owner,reviewer", EYES)]
)  # fmt: skip
def test_a_name_makes_no_member_alone_and_two_are_two(who, roles, eyes):
    world = World(lone(table=CELL, humans=eyes), BROKEN, tier=BATCH, requester=who, people={who: roles}).start().go()
    world.decide("approve", actor=who).go()
    assert ignored(world) == [f"{who} may only reject this: it is their own, so a second person must approve"]
    assert world.run.reviews


def test_who_made_the_token_of_a_program_is_barred_from_what_it_started():
    world = World(lone(table=CELL), BROKEN, tier=BATCH, requester="robot", causers=("ann",), people=PEOPLE).start().go()
    assert (world.run.caused_by, world.review.fact.barred) == (("ann",), ("robot", "ann"))
    world.decide("approve", actor="ann").go()
    assert ignored(world) == ["ann may only reject this: it is their own, so a second person must approve"]
    world.decide("approve", actor="bea").go()
    assert world.end.state is RunState.COMPLETED


# -- two people ------------------------------------------------------------------------------------------------------


def test_the_first_of_two_is_an_event_of_its_own_and_the_second_decides():
    world = asked(lone(table=CELL, humans=EYES))
    assert world.review.fact.approvals == 2
    world.decide("approve", actor="ann", message="fine").go()
    approved = world.of(ev.ReviewApproved)[0]
    assert (approved.actor, approved.agreed, approved.roles) == ("ann", ("ann",), ("reviewer",))
    assert approved.digest == world.review.fact.digest
    assert (world.review.agreed, world.of(ev.ReviewDecided)) == (("ann",), [])
    world.decide("approve", actor="ann").go()
    assert ignored(world) == ["ann has agreed to this already: it takes a second person"]
    world.decide("approve", actor="bea").go()
    decided = world.of(ev.ReviewDecided)[0]
    assert (decided.actor, decided.agreed) == ("bea", ("ann",))
    assert world.end.state is RunState.COMPLETED


def test_one_rejection_is_enough():
    world = asked(lone(table=CELL, humans=EYES)).decide("approve", actor="ann").go().decide("reject", actor="ann").go()
    assert world.end.state is RunState.ABORTED


def test_its_time_runs_on_after_the_first():
    world = asked(lone(table=CELL, humans=EYES)).decide("approve", actor="ann").go().wait(86_401)
    assert (world.of(ev.ReviewDecided)[0].system, world.end.state) == (True, RunState.ABORTED)


def test_two_who_name_different_terms_have_not_agreed():
    costly = lone(budget={"run_usd_micros": 300}, humans=EYES)
    people = {"may": "finance", "mae": "finance", "mia": "finance"}
    world = asked(costly, {"worker": summary()}, HIGH, people=people)
    world.decide("approve", actor="may", cap_usd_micros=10_000_000).go()
    world.decide("approve", actor="mae", cap_usd_micros=20_000_000).go()
    assert [fact.agreed for fact in world.of(ev.ReviewApproved)] == [("may",), ("mae",)]
    world.decide("approve", actor="may", cap_usd_micros=20_000_000).go()
    assert world.of(ev.CapRaised)[0].cap_usd_micros == 20_000_000
    assert world.of(ev.ReviewDecided)[0].agreed == ("mae",)


# -- edits -----------------------------------------------------------------------------------------------------------


def test_an_edit_is_its_editors_word_where_one_is_enough():
    world = asked().decide("edit", actor="ann", edited=BRIEF).go()
    assert (world.of(ev.ReviewDecided)[0].verb, world.end.state) == ("edit", RunState.COMPLETED)


def test_in_high_stakes_a_second_person_approves_what_was_written():
    world = asked(tier=HIGH)
    before = world.review.fact.digest
    world.decide("edit", actor="ann", edited=BRIEF, message="shorter").go()
    edited = world.of(ev.ReviewEdited)[0]
    assert (edited.before, edited.proposed_by, edited.agreed) == (before, "ann", ())
    assert world.review.fact.digest == edited.digest != before
    shown = world.content_of(ev.ReviewEdited)[0]
    assert (shown["edited"], shown["edited_by"], shown["edited_because"]) == (BRIEF, "ann", "shorter")
    assert shown["edited_from"]["instructions"] == "Do part 1."
    world.decide("approve", actor="ann").go()
    assert "it is their own" in ignored(world)[0]
    world.decide("approve", actor="bea", digest=before).go()
    assert "its digest differs" in ignored(world)[1]
    world.decide("approve", actor="bea").go()
    decided = world.of(ev.ReviewDecided)[0]
    assert (decided.verb, decided.actor, decided.proposed_by) == ("approve", "bea", "ann")
    assert world.of(ev.OutputEdited)[0].actor == "ann"
    assert world.end.state is RunState.COMPLETED


def test_a_second_edit_replaces_the_first_and_wants_another_approval():
    world = asked(tier=HIGH).decide("edit", actor="ann", edited=BRIEF).go()
    world.decide("edit", actor="bea", edited={**BRIEF, "instructions": "Do it twice."}).go()
    assert world.content_of(ev.ReviewEdited)[1]["edited_from"]["instructions"] == "Do part 1."
    world.decide("approve", actor="bea").go()
    assert "it is their own" in ignored(world)[0]
    world.decide("approve", actor="ann").go()
    plan = world.contents(world.run.stages["plan"].output_ref)["output"]
    assert plan["briefs"][0]["instructions"] == "Do it twice."


def test_where_two_agree_the_editor_is_one_of_them_but_in_high_stakes():
    world = asked(lone(table=CELL, humans=EYES)).decide("approve", actor="bea").go()
    world.decide("edit", actor="ann", edited=BRIEF).go()
    assert (world.review.agreed, world.review.proposed_by) == (("ann",), "")
    world.decide("approve", actor="bea").go()
    assert world.end.state is RunState.COMPLETED
    high = asked(lone(table=CELL, humans=EYES), tier=HIGH).decide("edit", actor="ann", edited=BRIEF).go()
    high.decide("approve", actor="bea").go()
    assert high.run.reviews
    high.decide("approve", actor="cid").go()
    assert high.end.state is RunState.COMPLETED


def test_nothing_is_named_with_the_approval_of_an_edit():
    world = asked(tier=HIGH).decide("edit", actor="ann", edited=BRIEF).go()
    world.decide("approve", actor="bea", cap_usd_micros=20_000_000).go()
    assert world.run.reviews
    assert len(ignored(world)) == 1


def test_an_edited_output_is_no_release():
    rules = {"guardrails": [{"rules": ["credentials"]}]}
    leak = summary("The key is ghp_" + "k7Qw9Zr2" * 4 + "Tt5m.")
    world = asked(spec(gates=rules), {"worker": leak}, HIGH, people={**PEOPLE, "sue": "safety"})
    assert world.review.fact.releases
    world.decide("edit", actor="sue", edited={"text": "The key is kept.", "citations": []}).go()
    shown = world.content_of(ev.ReviewEdited)[0]
    assert "releases" not in shown
    world.people["tom"] = "safety"
    world.decide("approve", actor="tom").go()
    assert world.run.released == ()
    assert world.end.state is RunState.COMPLETED


# -- which verbs there are -------------------------------------------------------------------------------------------


def test_a_response_runs_the_step_once_more_with_the_words_and_costs_a_replan():
    world = asked().decide("respond", actor="ann", message="Answer in JSON.").go()
    guided = world.of(ev.GuidanceGiven)[0]
    assert (guided.stage, guided.step_ids, guided.actor) == ("fan_out", ("fan_out.0.e0.r0",), "ann")
    assert world.run.replans == {"fan_out": 1}
    assert "Answer in JSON." in [m.text for m in world.requests[-1].messages][-1]
    assert world.end.state is RunState.COMPLETED


def test_a_response_is_not_offered_when_no_replan_is_left():
    world = asked(lone(table=CELL, limits={"replans_per_stage": 1}), {"worker": say("no")})
    assert world.content_of(ev.ReviewOpened)[0]["respond"].endswith("which costs one of 1 replan left")
    world.decide("respond", actor="ann", message="Once more.").go()
    assert world.review.fact.verbs == ("approve", "edit", "reject")
    assert "respond" not in world.content_of(ev.ReviewOpened)[1]
    assert "no replans left" in world.content_of(ev.ReviewOpened)[1]["approve"]


def test_a_response_to_a_result_below_tau_has_it_planned_anew():
    script = {"critic": [scored(0.2), scored(0.9)]}
    world = asked(spec(), script).decide("respond", actor="ann", message="Name the year.").go()
    assert (world.run.epoch, world.run.replans) == (1, {"validate": 1})
    assert [fact.reason for fact in world.of(ev.Replanned)] == ["a_person_asked"]
    assert any("Name the year." in m.text for r in world.requests if r.agent == "planner" for m in r.messages)
    assert world.end.state is RunState.COMPLETED


def test_a_result_below_tau_of_a_fixed_plan_cannot_be_answered():
    world = asked(spec(roles=("critic",)), {"critic": scored(0.2)})
    assert world.review.fact.verbs == ("approve", "edit", "reject")
    assert (world.review.fact.score, world.review.fact.tau) == (0.2, 0.7)


def test_an_edited_result_goes_on_in_place_of_the_one_that_was_not_good_enough():
    world = asked(spec(roles=("critic",)), {"critic": scored(0.2)})
    shown = world.content_of(ev.ReviewOpened)[0]
    assert (shown["edit_of"], shown["edit_initial"]) == ("payload", {"text": "Found it.", "citations": []})
    assert [(one["name"], one["result"]) for one in shown["gate"]["checks"]] == [
        ("schema", "passed"),
        *((name, "not_configured") for name in ("policy", "invariants", "grounding")),
        ("confidence", "failed"),
    ]
    assert (shown["gate"]["score"], shown["gate"]["tau"]) == (0.2, 0.7)
    world.decide("edit", actor="ann", edited={"text": "Found it in 1987.", "citations": []}).go()
    assert world.end.state is RunState.COMPLETED
    assert world.outcome["text"] == "Found it in 1987."


def test_an_edited_payload_meets_its_gates_again():
    fabric = spec(
        gates={"citations": "exist"}, table={"schema_grounding_fail": {"batch": {"rungs": [{"reaction": "escalate"}]}}}
    )
    world = asked(fabric, {"aggregator": summary("All.", citations=("ledger.txt",))})
    assert (world.review.fact.item, world.review.fact.stage) == ("failure", "fan_in")
    shown = world.content_of(ev.ReviewOpened)[0]
    assert [(one["name"], one["result"]) for one in shown["gate"]["checks"]][3] == ("grounding", "failed")
    world.decide("edit", actor="ann", edited={"text": "All.", "citations": ["other.txt"]}).go()
    again = world.content_of(ev.ReviewOpened)[1]
    assert "other.txt" in again["message"]
    world.decide("edit", actor="ann", edited={"text": "All.", "citations": []}).go()
    assert world.end.state is RunState.COMPLETED
    assert world.asked("aggregator") == 1


def test_the_failed_step_may_be_run_again_after_an_edit_that_was_no_good():
    fabric = spec(
        gates={"citations": "exist"}, table={"schema_grounding_fail": {"batch": {"rungs": [{"reaction": "escalate"}]}}}
    )
    script = {"aggregator": [summary("All.", citations=("ledger.txt",)), summary("Anew.")]}
    world = asked(fabric, script).decide("edit", actor="ann", edited={"text": "A", "citations": ["x"]}).go()
    world.decide("respond", actor="ann", message="Cite nothing.").go()
    assert (world.asked("aggregator"), world.end.state) == (2, RunState.COMPLETED)


@pytest.mark.parametrize(
    ("edited", "said"),
    [
        ({"agent": "other", "title": "x", "instructions": "y"}, "agent: the brief is worker's, and stays so"),
        ({"agent": "worker", "instructions": ""}, "instructions: String should have at least 1 character"),
        ("go on", "Input should be a valid dictionary or instance of Brief"),
        (None, "Input should be a valid dictionary or instance of Brief"),
    ],
)
def test_a_brief_that_does_not_fit_is_not_taken(edited, said):
    world = asked().decide("edit", actor="ann", edited=edited).go()
    assert said in ignored(world)[0]
    assert world.run.reviews


def test_the_step_works_by_the_brief_that_was_written():
    world = asked().decide("edit", actor="ann", edited=BRIEF).go()
    assert any("Do it in one word." in m.text for m in world.requests[-1].messages)
    assert not any("Do part 1." in m.text for m in world.requests[-1].messages)


def test_what_has_no_brief_and_no_payload_is_not_edited():
    world = asked(spec(), {"planner": fails(Cause.QUOTA)}, HIGH, people={"may": "finance"})
    assert world.review.fact.verbs == ("approve", "respond", "reject")
