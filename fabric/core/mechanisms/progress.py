"""Progress hash: stops an agent that is busy without any result (S0 row "Semantic no-progress";
docs/specification/failures.md).

Stops, before the next request, an agent whose last turns all have an equal hash(stage, open plan items, artifact
hashes, masked last result). The limit is six turns (three for the planner) with like arguments, twice as many with
other arguments each time, and four times as many where the arguments go through numbers, dates or ids
(``core/rules/near_identical.py``). Arguments are read only once six results were equal.

- Open plan items and artifacts are the run's: any change by one step is progress of all.
- The last result is the set of results of the turn's calls, in any order. A round of two or three turns with equal
  results three times is no progress either. A call that changes something counts with its arguments, since it wrote
  an artifact.
- A turn with a polling tool, or with a call that a person allowed (``let_pass.py``), is progress. A review's answer,
  a note and a new activation start the count anew.

Does not stop: silence (the stall watchdog does), equal calls again and again (the loop detector does, and sooner),
and results that always differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeVar

from fabric.core.mechanisms.contract import Proposal, ProposalKind, Scope, View
from fabric.core.rules.near_identical import Likeness, likeness
from fabric.core.spec.policies.limits import Progress as Config
from fabric.core.state import let_pass
from fabric.core.state.context import call_args
from fabric.core.state.let_pass import LetPass
from fabric.core.values.fingerprint import digest
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import replace, value
from fabric.core.values.taxonomy import PASS, Cause, Details, Evidence, FailureClass, Trip, Verdict

if TYPE_CHECKING:
    from fabric.core.events.envelope import Event
    from fabric.core.spec.fabric import FabricSpec
    from fabric.core.spec.policies.flow_policy import FlowPolicy
    from fabric.core.state.context import Contents
    from fabric.core.state.run import Turn as Asked

T = TypeVar("T")
NAME = "progress"
TITLE = "Progress"
STOPS = "turns without progress"
PAGE = "docs/specification/protections.md"
CLASSES = (FailureClass.INTER_AGENT, FailureClass.VERIFICATION)
SETTINGS: tuple[str, ...] = ("progress",)
UNCOUNTED = ""
SCOPE = Scope.RUN
APPLIES_TO: frozenset[ProposalKind] = frozenset({"model"})
CALLED = frozenset({"tool_answered", "call_deduplicated", "call_refused", "call_responded"})
"""Event kinds that carry the result of a turn's call."""
BROUGHT = frozenset({"stage_entered", "stage_left", "output_accepted", "output_kept", "step_failed", "child_answered"})
"""Event kinds that change the open plan items or the artifacts."""
BEGINS_ANEW = frozenset({"step_opened", "message_injected"})
OBSERVES: frozenset[str] = (
    CALLED | BROUGHT | BEGINS_ANEW | {"call_issued", "model_answered", "replanned", "call_streamed", "reaction_decided"}
)
TURNS_KEPT = 100
"""Most turns that a policy may compare."""
PERIODS = (1, 2, 3)
"""Turns of a round, as detector B has them."""
ROUNDS = 3
"""Rounds of several turns that are too many at the least."""
LIMITS: Mapping[Likeness, tuple[int, str]] = {
    Likeness.ALIKE: (1, "with like arguments"),
    Likeness.APART: (2, "with other arguments each time"),
    Likeness.SCAN: (4, "with other numbers or ids each time"),
}
"""For each likeness of arguments: the factor on the policy's turns, and its words for a message. Total by test."""


@value()
class TurnCall:
    """One call of a turn, with its result."""

    tool: str
    args_hash: str
    came_to: str
    """Masked hash of its result; of a refused one, why."""


@value()
class AnswerTurn:
    """One answer of an agent's model."""

    around: int
    """Seq of the last change of the run's artifacts or plan items when the turn's last call had come back."""
    calls: tuple[TurnCall, ...] = ()


@value()
class State:
    """The turns of the active steps, and the last change of the run's artifacts and open plan items."""

    around: int = 0
    """Seq of the event that changed them; 0: none did."""
    turns: Mapping[str, tuple[AnswerTurn, ...]] = field(default_factory=dict)
    """Turns by step id, oldest first."""
    early: Mapping[str, tuple[TurnCall, ...]] = field(default_factory=dict)
    """Results of calls that began before their answer was complete, by step id. They belong to the next turn."""
    passing: Mapping[str, LetPass] = field(default_factory=dict)
    """Calls that a person allowed, by the step's place in its epoch."""


