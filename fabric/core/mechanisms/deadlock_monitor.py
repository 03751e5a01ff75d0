"""Deadlock monitor: agents pass work around and nothing comes of it (S0 "Deadlock Monitor"; semantics.md 4). The rules are ``core/deadlock_rules.py``.

Stops a brief before it goes out. The same speaker passes the same target a near-identical brief twice in 20 moves of an epoch.
Whoever supervises turns to the same worker again after a reply that is near-identical to the one before the last time. A planner does so when it plans anew because of
what its workers said, none of whom failed; an agent of a graph does so by handing over, after a rule led back to it from a worker that used no tool. Peers close a cycle of up to three for the second
time, with nothing new in it. It stands outside the agents and reads their moves alone: plans that a planner wrote, and handoffs. A plan that stands in the fabric is
nobody's move, and neither is a turn that a rule of a graph leads on to. Where workers take turns, the planner's goes out with the first.
Does not stop: two agents that go on telling each other something new, a brief that has only lost items of its list, the briefs of one plan that are alike but not the same, a brief that is
passed on anew in a later epoch (replans are bounded), and loops by rules (``max_turns``, visits and failure signatures bound them).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fabric.core.deadlock_rules import Move, Rules, judge, list_items
from fabric.core.fingerprint import masked
from fabric.core.flow import Stage
from fabric.core.frozen import replace, value
from fabric.core.graph.state import Why
from fabric.core.mechanisms.contract import Proposal, ProposalKind, Scope, View
from fabric.core.near_identical import words_of
from fabric.core.policy import DeadlockMonitor as Config
from fabric.core.spec_conversation import FINISH, TRANSFER
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
        "step_failed",
        "reaction_decided",
        "tool_answered",
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
    """The message that came back to the speaker since the wave before; empty: none."""
    past: bool = False
    """Of a plan: an earlier epoch's."""


@value()
class State:
    """The moves, oldest first, and what the next supervisor's move goes by."""

    waves: tuple[Wave, ...] = ()
    planner: str = ""
    """Who plans in this epoch; empty: the plan is nobody's."""
    plan_ref: str = ""
    heard_ref: str = ""
    came_back: tuple[str, str] = ("", "")
    """By a rule of a graph: from whom the word came back, and to whom."""
    acted: bool = False
    """True: a tool was used since the last move."""
    failed: bool = False
    """True: something was decided about a worker since the last move, and the supervisor turns to it for that."""


def config(policy: FlowPolicy) -> Config:
    """Cuts this mechanism's part out of the policy."""
    return policy.deadlock_monitor


def observe(state: State, event: Event) -> State:
    """Adds what was passed on, and what came back; keeps of an earlier epoch what its planner had heard."""
    fact: Any = event.fact
    match fact.kind:
        case "replanned":
            return _anew(state, fact.stage)
        case "handed_off":
            heard = _came_back(state, fact.from_agent, fact.to_agent)
            return _moved(state, Wave(fact.from_agent, event.content_ref, fact.to_agent, heard))
        case "speaker_chosen" if fact.speaker and fact.said_ref and fact.why in BY_RULE:
            return replace(state, heard_ref=fact.said_ref, came_back=(fact.from_agent, fact.speaker))
        case "tool_answered" if fact.tool not in PASSING_ON and not fact.hands_to:
            return state if state.acted else replace(state, acted=True)
        case "step_failed" | "reaction_decided" if fact.step_id.startswith("fan_out."):
            return state if state.failed else replace(state, failed=True)
        case "turn_opened" if fact.branch == 0:
            return _planned(state)
        case "stage_left" if fact.stage == Stage.PLAN:
            return replace(state, plan_ref=fact.output_ref)
        case "stage_entered" if fact.stage == Stage.PLAN:
            return replace(state, planner=fact.agents[0] if fact.agents else "", plan_ref="")
        case "stage_entered" if fact.stage == Stage.FAN_OUT and fact.agents:
            return _planned(state)
        case "model_answered" if fact.verdict == "output" and fact.step_id.startswith("fan_out."):
            return replace(state, heard_ref=event.content_ref)
        case "child_answered" if event.content_ref:
            return replace(state, heard_ref=event.content_ref)
    return state


