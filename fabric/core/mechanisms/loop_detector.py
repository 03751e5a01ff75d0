"""Loop detectors over one agent step (S0 "Loop Detector", S1 "Tool call loop detection";
docs/specification/protections.md). The rules themselves are ``core/rules/loops.py``.

Stops the call that reaches the threshold of a rule, before it is executed.

- A: one tool is called again with equal arguments within a few calls, with equal masked results.
- B: a period of 2 or 3 is repeated at the end of the last turns, with equal results.
- C: near-identical calls come within a few calls, with equal masked results.
- D: an equal call comes in a row, whatever its results.
- F: calls in a row were each made before in the step, with equal results.
- G: the call of C comes over many calls, with one result and nothing new in between.
- H: a call comes after turns of nothing but failures.
- I: the agent writes nearly equal text before its calls, and since then its calls failed, or had like arguments and
  equal results.

Rule E stops the next request: the agent gave an equal answer again, and a gate rejected it. An unusable answer spends
the step's corrections (``agent_loop.py``). E does not judge the plan stage, whose malformed plans have a row of their
own. A preset has one rule in place of these. ``loop_limits.py`` has the numbers.

Only the calls that the model newly proposed count: blocked calls, retries and replays do not. A missing result counts
as equal in A and B. A window covers one branch in one epoch: its calls are those of the newest activation, its
answers those of all activations. A review's answer starts both anew; a call with a person's arguments counts like any
other.
Does not stop: calls that differ in a number or a date, an equal call with another result (up to D), tools declared as
polling, and a call that a person allowed to go on in a review (``let_pass.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from fabric.core.mechanisms.contract import Proposal, ProposalKind, Scope, View
from fabric.core.rules.loops import (
    ANSWER_CHARS_MIN,
    ONE_CALL,
    LoopFinding,
    ProposedCall,
    SeenCall,
    judge,
    repeated_answer,
)
from fabric.core.rules.near_identical import Likeness, Words, likeness, near_identical, read_words
from fabric.core.spec.policies.loop_limits import LoopDetector as Config
from fabric.core.state.context import call_args
from fabric.core.state.let_pass import NOTHING, OBSERVED, LetPass, calls_allowed
from fabric.core.texts.written_calls import call_shown
from fabric.core.values.fingerprint import encode, masked_fingerprint
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import replace, value
from fabric.core.values.taxonomy import PASS, Cause, Evidence, FailureClass, Trip, Verdict
from fabric.core.values.units import JSON

if TYPE_CHECKING:
    from fabric.core.events.envelope import Event
    from fabric.core.spec.policies.flow_policy import FlowPolicy

NAME = "loop_detector"
TITLE = "Loop detector"
STOPS = "an agent that repeats its calls"
PAGE = "docs/specification/protections.md"
CLASSES = (FailureClass.INTER_AGENT, FailureClass.VERIFICATION)
SETTINGS: tuple[str, ...] = ("loop_detector",)
UNCOUNTED = ""
SCOPE = Scope.BRANCH
APPLIES_TO: frozenset[ProposalKind] = frozenset({"tool", "model"})
ANEW = OBSERVED | {"call_responded"}
OBSERVES: frozenset[str] = ANEW | frozenset(
    {"call_issued", "tool_answered", "call_deduplicated", "call_refused", "model_answered"}
)
KEPT = 160
"""Calls remembered: ten turns of sixteen calls, so that a step of any length costs equally much."""
ANSWERS_KEPT = 16
"""Answers remembered; corrections and rungs end a part long before."""


@value()
class State:
    """The windows, oldest first."""

    calls: tuple[SeenCall, ...] = ()
    answers: tuple[str, ...] = ()
    """References of the answers that were outputs."""
    warned: bool = False
    """True if a call was blocked earlier in this activation."""
    agent: str = ""
    """Agent of the calls, from the second activation on."""
    passing: LetPass = NOTHING
    """Calls that a person allowed to go on."""
    said: tuple[tuple[str, str], ...] = ()
    """The answers that calls came with: the id of the last call before each, and its reference."""


def config(policy: FlowPolicy) -> Config:
    """Return this mechanism's part of the policy."""
    return policy.loop_detector


def observe(state: State, event: Event) -> State:
    """Add a newly issued tool call, and later its result; an answer; a call that was blocked here. Begins anew where
    a person spoke.
    """
    fact: Any = event.fact
    if fact.kind in ANEW:
        return _anew(state, fact)
    if fact.kind == "call_issued":
        if fact.call == "model" and fact.attempt > 1:  # A call that began with a failed attempt is proposed anew.
            return replace(state, calls=tuple(one for one in state.calls if one.turn != fact.turn))
        if fact.call != "tool" or fact.attempt > 1:
            return state
        seen = SeenCall(fact.target, fact.args_hash, fact.turn, fact.call_id, args_ref=fact.args_ref)
        return replace(state, calls=(*state.calls, seen)[-KEPT:])
    if fact.kind == "call_deduplicated":
        seen = SeenCall(fact.tool, fact.args_hash, fact.turn, fact.call_id, fact.masked_hash)
        return replace(state, calls=(*state.calls, seen)[-KEPT:])
    if fact.kind == "call_refused":
        return replace(state, warned=True) if fact.mechanism == NAME and not state.warned else state
    if fact.kind == "model_answered":
        if fact.verdict == "calls" and event.content_ref:
            last = state.calls[-1].call_id if state.calls else ""
            return replace(state, said=(*state.said, (last, event.content_ref))[-ANSWERS_KEPT:])
        if fact.verdict != "output" or not event.content_ref:
            return state
        return replace(state, answers=(*state.answers, event.content_ref)[-ANSWERS_KEPT:])
    calls = list(state.calls)
    for n in range(len(calls) - 1, -1, -1):
        if calls[n].call_id == fact.call_id and not calls[n].masked:
            calls[n] = replace(calls[n], masked=fact.masked_hash, failed=bool(getattr(fact, "failure", "")))
            break
    return replace(state, calls=tuple(calls))


