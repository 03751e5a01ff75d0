"""Checks decisions in the simulator, and the reasons that people read. Has planted bugs and draws for the swarm too.

Each decision is derived anew from the facts before it (``fabric.auditor``), and compared with the record. Draws give
single stages of some fabrics different deadlines, counts, detectors, waits, retries and cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from random import Random
from typing import Any

from fabric.auditor import Difference, note
from fabric.auditor.comparison import carries_out, derive_one, judge_carrying_out, list_differences
from fabric.core import events as ev
from fabric.core.decision.work import Work
from fabric.core.events import GateResult
from fabric.core.events.envelope import Event
from fabric.core.events.inputs import DecisionMade
from fabric.core.ladders import failover, fallback_model
from fabric.core.ladders.choice import Choice
from fabric.core.reactions import react as reactions
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.decision_table import DIRECT, GRAVITY, Reaction
from fabric.core.state.failure import Failure
from fabric.core.state.run import Run, rung_key
from fabric.core.texts.reasons import why_no_sentence
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import CLASSIFY, Direct, FailureType, Tier
from fabric.core.values.units import JSON
from simulator.rules import planting
from simulator.rules.facts.journals import WatchedRun, register_check

POST_ORDER, PRE_ORDER = ("schema", "policy", "invariants", "grounding"), ("schema", "policy", "budget", "artifacts")


@register_check()
def decision_derives(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """The recorded cause leads to the recorded row, cell, rung and reaction, by the journal alone."""
    said = ""
    if event.fact.kind == "reaction_decided":
        found = derive_one(seen.ledger, event, seen.compiled)
        said = _differences_words("", found.differences)
        if found.verdict == "other_table":
            said = f"it names table {fact.table}, which is not the fabric's"
    elif seen.decided is not None and carries_out(seen.decided, fact):
        pairs = judge_carrying_out(seen.ledger, seen.decided, event, seen.compiled)
        said = _differences_words(f"of {event.fact.kind} ", list_differences(pairs))
    note(seen.ledger, event, after)
    return said


def _differences_words(of: str, differences: Iterable[Difference]) -> str:
    return "; ".join(f"{of}{one.field} is {one.recorded}, derived {one.derived}" for one in differences)


@register_check("rung_skipped")
def skips_are_kept(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Every skipped rung has its reason."""
    seen.skipped.append((fact.failure_type, fact.rung))
    return "" if fact.reason else "no reason is given"


