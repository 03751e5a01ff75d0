"""Progress hash: an agent is busy and nothing comes of it (S0 row "Semantic no-progress"; semantics.md 2).

Stops, before the next request: an agent after whose last turns hash(stage, open plan items, artifact hashes, masked last result) was the same: six turns
(three of the one that plans) that ask alike, twice as many that ask something else each time, four times as many that go through numbers, dates or ids
(``core/likeness.py``); what they ask is read once six results were the same. Open plan items and artifacts are the run's: whatever a step brings, fails at or changes is progress of all. The last result is what
the turn's calls came to, in whatever order they were made; a round of two or three turns that comes to the same three times is no progress either; a call that changes something counts with its arguments, since what it wrote is an artifact.
A turn with a polling tool, or with a call that a person let go on (``let_pass.py``), is progress. A person's word, a note and a new activation begin anew.
Does not stop: silence (the stall watchdog does), the same call again and again (the loop detector does, and sooner), and results that always differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeVar

from fabric.core import let_pass
from fabric.core.call_args import call_args
from fabric.core.fingerprint import digest
from fabric.core.flow import Stage
from fabric.core.frozen import replace, value
from fabric.core.let_pass import LetPass
from fabric.core.likeness import Likeness, likeness
from fabric.core.mechanisms.contract import Proposal, ProposalKind, Scope, View
from fabric.core.policy import Progress as Config
from fabric.core.taxonomy import Cause
from fabric.core.verdict import PASS, Details, Evidence, Trip, Verdict

if TYPE_CHECKING:
    from fabric.core.context import Contents
    from fabric.core.envelope import Event
    from fabric.core.policy import FlowPolicy
    from fabric.core.run import Turn as Asked
    from fabric.core.spec import FabricSpec

T = TypeVar("T")
NAME = "progress"
SCOPE = Scope.RUN
APPLIES_TO: frozenset[ProposalKind] = frozenset({"model"})
CALLED = frozenset({"tool_answered", "call_deduplicated", "call_refused", "call_responded"})
"""What a call of a turn came to."""
BROUGHT = frozenset({"stage_entered", "stage_left", "output_accepted", "output_kept", "step_failed", "child_answered"})
"""What changes the open plan items or the artifacts."""
BEGINS_ANEW = frozenset({"step_opened", "message_injected"})
OBSERVES: frozenset[str] = (
    CALLED | BROUGHT | BEGINS_ANEW | {"model_answered", "replanned", "call_streamed", "reaction_decided"}
)
TURNS_KEPT = 100
"""As many as a policy may ask for."""
PERIODS = (1, 2, 3)
"""Turns of a round, as detector B has them."""
ROUNDS = 3
"""Rounds of several turns that are too many at the least."""
LIMITS: Mapping[Likeness, tuple[int, str]] = {
    Likeness.ALIKE: (1, "with like arguments"),
    Likeness.APART: (2, "with other arguments each time"),
    Likeness.SCAN: (4, "with other numbers or ids each time"),
}
"""How many times the policy's turns an agent has, by what they ask, and how a sentence says that. Total by test."""


@value()
class Call:
    """What one call of a turn came to."""

    tool: str
    args_hash: str
    came_to: str
    """Masked hash of its result; of a refused one, why."""


@value()
class Turn:
    """One answer of an agent's model."""

    around: str
    """The run's artifacts and open plan items as they stood when the turn's last call had come back."""
    calls: tuple[Call, ...] = ()


@value()
class State:
    """The turns of the steps at work, and a rolling digest of all that changed the run's artifacts or open plan items."""

    around: str = ""
    turns: Mapping[str, tuple[Turn, ...]] = field(default_factory=dict)
    """By step id, oldest first."""
    early: Mapping[str, tuple[Call, ...]] = field(default_factory=dict)
    """By step id: what calls came to that began before their answer was whole. They are the next turn's."""
    passing: Mapping[str, LetPass] = field(default_factory=dict)
    """By a step's place in its epoch: what a person let go on."""


def config(policy: FlowPolicy) -> Config:
    """Cuts this mechanism's part out of the policy."""
    return policy.progress


def observe(state: State, event: Event) -> State:
    """Adds a turn, or what a call of the last one came to; marks what the run has brought."""
    fact: Any = event.fact
    if fact.kind in CALLED:
        return _called(state, fact)
    if fact.kind == "call_streamed":
        return replace(state, early={fact.step_id: (), **state.early})
    if fact.kind == "replanned":
        return State(digest(state.around, fact.kind, event.seq))
    if fact.kind in let_pass.OBSERVED:
        state = _heard(state, fact)
        return _replaced(state, fact.step_id) if fact.kind == "step_opened" else state
    if fact.kind in BEGINS_ANEW:
        return _without(state, fact.step_id)
    if fact.kind == "model_answered" and fact.verdict != "output":
        last = Turn(state.around, state.early.get(fact.step_id, ()))
        turns = (*state.turns.get(fact.step_id, ()), last)[-TURNS_KEPT:]
        early = _but(state.early, fact.step_id) if state.early else state.early
        return replace(state, turns={**state.turns, fact.step_id: turns}, early=early)
    brought = replace(state, around=digest(state.around, fact.kind, event.content_ref, event.seq))
    if fact.kind == "stage_left":
        return replace(brought, turns={}, early={})
    return _without(brought, getattr(fact, "step_id", ""))


def _heard(state: State, fact: Any) -> State:
    place = _place(fact.step_id)
    before = state.passing.get(place, let_pass.NOTHING)
    after = let_pass.heard(before, fact) if place else before
    return state if after is before else replace(state, passing={**state.passing, place: after})