def _anew(state: State, fact: Any) -> State:
    """Return the state after a person may have spoken, or another agent took over."""
    if fact.kind == "call_responded":
        return State(agent=state.agent, passing=state.passing)
    passing = calls_allowed(state.passing, fact) if fact.step_id else state.passing
    if fact.kind == "reaction_decided":
        return state if passing is state.passing else replace(state, passing=passing)
    anew = fact.approved or (state.agent and state.agent != fact.agent)
    return State(answers=() if anew else state.answers, agent=fact.agent, passing=passing)


def check(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    """Judge one proposed call, or the request that would follow an answer."""
    if proposal.kind == "model":
        return _answers(config, state, proposal, view)
    call = (proposal.target, proposal.args_hash)
    if proposal.polling or call in state.passing.calls:
        return PASS
    passing = state.passing.calls
    like = _match_arguments(proposal, view)
    asked = ProposedCall(
        call,
        proposal.turn,
        proposal.wave,
        state.calls,
        like,
        state.warned,
        lambda seen: view.spec.polls(seen.tool) or seen.call in passing,
        lambda: _call_title(proposal, view),
        lambda: _announcements(state, view, config.said_window),
        lambda seen: _likeness(seen, proposal, view),
    )
    found = judge(config, asked)
    if found is None:
        return PASS
    advice = f"This call was not executed. You {found.what}. {_what_now(found)}"
    return _trip(proposal.agent, found, {"tool": call[0], "args_hash": call[1]}, "calls", found.advice or advice)


def _what_now(found: LoopFinding) -> str:
    if found.detector in ONE_CALL:
        return "Use what you have, or do something else. Ask for it again only if you wait for its result to change."
    return "Its result will not change. Use what you have, or do something else."


def _answers(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    if proposal.final or proposal.attempt > 1 or len(state.answers) < config.answer_threshold or view.contents is None:
        return PASS
    if proposal.stage is Stage.PLAN:
        return PASS  # A malformed plan has a row of its own, which ends in a review or an end.
    found = repeated_answer(config, [answer_mark(view.contents.read(ref)) for ref in state.answers])
    return PASS if found is None else _trip(proposal.agent, found, {}, "answers", "")


def answer_mark(content: JSON) -> str:
    """Return the masked fingerprint of an answer's content; "" for an answer that is too short. A fitting answer is
    compared in its parsed form.
    """
    said = content["output"] if "output" in content else content["text"]
    size = len(said) if isinstance(said, str) else len(encode(said))
    return masked_fingerprint(said) if size >= ANSWER_CHARS_MIN else ""


def _match_arguments(proposal: Proposal, view: View) -> Callable[[SeenCall], bool]:
    """Compare arguments where they are journaled: by reference, so that no fact has to carry them."""
    own: list[Words] = []

    def is_like(seen: SeenCall) -> bool:
        if view.contents is None or not seen.args_ref or not proposal.args_ref:
            return False
        if not own:
            own.append(read_words(call_args(view.contents, proposal.args_ref, proposal.call_id)))
        return near_identical(own[0], read_words(call_args(view.contents, seen.args_ref, seen.call_id)))

    return is_like


def _announcements(state: State, view: View, window: int) -> list[tuple[str, Words]]:
    """Return the last announcements, oldest first; none where the last answer announced too little."""
    said: list[tuple[str, Words]] = []
    contents = view.contents
    if contents is None:
        return said
    for after, ref in reversed(state.said):
        text = str(contents.read(ref).get("text", "")).strip()
        if len(text) >= ANSWER_CHARS_MIN:
            said.append((after, read_words({"text": text})))
        if not said or len(said) == window:
            break
    return said[::-1]


def _likeness(seen: Sequence[SeenCall], proposal: Proposal, view: View) -> Likeness:
    """Return how alike the arguments of calls are, by tool. Unreadable arguments count as alike."""
    if view.contents is None or not proposal.args_ref:
        return Likeness.ALIKE
    try:
        asked = [{one.tool: call_args(view.contents, one.args_ref, one.call_id)} for one in seen if one.args_ref]
        return likeness([*asked, {proposal.target: call_args(view.contents, proposal.args_ref, proposal.call_id)}])
    except LookupError:
        return Likeness.ALIKE


def _call_title(proposal: Proposal, view: View) -> str:
    if view.contents is None or not proposal.args_ref:
        return call_shown(proposal.target, None)
    return call_shown(proposal.target, call_args(view.contents, proposal.args_ref, proposal.call_id))


def _trip(agent: str, found: LoopFinding, of: dict[str, Any], unit: str, advice: str) -> Trip:
    who = f"agent {agent}" if agent else "the agent"
    details: dict[str, Any] = {"detector": found.detector, **of, "cycle": list(found.cycle)}
    evidence = Evidence(found.limit, found.observed, unit, "step", found.window, details)
    return Trip(NAME, Cause.LOOP_DETECTED, evidence, f"{who} {found.what}", advice)