def config(policy: FlowPolicy) -> Config:
    """Return this mechanism's part of the policy."""
    return policy.progress


def observe(state: State, event: Event) -> State:
    """Add a turn, or the result of a call of the last one; mark changes that the run has brought."""
    fact: Any = event.fact
    if fact.kind in CALLED:
        return _record_call(state, fact)
    if fact.kind == "call_issued":  # A call that began with a failed attempt is no turn's.
        anew = fact.call == "model" and fact.step_id in state.early
        return replace(state, early=_but(state.early, fact.step_id)) if anew else state
    if fact.kind == "call_streamed":
        return replace(state, early={fact.step_id: (), **state.early})
    if fact.kind == "replanned":
        return State(event.seq)
    if fact.kind in let_pass.OBSERVED:
        state = _hear_message(state, fact)
        return _drop_replaced(state, fact.step_id) if fact.kind == "step_opened" else state
    if fact.kind in BEGINS_ANEW:
        return _drop_step(state, fact.step_id)
    if fact.kind == "model_answered" and fact.verdict != "output":
        last = AnswerTurn(state.around, state.early.get(fact.step_id, ()))
        turns = (*state.turns.get(fact.step_id, ()), last)[-TURNS_KEPT:]
        early = _but(state.early, fact.step_id) if state.early else state.early
        return replace(state, turns={**state.turns, fact.step_id: turns}, early=early)
    brought = replace(state, around=event.seq)
    if fact.kind == "stage_left":
        return replace(brought, turns={}, early={})
    return _drop_step(brought, getattr(fact, "step_id", ""))


def _hear_message(state: State, fact: Any) -> State:
    place = _place(fact.step_id)
    before = state.passing.get(place, let_pass.NOTHING)
    after = let_pass.calls_allowed(before, fact) if place else before
    return state if after is before else replace(state, passing={**state.passing, place: after})


def reviewed_calls(state: State, step_id: str) -> tuple[let_pass.Call, ...]:
    """Return a step's calls that are under review."""
    return state.passing.get(_place(step_id), let_pass.NOTHING).asked


def _place(step_id: str) -> str:
    """Return a step's id without its round."""
    return step_id.rpartition(".r")[0]


def _drop_step(state: State, step_id: str) -> State:
    if step_id not in state.turns and step_id not in state.early:
        return state
    return replace(state, turns=_but(state.turns, step_id), early=_but(state.early, step_id))


def _but(kept: Mapping[str, T], step_id: str) -> dict[str, T]:
    return {key: one for key, one in kept.items() if key != step_id}


def _drop_replaced(state: State, step_id: str) -> State:
    """Return the state without the turns of the steps that this step replaces. So a long run's state stays small."""
    place = step_id.rpartition(".e")[0] + "."
    kept = {key: turns for key, turns in state.turns.items() if not key.startswith(place)}
    early = {key: calls for key, calls in state.early.items() if not key.startswith(place)}
    same = len(kept) == len(state.turns) and len(early) == len(state.early)
    return state if same else replace(state, turns=kept, early=early)


def _record_call(state: State, fact: Any) -> State:
    turns, coming = state.turns.get(fact.step_id, ()), state.early.get(fact.step_id)
    if coming is None and not turns:
        return state
    came_to = getattr(fact, "masked_hash", "") or digest(fact.kind, getattr(fact, "cause", ""), fact.call_id)
    if fact.kind == "call_refused":
        came_to = digest(fact.kind, fact.cause, fact.problem)
    call = TurnCall(fact.tool, fact.args_hash, came_to)
    if coming is not None:
        return replace(state, early={**state.early, fact.step_id: (*coming, call)})
    last = replace(turns[-1], around=state.around, calls=(*turns[-1].calls, call))
    return replace(state, turns={**state.turns, fact.step_id: (*turns[:-1], last)})