@register_check("reaction_decided")
def decision_follows(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """The decision follows from the table, the cause and the earlier spending."""
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
    rungs = seen.compiled.ladders.find_ladder(goes_to, seen.run.tier, stage).rungs
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
        return ""  # A substitute for the rung's reaction is one for every rung's.
    for number in range(fact.rung):
        uses = (n for key, n in seen.run.spent_rungs.items() if key.startswith(f"{fact.failure_type}/{number}/"))
        if (fact.failure_type, number) not in skipped and not any(n >= (rungs[number].times or 0) for n in uses):
            return f"rung {number} was neither spent nor skipped"
    return ""


def _possible(seen: WatchedRun, fact: Any, reaction: Reaction) -> set[str]:
    """Return the rung's reaction, and its substitutes after a last answer, or after enough reviews."""
    found = {str(reaction)}
    step = seen.run.steps.get(fact.step_id)
    if (step is not None and step.final) or seen.run.truncated:
        found.add(Reaction.SURFACE)
    if reaction is Reaction.ESCALATE:
        found.add(Reaction.ABORT)
    return found


@register_check("reaction_decided")
def one_reaction_at_a_time(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A run that is ending makes no further decision."""
    if seen.run.ending is not None:
        return "the run was ending already"
    return "" if fact.reaction in tuple(GRAVITY) else f"{fact.reaction} is no reaction"


@register_check("alert_raised", "model_changed")
def said_by_a_decision(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """An alert or a fallback model follows from the decision before it, and the model is behind the step's own."""
    decision = seen.decided
    if fact.kind == "alert_raised":
        about = None if decision is None else (decision.cause.mechanism, decision.cause.cause, decision.reaction)
        told = decision is not None and "alert" in decision.accompanies
        same = about == (fact.mechanism, fact.cause, fact.reaction)
        return "" if told and same else "no decision says so"
    if fact.reason == Reaction.FALLBACK_MODEL:
        return ""  # ``fallbacks``.
    if decision is None or decision.reaction != fact.reason or decision.step_id != fact.step_id:
        return "no decision says so"
    before = seen.run.steps[fact.step_id].model or seen.compiled.spec.agent(fact.agent).model
    models = {model.name: model for model in seen.compiled.spec.models}
    if (fact.before, fact.model) != (before, models[before].cheaper):
        return f"{fact.model} after {fact.before}; the fabric says {models[before].cheaper} after {before}"
    return ""


@register_check("reaction_decided")
def alerts_hang_on_no_rung(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Every decision alerts people from the rung on at which its cell says so."""
    if fact.failure_type is None:
        return ""
    stage = Stage(fact.step_id.partition(".")[0] or seen.run.stage)
    compiled = seen.compiled
    cell = (
        compiled.ladders.layered.get((fact.failure_type, fact.tier, stage))
        or compiled.table[fact.failure_type, fact.tier]
    )
    told = any("alert" in rung.with_ for rung in cell.rungs[: fact.rung + 1])
    return "a cell alerts, and no one is notified" if told and "alert" not in fact.accompanies else ""


@register_check("reaction_decided")
def decisions_are_kept(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Record the latest decision."""
    seen.decided = fact
    return ""


@register_check("cap_raised")
def cap_was_named(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A cap rises only by a person's approval, and never in a child."""
    given = seen.given.get(event.input_id)
    if not isinstance(given, DecisionMade) or given.verb != "approve" or given.cap_usd_micros != fact.cap_usd_micros:
        return "no person named this cap"
    if seen.cap is not None:
        return "a child has no cap of its own"
    before = max(seen.compiled.spec.policy.budget.run_usd_micros, seen.raised)
    seen.raised = fact.cap_usd_micros
    if (fact.before_usd_micros, fact.actor) != (before, given.actor) or fact.cap_usd_micros <= before:
        return f"{fact.actor} raised it from {fact.before_usd_micros}; it was {before}"
    return ""


@register_check("review_opened")
def rounds_in_bounds(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A person is asked about one thing a bounded number of times, with the review's instants in order."""
    most = seen.compiled.spec.policy.humans.failure_rounds
    counted = seen.run.rounds.get(fact.scope, 0) + 1 if fact.item == "failure" else 1
    if fact.round != counted:
        return f"round {fact.round} is the {counted}. that counts"
    if fact.round > most:
        return f"round {fact.round}, at most {most}"
    return "" if event.at <= fact.remind_at <= fact.onward_at <= fact.due_at else "its clocks are not in order"


@register_check("review_opened")
def asked_once(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """At most one review about a thing is open: the databases' tables have room for one."""
    about = _find_subject(fact)
    same = [one.fact.item for one in seen.run.reviews.values() if _find_subject(one.fact) == about]
    return f"{fact.item} is asked about {about} while {', '.join(same)} about it is open" if same else ""


def _find_subject(fact: Any) -> str:
    """Return the subject of a review: several calls of one step may be reviewed at once."""
    return str(fact.scope if fact.item == "pre_action" else fact.step_id or fact.scope)


@register_check("review_decided", "review_withdrawn")
def answers_an_open_review(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Only an open review is answered or withdrawn."""
    review = seen.run.reviews.get(fact.review_id)
    if review is None:
        return "the review is not open"
    given = seen.given.get(event.input_id)
    if fact.kind == "review_withdrawn" or fact.system:
        return "the answer was not due yet" if fact.kind == "review_decided" and event.at < review.fact.due_at else ""
    if not isinstance(given, DecisionMade):
        return "no person gave this answer"
    if (given.review_id, given.verb, given.actor) != (fact.review_id, fact.verb, fact.actor):
        return f"{given.actor} said {given.verb} about {given.review_id}"
    return "" if given.digest == review.fact.digest else "it answers something else than what was asked"


def _asked_last(spec: FabricSpec, stage: str) -> list[str]:
    """Return the checks behind the first four: a critic, the oracle, then the confidence."""
    writes = stage == "fan_in" or (stage == "finalize" and spec.topology.finalizer)
    found = ["critic"] if stage == "plan" and spec.topology.plan_critic else []
    found += ["grounding_critic"] if writes and spec.gates.grounding_critic else []
    found += ["oracle"] if stage == "finalize" and spec.gates.oracle else []
    return [*found, "confidence"]


@register_check("stage_entered", "stage_left")
def gates_in_order(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A stage is entered and left by a gate with all its checks, and never left by a failed one."""
    if fact.gate is None:
        return "it has no gate" if getattr(fact, "outcome", "passed") == "passed" else ""
    wrong = _gate_wrong(seen.compiled.spec, fact.gate, str(fact.stage))
    left_failed = fact.kind == "stage_left" and fact.gate.cause is not None
    return wrong or ("a stage was left although its gate had failed" if left_failed else "")


@register_check("reaction_decided")
def refusing_gates(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A decision about a gate's refusal records that failed gate. No other decision records a gate.

    A child's gate is in the child's journal.
    """
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
    """Return an error if a gate lacks a check, has another order, or continues after its first failure."""
    names = tuple(check.name for check in gate.checks)
    order: tuple[str, ...] = PRE_ORDER if gate.gate == "pre" else (*POST_ORDER, *_asked_last(spec, stage))
    if names != order:
        return f"its checks are {', '.join(names)}, not {', '.join(order)}"
    results = [check.result for check in gate.checks]
    failed = results.index("failed") if "failed" in results else len(results)
    if any((result == "not_reached") != (number > failed) for number, result in enumerate(results)):
        return "it went on after a failed check"
    return "its cause and its checks disagree" if (failed == len(results)) != (gate.cause is None) else ""


PERSONS = ("cancel", "terminated", "reject")
"""Reactions whose reason is a person's own words."""


@register_check("run_ended", "review_opened", "tools_stripped")
def reasons_are_sentences(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Each reason of an end, a stop or a review is a sentence that people understand without knowing the engine."""
    if getattr(fact, "reaction", "") in PERSONS:
        return ""
    why = why_no_sentence(fact.reason)
    return f"the reason holds {why}: {fact.reason}" if why else ""


@register_check("reaction_decided")
def causes_are_sentences(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """The message of each trip in a decision is a sentence that people understand."""
    why = why_no_sentence(fact.cause.message)
    return f"the cause holds {why}: {fact.cause.message}" if why else ""


@contextmanager
def _wrong_rung() -> Iterator[None]:
    """The engine takes one rung and records the next one."""
    announces = reactions._announce

    def misnames(work: Work, failure: Failure, choice: Choice) -> None:
        row = choice.failure_type
        if row is not None and choice.rung_index + 1 < len(
            work.compiled_fabric.ladders.find_ladder(row, work.run.tier, failure.stage).rungs
        ):
            choice = replace(choice, rung_index=choice.rung_index + 1)
        announces(work, failure, choice)

    vars(reactions)["_announce"] = misnames
    try:
        yield
    finally:
        vars(reactions)["_announce"] = announces


def _fallback_for_nothing() -> AbstractContextManager[None]:
    """The engine omits the cost of a fallback model from the journal, so that the decision seems free."""
    weighs = fallback_model._model_choice

    def for_nothing(*given: Any) -> ev.Weighed | None:
        found = weighs(*given)
        if found is None:
            return None
        return replace(found, candidates=tuple(replace(one, usd_micros=0) for one in found.candidates))

    return planting.attribute(fallback_model, "_model_choice", for_nothing)


def _farthest_fallback() -> AbstractContextManager[None]:
    """The engine takes the least capable of an endpoint's models, with the largest difference in cost."""
    nearest = failover._distance

    def farthest(*given: Any) -> tuple[int, int]:
        lost, differs = nearest(*given)
        return -lost, -differs

    return planting.attribute(failover, "_distance", farthest)


DECISION_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "wrong_rung": _wrong_rung,
    "fallback_for_nothing": _fallback_for_nothing,
    "farthest_fallback": _farthest_fallback,
}
"""Plants by name."""

ENDS = ("abort", "escalate", "surface", "terminate", "halt")


def draw_differences(tree: JSON, number: int) -> None:
    """Let up to three stages differ, each in up to three settings."""
    rng = Random(f"stages {number}")  # noqa: S311 - of its own, so that fabrics without them stay as they were
    if rng.random() >= 0.4:
        return
    stages: dict[str, JSON] = {}
    for stage in rng.sample(list(Stage), rng.randrange(1, 4)):
        own: JSON = {}
        for draw in rng.sample(DRAWS, rng.randrange(1, 4)):
            draw(own, stage, tree, rng)
        stages[stage] = own
    tree["policy"]["stages"] = stages


def _tau(own: JSON, stage: Stage, tree: JSON, rng: Random) -> None:
    own["tau"] = rng.choice((0.0, 0.5, 0.9, 1.0))


def _deadlines(own: JSON, stage: Stage, tree: JSON, rng: Random) -> None:
    call_s = rng.choice((1.0, 3.0))
    own["deadlines"] = {tier: {"call_s": call_s, "stage_s": call_s * rng.choice((2, 8))} for tier in Tier}


def _counts(own: JSON, stage: Stage, tree: JSON, rng: Random) -> None:
    limits = {
        "turns": rng.choice((1, 2, 4)),
        "calls_per_turn": rng.choice((1, 2)),
        "corrections_per_step": rng.choice((1, 2)),
    }
    if stage is Stage.FAN_OUT:
        limits["hops"] = rng.choice((1, 2))
    own["limits"] = limits


def _loops(own: JSON, stage: Stage, tree: JSON, rng: Random) -> None:
    threshold = rng.choice((2, 3))
    own["loop_detector"] = {
        "identical_threshold": threshold,
        "identical_window": threshold + rng.randrange(4),
        "consecutive_threshold": rng.choice((2, 4)),
        "period_window": rng.choice((4, 6)),
        "ag2_threshold": rng.choice((2, 3)),
    }


def _progress(own: JSON, stage: Stage, tree: JSON, rng: Random) -> None:
    own["progress"] = {"supervisor_turns" if stage is Stage.PLAN else "agent_turns": rng.choice((2, 3))}


def _retries(own: JSON, stage: Stage, tree: JSON, rng: Random) -> None:
    own["retry"] = {"stage_retries": rng.choice((1, 2))}
    if "retry_layers" not in tree["policy"]:
        own["retry"] |= {"base_s": rng.choice((0.1, 2.0)), "cap_s": rng.choice((0.5, 10.0))}


def _cells(own: JSON, stage: Stage, tree: JSON, rng: Random) -> None:
    table: dict[str, JSON] = {}
    for failure in rng.sample(list(FailureType), 3):
        first: JSON = {"reaction": rng.choice(("inject", "replan", "wait_for_breaker")), "times": rng.choice((1, 2))}
        ladder = {"rungs": [*([first] if rng.random() < 0.6 else []), {"reaction": rng.choice(ENDS)}]}
        table[failure] = dict.fromkeys(Tier, ladder)
    own["decision_table"] = table


DRAWS: list[Callable[[JSON, Stage, JSON, Random], None]] = [
    _tau,
    _deadlines,
    _counts,
    _loops,
    _progress,
    _retries,
    _cells,
]