def asked(state: State, step_id: str) -> tuple[let_pass.Call, ...]:
    """Returns the calls that a person is asked about in a step."""
    return state.passing.get(_place(step_id), let_pass.NOTHING).asked


def _place(step_id: str) -> str:
    """A step without its round."""
    return step_id.rpartition(".r")[0]


def _without(state: State, step_id: str) -> State:
    if step_id not in state.turns and step_id not in state.early:
        return state
    return replace(state, turns=_but(state.turns, step_id), early=_but(state.early, step_id))


def _but(kept: Mapping[str, T], step_id: str) -> dict[str, T]:
    return {key: one for key, one in kept.items() if key != step_id}


def _replaced(state: State, step_id: str) -> State:
    """Without the turns of those whose place the step takes: they are asked nothing more, and a run that goes on for long has had many."""
    place = step_id.rpartition(".e")[0] + "."
    kept = {key: turns for key, turns in state.turns.items() if not key.startswith(place)}
    early = {key: calls for key, calls in state.early.items() if not key.startswith(place)}
    same = len(kept) == len(state.turns) and len(early) == len(state.early)
    return state if same else replace(state, turns=kept, early=early)


def _called(state: State, fact: Any) -> State:
    turns, coming = state.turns.get(fact.step_id, ()), state.early.get(fact.step_id)
    if coming is None and not turns:
        return state
    came_to = getattr(fact, "masked_hash", "") or digest(fact.kind, getattr(fact, "cause", ""), fact.call_id)
    if fact.kind == "call_refused":
        came_to = digest(fact.kind, fact.cause, fact.problem)
    call = Call(fact.tool, fact.args_hash, came_to)
    if coming is not None:
        return replace(state, early={**state.early, fact.step_id: (*coming, call)})
    last = replace(turns[-1], around=state.around, calls=(*turns[-1].calls, call))
    return replace(state, turns={**state.turns, fact.step_id: (*turns[:-1], last)})


def check(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    """Trips when the last N turns came to the same."""
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
    if len({frozenset(_named(turn)) for turn in turns[-limit:]}) == 1:
        details["calls"] = [{"tool": tool, "args_hash": args_hash} for tool, args_hash in _named(turns[-1])]
    return Trip(
        NAME, Cause.NO_PROGRESS, Evidence(limit, limit, "turns", f"step:{proposal.step_id}", details=details), message
    )


def _named(turn: Turn) -> list[let_pass.Call]:
    return [(call.tool, call.args_hash) for call in turn.calls]


def limits(few: int) -> Mapping[Likeness, int]:
    """How many equal turns are too many, by what they ask, the least first. ``few``: the policy's turns."""
    return {found: min(few * times, TURNS_KEPT) for found, (times, _) in LIMITS.items()}


def _row(
    stage: Stage, turns: tuple[Turn, ...], spec: FabricSpec, passing: tuple[let_pass.Call, ...]
) -> tuple[int, int]:
    """How many of the last turns came to the same, round by round, and how many turns a round has; 0 where that cannot be compared."""
    came: list[str] = []

    def came_to(back: int) -> str:
        """What the turn so far back came to; empty from the first one on that cannot be compared."""
        while len(came) <= back and (not came or came[-1]):
            turn = turns[-1 - len(came)]
            passed = passing and any(call in passing for call in _named(turn))
            came.append("" if passed else progress_hash(stage, turn, spec))
        return came[back] if back < len(came) else ""

    def repeated(period: int) -> int:
        same = 0
        while same + period < len(turns) and (found := came_to(same + period)) and found == came_to(same):
            same += 1
        return same + period if same else int(bool(came_to(0)))

    return max(((repeated(period), period) for period in PERIODS), key=lambda one: one[0])


def _likeness(view: View, step_id: str, few: int, period: int) -> Likeness:
    """Returns how alike the last turns ask, round by round. Turns that cannot be read count as alike."""
    step, contents = view.run.steps.get(step_id), view.contents
    if step is None or contents is None:
        return Likeness.ALIKE
    try:
        return likeness([_asked(contents, turn) for turn in step.history[-few:]], period)
    except LookupError:
        return Likeness.ALIKE


def _asked(contents: Contents, turn: Asked) -> dict[str, list[Any]]:
    """Returns the arguments of a turn's calls, by tool. Raises LookupError where they are not at hand."""
    asked: dict[str, list[Any]] = {}
    for call in turn.calls:
        args = call_args(contents, call.args_ref or turn.answer_ref, call.call_id)
        asked.setdefault(call.tool, []).append(args)
    return asked


def progress_hash(stage: Stage, turn: Turn, spec: FabricSpec) -> str:
    """What a turn came to; empty where it cannot be compared: no call came back, or one of them polls."""
    if not turn.calls or any(_polls(spec, call.tool) for call in turn.calls):
        return ""
    results = sorted({call.came_to if _only_reads(spec, call.tool) else digest(*_all(call)) for call in turn.calls})
    return digest(stage, turn.around, *results)


def _all(call: Call) -> tuple[str, str, str]:
    return call.tool, call.args_hash, call.came_to


def _polls(spec: FabricSpec, name: str) -> bool:
    return any(tool.name == name and tool.polling for tool in spec.all_tools)


def _only_reads(spec: FabricSpec, name: str) -> bool:
    return not any(tool.name == name and tool.effect != "read_only" for tool in spec.all_tools)