def check(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    """Trip when the last N turns had equal results."""
    if proposal.final or proposal.attempt > 1:
        return PASS
    plans = proposal.stage is Stage.PLAN
    few = config.supervisor_turns if plans else config.agent_turns
    turns = state.turns.get(proposal.step_id, ())
    if len(turns) < few or turns[-1].around != state.around:
        return PASS
    passing = state.passing.get(_place(proposal.step_id), let_pass.NOTHING).calls
    row, period = _row(proposal.stage, turns, view.spec, passing)
    asked = max(few, ROUNDS * period if period > 1 else 0)
    if row < asked:
        return PASS
    found = _likeness(view, proposal.step_id, asked, period)
    limit, said = max(limits(few)[found], asked), LIMITS[found][1]
    if row < limit:
        return PASS
    who = "supervisor" if plans else "agent"
    called = " and ".join(dict.fromkeys(call.tool for turn in turns[-period:] for call in turn.calls))
    came = "each came to the same result" if period == 1 else "every round came to the same results"
    message = f"{who} {proposal.agent} called {called} in {limit} turns in a row {said}, and {came} (limit {limit})"
    details: Details = {"hash": progress_hash(proposal.stage, turns[-1], view.spec)}
    if len({frozenset(_list_calls(turn)) for turn in turns[-limit:]}) == 1:
        details["calls"] = [{"tool": tool, "args_hash": args_hash} for tool, args_hash in _list_calls(turns[-1])]
    return Trip(
        NAME, Cause.NO_PROGRESS, Evidence(limit, limit, "turns", f"step:{proposal.step_id}", details=details), message
    )


def _list_calls(turn: AnswerTurn) -> list[let_pass.Call]:
    return [(call.tool, call.args_hash) for call in turn.calls]


def limits(few: int) -> Mapping[Likeness, int]:
    """Return the limit of equal turns for each likeness of arguments, the lowest first. ``few``: the policy's turns."""
    return {found: min(few * times, TURNS_KEPT) for found, (times, _) in LIMITS.items()}


def _row(
    stage: Stage, turns: tuple[AnswerTurn, ...], spec: FabricSpec, passing: tuple[let_pass.Call, ...]
) -> tuple[int, int]:
    """Return the number of last turns with equal results, and the turns of one round. 0 turns: the results cannot be
    compared.
    """
    came: list[str] = []

    def came_to(back: int) -> str:
        """Return the result hash of the turn ``back`` turns ago; "" from the first one that cannot be compared."""
        while len(came) <= back and (not came or came[-1]):
            turn = turns[-1 - len(came)]
            passed = passing and any(call in passing for call in _list_calls(turn))
            came.append("" if passed else progress_hash(stage, turn, spec))
        return came[back] if back < len(came) else ""

    def count_repeats(period: int) -> int:
        same = 0
        while same + period < len(turns) and (found := came_to(same + period)) and found == came_to(same):
            same += 1
        return same + period if same else int(bool(came_to(0)))

    return max(((count_repeats(period), period) for period in PERIODS), key=lambda one: one[0])


def _likeness(view: View, step_id: str, few: int, period: int) -> Likeness:
    """Return how alike the last turns ask, round by round. Turns that cannot be read count as alike."""
    step, contents = view.run.steps.get(step_id), view.contents
    if step is None or contents is None:
        return Likeness.ALIKE
    try:
        return likeness([_turn_arguments(contents, turn) for turn in step.history[-few:]], period)
    except LookupError:
        return Likeness.ALIKE


def _turn_arguments(contents: Contents, turn: Asked) -> dict[str, list[Any]]:
    """Return the arguments of a turn's calls, by tool. Raises LookupError where they are not at hand."""
    asked: dict[str, list[Any]] = {}
    for call in turn.calls:
        args = call_args(contents, call.args_ref or turn.answer_ref, call.call_id)
        asked.setdefault(call.tool, []).append(args)
    return asked


def progress_hash(stage: Stage, turn: AnswerTurn, spec: FabricSpec) -> str:
    """Return the hash of a turn's results; "" if it cannot be compared: no call returned, or a call polls."""
    if not turn.calls or any(spec.polls(call.tool) for call in turn.calls):
        return ""
    results = sorted({call.came_to if _only_reads(spec, call.tool) else digest(*_all(call)) for call in turn.calls})
    return digest(stage, turn.around, *results)


def _all(call: TurnCall) -> tuple[str, str, str]:
    return call.tool, call.args_hash, call.came_to


def _only_reads(spec: FabricSpec, name: str) -> bool:
    tool = spec.find_tool(name)
    return tool is None or tool.effect == "read_only"
