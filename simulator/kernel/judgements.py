"""What must be true of decisions, questions and gates: invariants as in ``invariants.py``."""

from __future__ import annotations

from typing import Any

from fabric.core.decision_table import DIRECT, GRAVITY, Reaction
from fabric.core.envelope import Event
from fabric.core.events import GateResult
from fabric.core.flow import Stage
from fabric.core.inputs import DecisionMade
from fabric.core.run import Run, rung_key
from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import CLASSIFY, Direct
from simulator.kernel.seen import Seen, on

POST_ORDER, PRE_ORDER = ("schema", "policy", "invariants", "grounding"), ("schema", "policy", "budget", "artifacts")


@on("rung_skipped")
def skips_are_kept(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Every rung passed over says why."""
    seen.skipped.append((fact.failure_type, fact.rung))
    return "" if fact.reason else "no reason is given"


@on("reaction_decided")
def decision_follows(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """The decision is derived again from the table, the cause and what was spent before."""
    skipped, seen.skipped = seen.skipped, []
    goes_to = CLASSIFY[fact.cause.cause].goes_to
    if isinstance(goes_to, Direct):
        if fact.failure_type is not None:
            return f"{fact.cause.cause} has no row"
        said = DIRECT[goes_to, seen.run.tier]
        goal = seen.compiled.spec.policy.goal_gates.retry == "replan" and fact.cause.cause == "goal_unmet"
        possible = _possible(seen, fact, said) | ({str(Reaction.REPLAN)} if goal else set())
        return "" if fact.reaction in possible else f"the direct reaction is {said}"
    if goes_to != fact.failure_type:
        return f"{fact.cause.cause} belongs to {goes_to}"
    stage = fact.step_id.partition(".")[0] or fact.scope.partition(":")[2]
    rungs = seen.compiled.ladders.at(goes_to, seen.run.tier, stage).rungs
    rung = rungs[fact.rung]
    spent = seen.run.spent_rungs.get(rung_key(fact.failure_type, fact.rung, fact.scope), 0)
    if (fact.spent, fact.bound) != (spent, rung.times):
        return f"{fact.spent} of {fact.bound} uses; the journal says {spent} of {rung.times}"
    named = rung.reaction == Reaction.WAIT_FOR_BREAKER and fact.command_id in seen.named
    if fact.bound is not None and fact.spent >= fact.bound and not named:
        return f"the rung was spent ({fact.spent} of {fact.bound})"
    if fact.reaction not in _possible(seen, fact, rung.reaction):
        return f"the table says {rung.reaction}"
    if fact.reaction != rung.reaction:
        return ""  # What stands for the rung's reaction stands for every rung's.
    for number in range(fact.rung):
        uses = (n for key, n in seen.run.spent_rungs.items() if key.startswith(f"{fact.failure_type}/{number}/"))
        if (fact.failure_type, number) not in skipped and not any(n >= (rungs[number].times or 0) for n in uses):
            return f"rung {number} was neither spent nor skipped"
    return ""


def _possible(seen: Seen, fact: Any, reaction: Reaction) -> set[str]:
    """The rung's reaction, and what stands for it when an answer was the last one or a person was asked often enough."""
    found = {str(reaction)}
    step = seen.run.steps.get(fact.step_id)
    if (step is not None and step.final) or seen.run.truncated:
        found.add(Reaction.SURFACE)
    if reaction is Reaction.ESCALATE:
        found.add(Reaction.ABORT)
    return found


@on("reaction_decided")
def one_reaction_at_a_time(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A run that is ending decides about nothing any more."""
    if seen.run.ending is not None:
        return "the run was ending already"
    return "" if fact.reaction in tuple(GRAVITY) else f"{fact.reaction} is no reaction"


@on("alert_raised", "model_changed")
def said_by_a_decision(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """An alert and another model follow from the decision before them, and the model is the one that stands behind the step's own."""
    decision = seen.decided
    if fact.kind == "alert_raised":
        about = None if decision is None else (decision.cause.mechanism, decision.cause.cause, decision.reaction)
        told = decision is not None and "alert" in decision.accompanies
        same = about == (fact.mechanism, fact.cause, fact.reaction)
        return "" if told and same else "no decision says so"
    if fact.reason == Reaction.FALLBACK_MODEL:
        return ""  # ``swap_checks``.
    if decision is None or decision.reaction != fact.reason or decision.step_id != fact.step_id:
        return "no decision says so"
    before = seen.run.steps[fact.step_id].model or seen.compiled.spec.agent(fact.agent).model
    models = {model.name: model for model in seen.compiled.spec.models}
    if (fact.before, fact.model) != (before, models[before].cheaper):
        return f"{fact.model} after {fact.before}; the fabric says {models[before].cheaper} after {before}"
    return ""


@on("reaction_decided")
def alerts_hang_on_no_rung(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Where a cell alerts people, every decision from that rung on does."""
    if fact.failure_type is None:
        return ""
    stage = Stage(fact.step_id.partition(".")[0] or seen.run.stage)
    compiled = seen.compiled
    cell = (
        compiled.ladders.layered.get((fact.failure_type, fact.tier, stage))
        or compiled.table[fact.failure_type, fact.tier]
    )
    told = any("alert" in rung.with_ for rung in cell.rungs[: fact.rung + 1])
    return "a cell alerts, and nobody is told" if told and "alert" not in fact.accompanies else ""


@on("reaction_decided")
def decisions_are_kept(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """The latest decision, for what follows from it."""
    seen.decided = fact
    return ""


@on("cap_raised")
def cap_was_named(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A cap goes up by the word of a person who approved, never down, and never in a child."""
    given = seen.given.get(event.input_id)
    if not isinstance(given, DecisionMade) or given.verb != "approve" or given.cap_usd_micros != fact.cap_usd_micros:
        return "nobody named this cap"
    if seen.cap is not None:
        return "a child has no cap of its own"
    before = max(seen.compiled.spec.policy.budget.run_usd_micros, seen.raised)
    seen.raised = fact.cap_usd_micros
    if (fact.before_usd_micros, fact.actor) != (before, given.actor) or fact.cap_usd_micros <= before:
        return f"{fact.actor} raised it from {fact.before_usd_micros}; it was {before}"
    return ""


@on("escalation_opened")
def rounds_in_bounds(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A person is asked about one thing a bounded number of times, and the question's clocks are in order."""
    most = seen.compiled.spec.policy.humans.failure_rounds
    counted = seen.run.rounds.get(fact.scope, 0) + 1 if fact.item == "failure" else 1
    if fact.round != counted:
        return f"round {fact.round} is the {counted}. that counts"
    if fact.round > most:
        return f"round {fact.round}, at most {most}"
    return "" if event.at <= fact.remind_at <= fact.onward_at <= fact.due_at else "its clocks are not in order"


@on("escalation_opened")
def asked_once(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """At most one question about a thing stands open: the databases' tables have room for one."""
    about = _about(fact)
    same = [one.fact.item for one in seen.run.questions.values() if _about(one.fact) == about]
    return f"{fact.item} is asked about {about} while {', '.join(same)} about it is open" if same else ""


def _about(fact: Any) -> str:
    """A question about a call is about that call: several of one step are asked about at once."""
    return str(fact.scope if fact.item == "pre_action" else fact.step_id or fact.scope)


@on("escalation_decided", "escalation_withdrawn")
def answers_an_open_question(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Only an open question is answered or withdrawn."""
    question = seen.run.questions.get(fact.escalation_id)
    if question is None:
        return "the question is not open"
    given = seen.given.get(event.input_id)
    if fact.kind == "escalation_withdrawn" or fact.system:
        return (
            "nobody had to answer yet" if fact.kind == "escalation_decided" and event.at < question.fact.due_at else ""
        )
    if not isinstance(given, DecisionMade):
        return "nobody gave this answer"
    if (given.escalation_id, given.verb, given.actor) != (fact.escalation_id, fact.verb, fact.actor):
        return f"{given.actor} said {given.verb} about {given.escalation_id}"
    return "" if given.digest == question.fact.digest else "it answers something else than what was asked"


def _asked_last(spec: FabricSpec, stage: str) -> list[str]:
    """The checks behind the four: an agent beside the author, the oracle, then the confidence."""
    writes = stage == "fan_in" or (stage == "finalize" and spec.topology.finalizer)
    found = ["critic"] if stage == "plan" and spec.topology.plan_critic else []
    found += ["grounding_critic"] if writes and spec.gates.grounding_critic else []
    found += ["oracle"] if stage == "finalize" and spec.gates.oracle else []
    return [*found, "confidence"]


@on("stage_entered", "stage_left")
def gates_in_order(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A stage is entered and left by a gate that has all its checks, and left by none that failed."""
    if fact.gate is None:
        return "it has no gate" if getattr(fact, "outcome", "passed") == "passed" else ""
    wrong = _gate_wrong(seen.compiled.spec, fact.gate, str(fact.stage))
    left_failed = fact.kind == "stage_left" and fact.gate.cause is not None
    return wrong or ("a stage was left although its gate had failed" if left_failed else "")


@on("reaction_decided")
def refusing_gates(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A decision about what a gate refused has that gate, and it failed; any other has none. A child's gate stands in the child's journal."""
    trips = (fact.cause, *fact.causes)
    own = [trip for trip in trips if trip.mechanism != "child"]
    refused = [trip for trip in own if trip.mechanism == "validation_gate" or trip.cause == "below_tau"]
    if bool(refused) != (fact.gate is not None):
        return "its gate and its causes disagree"
    if fact.gate is None:
        return ""
    wrong = _gate_wrong(seen.compiled.spec, fact.gate, refused[0].evidence.scope.removeprefix("stage:"))
    return wrong or ("it decides about a gate that had passed" if fact.gate.cause is None else "")


def _gate_wrong(spec: FabricSpec, gate: GateResult, stage: str) -> str:
    """A gate has all its checks in their order, and nothing is reached after the first failure."""
    names = tuple(check.name for check in gate.checks)
    order: tuple[str, ...] = PRE_ORDER if gate.gate == "pre" else (*POST_ORDER, *_asked_last(spec, stage))
    if names != order:
        return f"its checks are {', '.join(names)}, not {', '.join(order)}"
    results = [check.result for check in gate.checks]
    failed = results.index("failed") if "failed" in results else len(results)
    if any((result == "not_reached") != (number > failed) for number, result in enumerate(results)):
        return "it went on after a failed check"
    return "its cause and its checks disagree" if (failed == len(results)) != (gate.cause is None) else ""
