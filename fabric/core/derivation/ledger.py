"""What the decision table asks about a run, counted anew from its facts: a ledger of its own beside ``evolve``, so that the two can disagree.

It is small on purpose. It knows each step's agent and place, the uses of each rung, replans, rounds with people, and the wait that a failed attempt
asked for. It also knows the failures that came back: those that were decided about, and the errors that tools gave their models. Each stands with
the word of a person since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fabric.core import events as ev
from fabric.core.decision_table import Accompaniment, Reaction
from fabric.core.derivation import numbers, purse
from fabric.core.evolve.decisions import uses_of
from fabric.core.flow import ANSWERED
from fabric.core.signatures import signature, visit_of
from fabric.core.taxonomy import CLASSIFY, Cause, Tier

RungUse = tuple[str, int, str]
"""Row (``direct`` for none), rung, scope."""


@dataclass(slots=True)
class StepSeen:
    """A step as its facts tell it."""

    stage: str
    branch: int
    agent: str = ""
    status: str = "active"
    final: bool = False
    approved: bool = False
    model: str = ""
    """The model that was put in its agent's own one's place; empty: none."""
    stands_for: str = ""
    """The model whose chain of fallbacks goes on."""
    tried: tuple[str, ...] = ()
    turns: int = 0
    """How often its model was asked; what is asked again is no other turn."""
    answers: int = 0
    """How often it answered."""
    turn_of: str = ""
    """Where turns go by a graph: the worker whose turn it is, whoever takes it over; empty: it is no such turn."""


@dataclass(slots=True)
class Ledger:
    """One run up to some event. Changed in place by ``noted``."""

    tier: Tier
    stage: str = "plan"
    topology: str = ""
    """The worker whose topology a nested child runs."""
    policy: int = 0
    """The version of the workspace's policy that holds; 0: none."""
    slice: bool = False
    """Its plan is its parent's."""
    planner: str = ""
    truncated: bool = False
    steps: dict[str, StepSeen] = field(default_factory=dict)
    uses: Counter[RungUse] = field(default_factory=Counter)
    rows: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Decisions by row and what they were about: a branch of a stage, or a stage."""
    replans: Counter[str] = field(default_factory=Counter)
    rounds: Counter[str] = field(default_factory=Counter)
    signatures: Counter[str] = field(default_factory=Counter)
    """How often each failure came, by what makes it the same."""
    heard: set[str] = field(default_factory=set)
    """Failures that had come before a person's last word, and have not come since."""
    told: dict[str, str] = field(default_factory=dict)
    """By failure: the answer of which a tool's error counted last. The calls of one answer fail together."""
    returned: dict[str, int] = field(default_factory=dict)
    """Errors since the last decision that an agent at work was given once more, and no person has spoken of: by step, how often it came by then."""
    excused: dict[str, int] = field(default_factory=dict)
    """The same of errors that a person had spoken of."""
    kept: dict[tuple[int, str], int] = field(default_factory=dict)
    """Of a fork: answers that a branch has from its origin, by branch and agent."""
    hops: int = 0
    """Handovers of the run."""
    visits: Counter[str] = field(default_factory=Counter)
    """By node, ``stage:plan`` or ``agent:NAME``, over all epochs."""
    ending: bool = False
    calls: dict[str, str] = field(default_factory=dict)
    """``model`` or ``tool``, by command."""
    issued: dict[str, ev.CallIssued] = field(default_factory=dict)
    """The latest attempt of each call of a model."""
    rewritten: set[str] = field(default_factory=set)
    """Of those, the calls whose prompt a person has changed since: a plan that they wrote into stands in every branch's."""
    attempts: dict[str, ev.AttemptFailed] = field(default_factory=dict)
    """The latest failed attempt of each call."""
    parked: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Open questions: their step, and what silence means."""
    numbers: numbers.Numbers = field(default_factory=numbers.Numbers)
    """What clocks and retry tokens are judged by."""
    purse: purse.Purse = field(default_factory=purse.Purse)
    """What caps are judged by."""
    skipped: list[ev.RungSkipped] = field(default_factory=list)
    """Rungs passed over since the last fact of another kind."""

    def about(self, step_id: str, scope: str) -> str:
        """What a decision is about, whatever the epoch and round: a stage's branch, or the stage."""
        return step_id.partition(".e")[0] or scope.partition(":")[2]

    def node(self, step_id: str, otherwise: str) -> str:
        """What failed, as a failure that comes back is recognised by: the worker whose turn it was, where turns go by a graph; else the branch or the stage."""
        step, branch = self.steps.get(step_id), step_id.partition(".e")[0]
        return f"agent:{step.turn_of}" if step is not None and step.turn_of else branch or otherwise