BY_RULE = frozenset({Why.TRANSITION, Why.RESTART, Why.DEFAULT, Why.RETRY_TARGET, Why.GOAL})
"""Reasons that are the graph's, and nobody's who takes part."""
PASSING_ON = frozenset({TRANSFER, FINISH})
"""Tools that do nothing but pass the word on."""
BROUGHT = frozenset({Stage.FAN_OUT, Stage.FAN_IN})
"""Stages whose failure is that of what the workers brought."""


def _anew(state: State, stage: Stage) -> State:
    """The state with which a new epoch begins. Only a supervisor that goes by its workers' words can be stuck, not one that answers a failure."""
    if stage not in BROUGHT or state.failed:
        return State()
    plans = tuple(replace(wave, past=True) for wave in state.waves if not wave.target)
    return State(plans, heard_ref=state.heard_ref)


def _planned(state: State) -> State:
    """The state after a plan of a planner's went out."""
    if not state.planner or not state.plan_ref:
        return state
    return _moved(state, Wave(state.planner, state.plan_ref, heard_ref=state.heard_ref))


def _came_back(state: State, speaker: str, target: str) -> str:
    """The target's message, where a rule brought it back to the speaker; empty: the target used a tool, or it came otherwise."""
    return state.heard_ref if state.came_back == (target, speaker) and not state.acted else ""


def _moved(state: State, wave: Wave) -> State:
    waves = (*state.waves, wave)[-WAVES_KEPT:]
    return replace(state, waves=waves, heard_ref="", came_back=("", ""), acted=False, failed=False)


def check(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    """Judges a plan that is about to go out, or a handoff. ``proposal.agent`` passes it on; ``payload`` is the plan, or the brief."""
    contents = view.contents
    if contents is None or not proposal.agent or not proposal.payload or proposal.by_rule:
        return PASS
    before = [move for n, wave in enumerate(state.waves) for move in _moves(wave, n, contents)]
    heard = _came_back(state, proposal.agent, proposal.target) if proposal.target else state.heard_ref
    proposed = _out(
        Wave(proposal.agent, "", proposal.target, heard), len(state.waves), _output(proposal.payload), contents
    )
    rules = Rules(config.similarity, config.brief_chars, config.window_moves, config.cycle_max)
    found = judge(rules, before, proposed, repeats=view.spec.policy.fan_in.mode == "quorum")
    if found is None:
        return PASS
    details: dict[str, Any] = {"speaker": proposal.agent, "cycle": list(found.cycle)}
    window = f"{config.window_moves} moves"
    evidence = Evidence(found.limit, found.observed, "times", f"epoch:{view.run.epoch}", window, details)
    return Trip(NAME, found.cause, evidence, found.what)


def _moves(wave: Wave, number: int, contents: Contents) -> list[Move]:
    return _out(wave, number, _output(contents.read(wave.ref) if wave.ref else {}), contents)


def _output(content: JSON) -> JSON:
    return content.get("output", content)


def _out(wave: Wave, number: int, said: JSON, contents: Contents) -> list[Move]:
    """A handoff, where a target is named, or all briefs of a plan."""
    heard = words_of(masked(_output(contents.read(wave.heard_ref)))) if wave.heard_ref else None
    if wave.target:
        text = said.get("text", "")
        words, items = words_of({"text": text}), list_items(text)
        return [Move(wave.speaker, wave.target, words, len(text.strip()), number, True, heard, items)]
    return [
        Move(
            wave.speaker,
            brief["agent"],
            words_of({"title": brief["title"], "instructions": brief["instructions"]}),
            len(brief["instructions"].strip()),
            number,
            heard=heard,
            items=list_items(brief["instructions"]),
            past=wave.past,
        )
        for brief in said["briefs"]
    ]
