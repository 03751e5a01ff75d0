"""The deadlock monitor sees patterns in a journal, and each tier's cell follows (docs/specification/decision-table.md)."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from fabric.core import events as ev
from fabric.core.events.envelope import Event
from fabric.core.graph.state import SpeakerReason
from fabric.core.mechanisms import deadlock_monitor
from fabric.core.spec.policies.limits import DeadlockMonitor
from fabric.core.state.context import Contents
from fabric.core.values.flow import RunState, Stage, StageOutcome
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import PASS, Cause, FailureType, Tier, Trip
from fabric.runtime.ports.journal import Document
from tests.fabric.core.fabrics import lone, plan, proposal, spec, view
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import planned, summary

TEXT = "Look into the booking of the customer and say whether it can be moved to another day."
TWICE = [{"agent": "worker", "title": "Part", "instructions": TEXT}] * 2


class Journal:
    """A journal as short as a test can say it: facts with their contents."""

    def __init__(self) -> None:
        self.contents = Contents()
        self.state = deadlock_monitor.State()
        self.seq = 0

    def add(self, fact, content=None) -> Journal:
        self.seq += 1
        ref = f"ref-{self.seq}" if content is not None else ""
        if content is not None:
            self.contents.put(ref, content, 1)
        self.state = deadlock_monitor.observe(self.state, Event(self.seq, 0, fact, "", ref, 1))
        return self

    def planned(self, *briefs, epoch: int = 0) -> Journal:
        """A plan that goes out."""
        self.seq += 1
        ref = f"plan-{self.seq}"
        self.contents.put(ref, {"output": plan(briefs=list(briefs))}, 1)
        self.add(ev.StageEntered(stage=Stage.PLAN, epoch=epoch, deadline_at=0, agents=("planner",)))
        self.add(ev.StageLeft(stage=Stage.PLAN, epoch=epoch, outcome=StageOutcome.PASSED, output_ref=ref))
        agents = tuple(brief["agent"] for brief in briefs)
        return self.add(ev.StageEntered(stage=Stage.FAN_OUT, epoch=epoch, deadline_at=0, agents=agents))

    def answered(self, text: str) -> Journal:
        fact = ev.ModelAnswered(command_id="c", attempt=1, step_id="fan_out.0.e0.r0", verdict="output")
        return self.add(fact, {"output": {"text": text}})

    def handed(self, way: str, text: str) -> Journal:
        one, other = way.split(">")
        return self.add(ev.HandedOff(step_id="s", from_agent=one, to_agent=other), {"text": text})

    def check(self, **fields):
        about = replace(view(), contents=self.contents)
        return deadlock_monitor.check(DeadlockMonitor(), self.state, proposal(**fields), about)

    def dispatch(self, *briefs):
        return self.check(kind="dispatch", agent="planner", payload=plan(briefs=list(briefs)))

    def handoff(self, way: str, text: str):
        one, other = way.split(">")
        return self.check(kind="handoff", agent=one, target=other, payload={"text": text})


BRIEF = {"agent": "worker", "title": "Part", "instructions": TEXT}


def test_a_plan_that_goes_out_once_more_in_the_same_epoch_is_the_same_brief_again():
    verdict = Journal().planned(BRIEF).dispatch(BRIEF)
    assert isinstance(verdict, Trip)
    assert (verdict.mechanism, verdict.cause) == ("deadlock_monitor", Cause.BRIEF_REPEATED)
    assert verdict.message == "planner passed worker the same brief twice (limit 2)"
    assert verdict.evidence.window == "20 moves"
    assert verdict.evidence.details == {"speaker": "planner", "cycle": ["planner", "worker"]}


def replanned(stage: Stage, epoch: int = 1):
    return ev.Replanned(stage=stage, epoch=epoch, reason="grounding")


@pytest.mark.parametrize("stage", Stage)
def test_a_new_epoch_begins_anew(stage):
    journal = Journal().planned(BRIEF).add(replanned(stage))
    assert journal.dispatch(BRIEF) is PASS
    assert journal.planned(BRIEF, epoch=1).dispatch(BRIEF).cause is Cause.BRIEF_REPEATED


@pytest.mark.parametrize(
    ("stage", "trips"), [(Stage.FAN_OUT, True), (Stage.FAN_IN, True), (Stage.VALIDATE, False), (Stage.FINALIZE, False)]
)
def test_a_planner_that_plans_anew_twice_because_of_one_reply_is_stuck(stage, trips):
    journal, texts = Journal(), (TEXT, f"{TEXT} Mind its fee.", "Try another way, please: ask them, or look it up.")
    for epoch, text in enumerate(texts[:2]):
        journal.planned({**BRIEF, "instructions": text}, epoch=epoch).answered("I need more information.")
        journal.add(replanned(stage, epoch + 1))
    verdict = journal.dispatch({**BRIEF, "instructions": texts[2]})
    assert verdict.cause is Cause.SUPERVISOR_STUCK if trips else verdict is PASS
    nothing = (
        Journal().planned(BRIEF).answered("I need more information.").add(replanned(stage)).planned(BRIEF, epoch=1)
    )
    assert nothing.add(replanned(stage, 2)).dispatch(BRIEF) is PASS, "nothing came back the second time"


def test_a_supervisor_that_hears_the_same_again_and_turns_to_the_same_worker_is_stuck():
    short = {**BRIEF, "instructions": "Go on."}
    journal = Journal().planned(short).answered("I need more information, since 10:31:02.")
    assert journal.dispatch(short) is PASS
    journal.planned(short).answered("I need more information, since 10:32:59.")
    assert journal.dispatch(short).cause is Cause.SUPERVISOR_STUCK
    assert journal.dispatch({**short, "agent": "other"}) is PASS
    journal.answered("Here it is.")
    assert journal.dispatch(short) is PASS


def test_peers_that_hand_something_round():
    journal = Journal().handed("a>b", "yours").handed("b>a", "yours").handed("a>b", "yours")
    verdict = journal.handoff("b>a", "yours")
    assert verdict.cause is Cause.HANDOFF_CYCLE
    assert verdict.evidence.details["cycle"] == ["a", "b", "a"]
    assert journal.handoff("b>a", "The customer called and wants Monday.") is PASS


def test_a_planner_that_plans_anew_because_a_worker_failed_is_not_stuck():
    journal, failed = Journal(), ev.StepFailed(step_id="fan_out.1.e0.r0", cause=Cause.CORRECTIONS_SPENT, message="no")
    for epoch in range(2):
        journal.planned(BRIEF, epoch=epoch).answered("I need more information.").add(failed)
        journal.add(replanned(Stage.FAN_IN, epoch + 1))
    assert journal.dispatch(BRIEF) is PASS


class Hub(Journal):
    """A hub that hands over to its worker, which comes back by a rule of the graph."""

    def came_back(self, text: str, way: str = "worker>hub", why: SpeakerReason = SpeakerReason.TRANSITION) -> Hub:
        worker, hub = way.split(">")
        self.contents.put(f"said-{self.seq}", {"output": {"text": text}}, 1)
        chosen: dict[str, Any] = {"turn": 1, "from_agent": worker, "speaker": hub, "why": why, "transition": 0}
        self.add(ev.SpeakerChosen(step_id="fan_out.1.e0.r0", said_ref=f"said-{self.seq}", **chosen), {"context": {}})
        return self

    def used(self, tool: str) -> Hub:
        given: dict[str, Any] = {
            "command_id": "c",
            "attempt": 1,
            "step_id": "fan_out.1.e0.r0",
            "call_id": "c",
            "args_hash": "",
        }
        self.add(ev.ToolAnswered(tool=tool, masked_hash="h", **given))
        return self


def rounds(between=lambda hub: hub, replies=("I need more information.",) * 2, way: str = "worker>hub") -> Hub:
    hub = Hub()
    for n, reply in enumerate(replies):
        hub.handed("hub>worker", f"News {'abc'[n]}.")
        between(hub)
        hub.came_back(reply, way)
    return hub


def test_a_hub_whose_worker_comes_back_with_the_same_each_time_is_stuck():
    verdict = rounds().handoff("hub>worker", "Other news.")
    assert (verdict.cause, verdict.evidence.details["cycle"]) == (Cause.SUPERVISOR_STUCK, ["hub", "worker", "hub"])
    assert rounds(lambda hub: hub.used("transfer")).handoff("hub>worker", "Other news.") is not PASS


def test_a_hub_that_goes_on_is_none():
    assert rounds(replies=("Rent is paid.", "Staff is there.")).handoff("hub>worker", "Other news.") is PASS
    assert rounds(lambda hub: hub.used("look")).handoff("hub>worker", "Other news.") is PASS, "its worker did something"
    assert rounds(way="other>hub").handoff("hub>worker", "Other news.") is PASS, "another agent came back"
    assert rounds().handoff("hub>other", "Other news.") is PASS


def test_a_turn_that_a_rule_leads_on_to_is_no_agents_move():
    journal = Hub()
    for _ in range(5):
        journal.came_back(TEXT, "fix>verify").came_back(TEXT, "verify>fix")
    assert journal.state.waves == ()
    by_rule = {"kind": "handoff", "agent": "fix", "target": "verify", "payload": {"text": TEXT}, "by_rule": True}
    again = Journal().handed("fix>verify", TEXT)
    assert again.check(**by_rule) is PASS
    assert again.check(**{**by_rule, "by_rule": False}) is not PASS


def test_a_plan_without_a_planner_is_no_move():
    journal = Journal().add(ev.StageEntered(stage=Stage.PLAN, epoch=0, deadline_at=0))
    journal.add(ev.StageEntered(stage=Stage.FAN_OUT, epoch=0, deadline_at=0, agents=("worker",)))
    assert journal.state.waves == ()
    world = ran(lone(topology={"plan": plan(briefs=TWICE)}))
    assert (world.end.state, world.reactions) == (RunState.COMPLETED, [])


def test_numbers_that_would_switch_it_off_are_refused():
    for wrong in ({"window_moves": 2}, {"similarity": 0.1}, {"cycle_max": 4}, {"brief_chars": 5_000}):
        with pytest.raises(ValidationError, match=f"policy.deadlock_monitor.{next(iter(wrong))}"):
            spec(deadlock_monitor=wrong)


# -- in the engine -----------------------------------------------------------------------------------------------------


def doubled(**fields):
    return spec(**fields), {"planner": planned(briefs=TWICE)}


@pytest.mark.parametrize(
    ("tier", "reactions", "state"),
    [
        (Tier.INTERACTIVE, ["abort"], RunState.ABORTED),
        (Tier.BATCH, ["abort"], RunState.ABORTED),
        (Tier.HIGH_STAKES, ["escalate"], RunState.ABORTED),
    ],
)
def test_a_plan_that_says_the_same_twice_takes_the_row_of_the_deadlock(tier, reactions, state):
    fabric, script = doubled()
    world = ran(fabric, script, tier=tier)
    decided = world.of(ev.ReactionDecided)
    assert [fact.reaction for fact in decided] == reactions
    assert {fact.failure_type for fact in decided} == {FailureType.DEADLOCK}
    assert decided[0].cause.evidence.details["cycle"] == ["planner", "worker"]
    assert world.asked("worker") == 0, "it was not passed on"
    if tier is Tier.BATCH:
        [skipped] = world.of(ev.RungSkipped)
        assert (skipped.reaction, skipped.reason) == (
            "handover",
            "no stronger agent or supervisor above the stalled pair is configured",
        )
    if tier is Tier.HIGH_STAKES:
        world.decide("reject").go()
    assert world.end.state is state


def test_under_a_quorum_several_answers_to_one_question_are_the_point():
    fabric, script = doubled(fan_in={"mode": "quorum", "k": 1})
    world = ran(fabric, {**script, "worker": summary()})
    assert (world.end.state, world.reactions) == (RunState.COMPLETED, [])


def test_a_supervisor_whose_worker_asks_for_more_each_time_is_stopped_before_it_turns_to_it_again():
    script = {"planner": planned(), "worker": summary("I need more information.")}
    world = ran(
        spec(gates={"citations": "required"}),
        script,
        tier=Tier.BATCH,
        documents=(Document("bridge.md", "It is 40 metres long."),),
    )
    assert world.reactions == ["replan", "replan", "abort"]
    last = world.of(ev.ReactionDecided)[-1]
    assert (last.failure_type, last.cause.cause) == (FailureType.DEADLOCK, Cause.SUPERVISOR_STUCK)
    assert (world.asked("planner"), world.asked("worker")) == (3, 2)
    assert world.end.reason == "planner sent work to worker again after nearly the same message (limit 2)"