def noted(ledger: Ledger, fact: ev.Fact) -> None:
    """Takes one more fact in."""
    numbers.noted(ledger.numbers, fact)
    purse.noted(ledger.purse, fact)
    if isinstance(fact, ev.RungSkipped):
        ledger.skipped.append(fact)
        return
    act = TAKES.get(fact.kind)
    if act is not None:
        act(ledger, fact)
    ledger.skipped.clear()


def signature_of(about: str, cause: Cause, message: str) -> str:
    """What a failure is recognised by when it comes back; empty for what does not count."""
    row = CLASSIFY[cause]
    return signature(about, row.error_class, message) if row.signature_counted else ""


def passed_over(ledger: Ledger) -> dict[int, str]:
    """The rungs that were recorded as passed over before the decision that comes next, with their reasons; accompaniments are none."""
    with_it = {str(one) for one in Accompaniment}
    return {one.rung: one.reason for one in ledger.skipped if one.reaction not in with_it}


def last_word(ledger: Ledger, fact: ev.ReactionDecided) -> bool:
    """Whether what failed was the one answer that an agent may still give."""
    step = ledger.steps.get(fact.step_id)
    if step is not None and step.status == "active":
        return step.final and not fact.command_id
    return ledger.truncated


def passed_over_before(ledger: Ledger, fact: ev.ReactionDecided) -> frozenset[int]:
    """The rungs that count as recorded as passed over. Before a last word none are recorded: whatever applied would be surfaced all the same."""
    return frozenset(range(fact.rung)) if last_word(ledger, fact) else frozenset(passed_over(ledger))


# -- one function a kind -----------------------------------------------------------------------------------------------


def _started(ledger: Ledger, fact: ev.RunStarted) -> None:
    ledger.tier = fact.tier


def _policy_taken_up(ledger: Ledger, fact: ev.PolicyTakenUp) -> None:
    ledger.policy = fact.number


def _lineage(ledger: Ledger, fact: ev.LineagePinned) -> None:
    ledger.slice, ledger.topology = fact.purpose == "slice", fact.topology
    ledger.stage = "fan_out" if ledger.slice else ledger.stage


def _forked(ledger: Ledger, fact: ev.RunForked) -> None:
    ledger.topology = fact.topology
    ledger.kept = {(one.branch, one.agent): len(one.turns) for one in fact.work}
    kept = {str(one.stage) for one in fact.stages}
    order = ("plan", "fan_out", "fan_in", "validate", "finalize")
    ledger.stage = next((stage for stage in order if stage not in kept), ledger.stage)
    for one in fact.branches:
        ledger.steps[f"fan_out.{one.branch}.e0.r0"] = StepSeen("fan_out", one.branch, one.agent, "done")


def _stage_entered(ledger: Ledger, fact: ev.StageEntered) -> None:
    ledger.stage = str(fact.stage)
    ledger.visits[f"stage:{fact.stage}"] += 1
    for branch, agent in enumerate(fact.agents):
        seen = StepSeen(str(fact.stage), branch, agent)
        if str(fact.stage) == "fan_out" and not fact.epoch:
            seen.turns = seen.answers = ledger.kept.get((branch, agent), 0)
        ledger.steps[f"{fact.stage}.{branch}.e{fact.epoch}.r0"] = seen


