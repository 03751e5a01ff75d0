"""Deadlock monitor: agents pass work around without a result (S0 "Deadlock Monitor";
docs/specification/protections.md). The rules are ``core/rules/deadlocks.py``.

Stops a brief before it goes out, in three cases:

1. One speaker passes one target a near-identical brief twice in 20 moves of an epoch.
2. A supervisor turns to a worker again after a reply near-identical to the one before the last. A planner does so
   when it plans anew because of its workers' answers, none of which failed. An agent of a graph does so by handing
   over, after a rule led back to it from a worker that used no tool.
3. Peers close a cycle of up to three for the second time, with nothing new in it.

The monitor reads only the moves of agents: plans that a planner wrote, and handoffs. A plan that the fabric contains
is no agent's move, and neither is a turn that a rule of a graph leads to. Where workers take turns, the planner's
move goes out with the first turn.
Does not stop: two agents that keep exchanging something new, a brief that has only lost items of its list, similar
but unequal briefs of one plan, a brief that is passed on anew in a later epoch (replans are bounded), and loops by
rules (``max_turns``, visits and failure signatures bound them).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fabric.core.graph.state import SpeakerReason
from fabric.core.mechanisms.contract import Proposal, ProposalKind, Scope, View
from fabric.core.rules.deadlocks import Move, Rules, judge, list_items
from fabric.core.rules.near_identical import read_words
from fabric.core.spec.policies.limits import DeadlockMonitor as Config
from fabric.core.spec.topologies.conversation import FINISH, TRANSFER
from fabric.core.values.fingerprint import mask_texts
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import replace, value
from fabric.core.values.taxonomy import PASS, Evidence, FailureClass, Trip, Verdict
from fabric.core.values.units import JSON

if TYPE_CHECKING:
    from fabric.core.events.envelope import Event
    from fabric.core.spec.policies.flow_policy import FlowPolicy
    from fabric.core.state.context import Contents

NAME = "deadlock_monitor"
TITLE = "Deadlock monitor"
STOPS = "agents that pass the same thing round and round"
PAGE = "docs/specification/protections.md"
CLASSES = (FailureClass.INTER_AGENT,)
SETTINGS: tuple[str, ...] = ("deadlock_monitor",)
UNCOUNTED = "judges what agents pass on to each other; each repetition is its own trip"
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
"""Most moves that a policy may look back at."""


@value()
class Wave:
    """The briefs that went out at once, by reference: those of a plan, or of one handoff."""

    speaker: str
    ref: str
    target: str = ""
    """Target of a handoff; "" for a plan, whose briefs name their targets."""
    heard_ref: str = ""
    """Reference of the message that came back to the speaker since the wave before; "": none."""
    past: bool = False
    """True for a plan of an earlier epoch."""


@value()
class State:
    """The moves, oldest first, and the facts for judging the next supervisor's move."""

    waves: tuple[Wave, ...] = ()
    planner: str = ""
    """Agent that plans in this epoch; "": no agent wrote the plan."""
    plan_ref: str = ""
    heard_ref: str = ""
    came_back: tuple[str, str] = ("", "")
    """Sender and receiver of the message that a rule of a graph brought back."""
    acted: bool = False
    """True: a tool was used since the last move."""
    failed: bool = False
    """True: something was decided about a worker since the last move, and the supervisor turns to it for that."""


def config(policy: FlowPolicy) -> Config:
    """Return this mechanism's part of the policy."""
    return policy.deadlock_monitor


