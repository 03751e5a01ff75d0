"""Deadlock monitor: agents pass work around and nothing comes of it (S0 "Deadlock Monitor"; semantics.md 4). The rules are ``core/deadlock_rules.py``.

Stops a brief before it goes out, and looks at one epoch alone. The same speaker passes the same target a near-identical brief twice in 20 moves.
A supervisor turns to the same worker again after the very message that it had heard before. Peers close a cycle of up to three for the second
time, with nothing new in it. It stands outside the agents and reads their moves alone: plans that a planner wrote, and handoffs. A plan that stands in the fabric is
nobody's move. Where workers take turns, the planner's goes out with the first; what a graph's rule passes on is a move of who spoke, with what it said.
Does not stop: two agents that go on telling each other something new, the briefs of one plan that are alike but not the same, and what is
passed on anew in a later epoch (replans are bounded).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fabric.core.deadlock_rules import Move, Rules, judge
from fabric.core.fingerprint import masked_fingerprint
from fabric.core.flow import Stage
from fabric.core.frozen import replace, value
from fabric.core.graph.state import Why
from fabric.core.mechanisms.contract import Proposal, ProposalKind, Scope, View
from fabric.core.near_identical import words_of
from fabric.core.policy import DeadlockMonitor as Config
from fabric.core.verdict import PASS, Evidence, Trip, Verdict

if TYPE_CHECKING:
    from fabric.core.context import Contents
    from fabric.core.envelope import Event
    from fabric.core.policy import FlowPolicy

JSON = Any
NAME = "deadlock_monitor"
SCOPE = Scope.RUN
APPLIES_TO: frozenset[ProposalKind] = frozenset({"dispatch", "handoff"})
OBSERVES: frozenset[str] = frozenset(
    {
        "stage_entered",
        "stage_left",
        "turn_opened",
        "speaker_chosen",
        "handed_off",
        "replanned",
        "model_answered",
        "child_answered",
    }
)
WAVES_KEPT = 200
"""As many moves as a policy may look back at."""


@value()
class Wave:
    """What went out at once, by reference: a plan, or one handoff's brief."""

    speaker: str
    ref: str
    target: str = ""
    """Of a handoff; of a plan its briefs say."""
    heard_ref: str = ""
    """What its speaker had heard last."""


@value()
class State:
    """The epoch's moves, oldest first, and what the next supervisor's move goes by."""

    waves: tuple[Wave, ...] = ()
    planner: str = ""
    """Who plans in this epoch; empty: the plan is nobody's."""
    plan_ref: str = ""
    heard_ref: str = ""


def config(policy: FlowPolicy) -> Config:
    """Cuts this mechanism's part out of the policy."""
    return policy.deadlock_monitor


def observe(state: State, event: Event) -> State:
    """Adds what was passed on; begins anew with an epoch."""
    fact: Any = event.fact
    match fact.kind:
        case "replanned":
            return State()
        case "handed_off":
            return _moved(state, Wave(fact.from_agent, event.content_ref, fact.to_agent))
        case "speaker_chosen" if fact.speaker and fact.speaker != fact.from_agent and fact.said_ref:
            by_rule = fact.why in BY_RULE
            return _moved(state, Wave(fact.from_agent, fact.said_ref, fact.speaker)) if by_rule else state
        case "turn_opened" if fact.branch == 0 and state.planner and state.plan_ref:
            return _moved(state, Wave(state.planner, state.plan_ref, heard_ref=state.heard_ref))
        case "stage_left":
            return replace(state, plan_ref=fact.output_ref) if fact.stage == Stage.PLAN else state
        case "stage_entered" if fact.stage == Stage.PLAN:
            return replace(state, planner=fact.agents[0] if fact.agents else "", plan_ref="")
        case "stage_entered" if fact.stage == Stage.FAN_OUT and fact.agents and state.planner and state.plan_ref:
            return _moved(state, Wave(state.planner, state.plan_ref, heard_ref=state.heard_ref))
        case "model_answered" if fact.verdict == "output" and fact.step_id.startswith("fan_out."):
            return replace(state, heard_ref=event.content_ref)
        case "child_answered" if event.content_ref:
            return replace(state, heard_ref=event.content_ref)
    return state


BY_RULE = frozenset({Why.TRANSITION, Why.RESTART, Why.DEFAULT, Why.RETRY_TARGET, Why.GOAL})
"""Reasons that are the graph's, and nobody's who takes part."""


def _moved(state: State, wave: Wave) -> State:
    return replace(state, waves=(*state.waves, wave)[-WAVES_KEPT:])


def check(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    """Judges a plan that is about to go out, or a handoff. ``proposal.agent`` passes it on; ``payload`` is the plan, or the brief."""
    if view.contents is None or not proposal.agent or not proposal.payload:
        return PASS
    before = [move for n, wave in enumerate(state.waves) for move in _moves(wave, n, view.contents)]
    heard = _heard(view.contents, state.heard_ref)
    proposed = _out(proposal.agent, proposal.target, proposal.payload, len(state.waves), heard)
    rules = Rules(config.similarity, config.brief_chars, config.window_moves, config.cycle_max)
    found = judge(rules, before, proposed, repeats=view.spec.policy.fan_in.mode == "quorum")
    if found is None:
        return PASS
    details: dict[str, Any] = {"speaker": proposal.agent, "cycle": list(found.cycle)}
    window = f"{config.window_moves} moves"
    evidence = Evidence(found.limit, found.observed, "times", f"epoch:{view.run.epoch}", window, details)
    return Trip(NAME, found.cause, evidence, found.what)


def _moves(wave: Wave, number: int, contents: Contents) -> list[Move]:
    content = contents.read(wave.ref) if wave.ref else {}
    output: JSON = content.get("output", content)
    said = {"text": output["text"]} if wave.target else output
    return _out(wave.speaker, wave.target, said, number, _heard(contents, wave.heard_ref))


def _out(speaker: str, target: str, said: JSON, wave: int, heard: str) -> list[Move]:
    """A handoff, where a target is named, or all briefs of a plan."""
    if target:
        return [Move(speaker, target, words_of(said), len(said.get("text", "").strip()), wave, peer=True)]
    return [
        Move(speaker, brief["agent"], _words(brief), len(brief["instructions"].strip()), wave, heard=heard)
        for brief in said["briefs"]
    ]


def _words(brief: JSON) -> Any:
    return words_of({"title": brief["title"], "instructions": brief["instructions"]})


def _heard(contents: Contents, ref: str) -> str:
    return masked_fingerprint(contents.read(ref)) if ref else ""