def _step_opened(ledger: Ledger, fact: ev.StepOpened) -> None:
    gone = [key for key, one in ledger.steps.items() if (one.stage, one.branch) == (str(fact.stage), fact.branch)]
    whose = next((ledger.steps[key].turn_of for key in gone), "")
    before = next((ledger.steps[key] for key in gone), None)
    for key in gone:
        del ledger.steps[key]
        _forget(ledger, lambda scope, key=key: scope.startswith(f"call:{key}."))  # type: ignore[misc]
    ledger.steps[fact.step_id] = StepSeen(
        str(fact.stage), fact.branch, fact.agent, approved=fact.approved, turn_of=whose
    )
    if fact.keeps and before is not None:  # Its call is made again, and what it did stands.
        ledger.steps[fact.step_id].final = before.final
        ledger.steps[fact.step_id].turns = before.answers
        ledger.steps[fact.step_id].answers = before.answers


def _turn_opened(ledger: Ledger, fact: ev.TurnOpened) -> None:
    ledger.steps[fact.step_id] = StepSeen(
        "fan_out", fact.branch, fact.agent, turn_of=fact.agent if fact.chooses else ""
    )
    if fact.chooses:
        ledger.visits[f"agent:{fact.agent}"] += 1


def _handed_off(ledger: Ledger, fact: ev.HandedOff) -> None:
    ledger.hops += 1


def _replanned(ledger: Ledger, fact: ev.Replanned) -> None:
    """Rungs spent survive it, those of a call or of one activation excepted."""
    ledger.replans[str(fact.stage)] += 1
    ledger.steps.clear()
    ledger.stage, ledger.truncated = "plan", False
    ledger.planner = fact.planner or ledger.planner
    _forget(ledger, lambda scope: ".e" in scope)


def _edited(ledger: Ledger, fact: ev.OutputEdited) -> None:
    _status(ledger, fact.step_id, "done")
    if fact.stage == "plan":
        ledger.rewritten.update(ledger.issued)


def _guided(ledger: Ledger, fact: ev.GuidanceGiven) -> None:
    """A person's words cost a replan, and nothing is planned anew."""
    ledger.replans[str(fact.stage)] += 1


def _forget(ledger: Ledger, gone: Callable[[str], bool]) -> None:
    for key in [key for key in ledger.uses if gone(key[2])]:
        del ledger.uses[key]


def _decided(ledger: Ledger, fact: ev.ReactionDecided) -> None:
    row = fact.failure_type or "direct"
    about = ledger.about(fact.step_id, fact.scope)
    ledger.uses[row, fact.rung, fact.scope] += uses_of(fact)
    ledger.rows[row, about] += 1
    node = ledger.node(fact.step_id, about)
    found = dict.fromkeys(signature_of(node, trip.cause, trip.message) for trip in (fact.cause, *fact.causes))
    visit = visit_of(fact.command_id, fact.step_id)
    for key in filter(None, found):
        if visit and ledger.told.get(key) == visit:
            continue
        _came(ledger, key)
        if visit:
            ledger.told[key] = visit
    ledger.returned.clear()
    ledger.excused.clear()


def _came(ledger: Ledger, key: str) -> None:
    ledger.signatures[key] += 1
    ledger.heard.discard(key)


def _tool_answered(ledger: Ledger, fact: ev.ToolAnswered) -> None:
    """An error that a tool gives its model is a failure of its own. Of a step without an agent the answer is the end; who was stopped is not stopped again."""
    step, answer = ledger.steps.get(fact.step_id), fact.command_id.rpartition(".c")[0]
    if step is not None and not step.agent:
        step.status = "done"
    if not fact.failure or ledger.told.get(fact.failure) == answer:
        return
    passes = fact.failure in ledger.heard
    ledger.told[fact.failure] = answer
    _came(ledger, fact.failure)
    at_work = step is not None and step.status == "active" and not step.final and not ledger.ending
    if at_work:
        counts = ledger.excused if passes else ledger.returned
        counts[fact.step_id] = max(counts.get(fact.step_id, 0), ledger.signatures[fact.failure])


def _ending(ledger: Ledger, fact: ev.Fact) -> None:
    ledger.ending = True