def observe(state: State, event: Event) -> State:
    """Add briefs that were passed on, and messages that came back. Of an earlier epoch, messages that its planner had
    heard are kept.
    """
    fact: Any = event.fact
    match fact.kind:
        case "replanned":
            return _anew(state, fact.stage)
        case "handed_off":
            heard = _came_back(state, fact.from_agent, fact.to_agent)
            return _replace_waves(state, Wave(fact.from_agent, event.content_ref, fact.to_agent, heard))
        case "speaker_chosen" if fact.speaker and fact.said_ref and fact.why in BY_RULE:
            return replace(state, heard_ref=fact.said_ref, came_back=(fact.from_agent, fact.speaker))
        case "tool_answered" if fact.tool not in PASSING_ON and not fact.hands_to:
            return state if state.acted else replace(state, acted=True)
        case "step_failed" | "reaction_decided" if fact.step_id.startswith("fan_out."):
            return state if state.failed else replace(state, failed=True)
        case "turn_opened" if fact.branch == 0:
            return _fold_plan(state)
        case "stage_left" if fact.stage == Stage.PLAN:
            return replace(state, plan_ref=fact.output_ref)
        case "stage_entered" if fact.stage == Stage.PLAN:
            return replace(state, planner=fact.agents[0] if fact.agents else "", plan_ref="")
        case "stage_entered" if fact.stage == Stage.FAN_OUT and fact.agents:
            return _fold_plan(state)
        case "model_answered" if fact.verdict == "output" and fact.step_id.startswith("fan_out."):
            return replace(state, heard_ref=event.content_ref)
        case "child_answered" if event.content_ref:
            return replace(state, heard_ref=event.content_ref)
    return state


BY_RULE = frozenset(
    {
        SpeakerReason.TRANSITION,
        SpeakerReason.RESTART,
        SpeakerReason.DEFAULT,
        SpeakerReason.RETRY_TARGET,
        SpeakerReason.GOAL,
    }
)
"""Reasons of turns that the graph chose, and no participant."""
PASSING_ON = frozenset({TRANSFER, FINISH})
"""Tools that only pass the turn on."""
BROUGHT = frozenset({Stage.FAN_OUT, Stage.FAN_IN})
"""Stages whose failure is a failure of the workers' results."""


def _anew(state: State, stage: Stage) -> State:
    """Return the state with which a new epoch begins. Only a supervisor that plans by its workers' answers can be
    stuck, not one that plans after a failure.
    """
    if stage not in BROUGHT or state.failed:
        return State()
    plans = tuple(replace(wave, past=True) for wave in state.waves if not wave.target)
    return State(plans, heard_ref=state.heard_ref)


def _fold_plan(state: State) -> State:
    """Return the state after a plan of a planner's went out."""
    if not state.planner or not state.plan_ref:
        return state
    return _replace_waves(state, Wave(state.planner, state.plan_ref, heard_ref=state.heard_ref))


def _came_back(state: State, speaker: str, target: str) -> str:
    """Return the target's message, where a rule brought it back to the speaker. "": the target used a tool, or the
    message came otherwise.
    """
    return state.heard_ref if state.came_back == (target, speaker) and not state.acted else ""


def _replace_waves(state: State, wave: Wave) -> State:
    waves = (*state.waves, wave)[-WAVES_KEPT:]
    return replace(state, waves=waves, heard_ref="", came_back=("", ""), acted=False, failed=False)


def check(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    """Judge a plan that is about to go out, or a handoff. ``proposal.agent`` passes it on; ``payload`` is the plan,
    or the brief.
    """
    contents = view.contents
    if contents is None or not proposal.agent or not proposal.payload or proposal.by_rule:
        return PASS
    before = [move for n, wave in enumerate(state.waves) for move in _moves(wave, n, contents)]
    heard = _came_back(state, proposal.agent, proposal.target) if proposal.target else state.heard_ref
    proposed = _list_moves(
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
    return _list_moves(wave, number, _output(contents.read(wave.ref) if wave.ref else {}), contents)


def _output(content: JSON) -> JSON:
    return content.get("output", content)


def _list_moves(wave: Wave, number: int, said: JSON, contents: Contents) -> list[Move]:
    """Return a handoff, where a target is named, or all briefs of a plan."""
    heard = read_words(mask_texts(_output(contents.read(wave.heard_ref)))) if wave.heard_ref else None
    if wave.target:
        text = said.get("text", "")
        words, items = read_words({"text": text}), list_items(text)
        return [Move(wave.speaker, wave.target, words, len(text.strip()), number, True, heard, items)]
    return [
        Move(
            wave.speaker,
            brief["agent"],
            read_words({"title": brief["title"], "instructions": brief["instructions"]}),
            len(brief["instructions"].strip()),
            number,
            heard=heard,
            items=list_items(brief["instructions"]),
            past=wave.past,
        )
        for brief in said["briefs"]
    ]