def _asked(ledger: Ledger, fact: ev.EscalationOpened) -> None:
    if fact.item == "ticket":
        return
    ledger.parked[fact.escalation_id] = (fact.step_id, fact.on_expiry)
    if fact.item == "failure":
        ledger.rounds[fact.scope] += 1
    if fact.step_id and fact.item not in ("child", "pre_action"):
        _status(ledger, fact.step_id, "parked")


def _answered(ledger: Ledger, fact: ev.EscalationDecided) -> None:
    step_id, on_expiry = ledger.parked.pop(fact.escalation_id, ("", ""))
    if not fact.system:
        ledger.heard = set(ledger.signatures)
        ledger.told.clear()
    if fact.system and on_expiry == "next":
        _status(ledger, step_id, "active")


def _status(ledger: Ledger, step_id: str, status: str) -> None:
    if step_id in ledger.steps:
        ledger.steps[step_id].status = status


def _model_answered(ledger: Ledger, fact: ev.ModelAnswered) -> None:
    if fact.step_id in ledger.steps:
        ledger.steps[fact.step_id].answers += 1
    if fact.verdict == "output":
        _status(ledger, fact.step_id, "done")


def _child_answered(ledger: Ledger, fact: ev.ChildAnswered) -> None:
    step = ledger.steps.get(fact.step_id)
    if step is not None and not fact.late and fact.state in ANSWERED and step.status == "delegated":
        step.status = "done"


def _stripped(ledger: Ledger, fact: ev.ToolsStripped) -> None:
    ledger.truncated = True
    if fact.step_id in ledger.steps:
        ledger.steps[fact.step_id].final = True


def _issued(ledger: Ledger, fact: ev.CallIssued) -> None:
    ledger.calls[fact.command_id] = fact.call
    if fact.call != "model":
        return
    ledger.issued[fact.command_id] = fact
    ledger.rewritten.discard(fact.command_id)
    if fact.step_id in ledger.steps:
        ledger.steps[fact.step_id].turns = fact.turn
    if fact.attempt == 1 and fact.step_id in ledger.steps:
        ledger.steps[fact.step_id].tried = ()  # A new call may go to whoever was asked in vain before.


def _model_changed(ledger: Ledger, fact: ev.ModelChanged) -> None:
    """A cheaper model begins a chain of its own."""
    step = ledger.steps.get(fact.step_id)
    if step is None:
        return
    step.model = fact.model
    if fact.reason == Reaction.FALLBACK_MODEL:
        step.stands_for, step.tried = step.stands_for or fact.before, (*step.tried, fact.before)
    else:
        step.stands_for, step.tried = "", ()


def _attempt_failed(ledger: Ledger, fact: ev.AttemptFailed) -> None:
    ledger.attempts[fact.command_id] = fact


TAKES: Mapping[str, Callable[[Ledger, Any], object]] = {
    "run_started": _started,
    "policy_taken_up": _policy_taken_up,
    "lineage_pinned": _lineage,
    "run_forked": _forked,
    "stage_entered": _stage_entered,
    "step_opened": _step_opened,
    "turn_opened": _turn_opened,
    "handed_off": _handed_off,
    "replanned": _replanned,
    "reaction_decided": _decided,
    "escalation_opened": _asked,
    "escalation_decided": _answered,
    "escalation_withdrawn": lambda ledger, fact: ledger.parked.pop(fact.escalation_id, None),
    "model_answered": _model_answered,
    "tool_answered": _tool_answered,
    "output_accepted": lambda ledger, fact: _status(ledger, fact.step_id, "done"),
    "output_kept": lambda ledger, fact: _status(ledger, fact.step_id, "done"),
    "output_edited": _edited,
    "guidance_given": _guided,
    "step_failed": lambda ledger, fact: _status(ledger, fact.step_id, "failed"),
    "child_spawned": lambda ledger, fact: _status(ledger, fact.step_id, "delegated"),
    "child_answered": _child_answered,
    "tools_stripped": _stripped,
    "call_issued": _issued,
    "model_changed": _model_changed,
    "attempt_failed": _attempt_failed,
    "run_ending": _ending,
}
"""What a kind of fact changes; a kind that is not here changes nothing that a decision asks."""
