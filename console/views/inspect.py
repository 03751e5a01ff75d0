"""What the inspector says about one event: sections in order, from one table over the event kinds.

What needs the run as it was then (a prompt, the money left, the call that an answer belongs to) comes from a fold up to the event, made once
and only when a section asks for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from console.templatetags.figures import span
from console.templatetags.marks import TIERS
from console.views import inspect_calls as calls
from console.views import inspect_changed_calls as changed_calls
from console.views import inspect_children as children
from console.views import inspect_control as control
from console.views import inspect_conversation as conversation
from console.views import inspect_decision as decision
from console.views import inspect_questions as questions
from console.views import inspect_saga as saga
from console.views.sections import Pair, Section, content, gate_checks, listed, pairs, part, told
from fabric import wiring
from fabric.core.actor import Actor
from fabric.core.context import Compiled
from fabric.core.events import CallIssued
from fabric.core.flow import ANSWERED
from fabric.core.words import words
from fabric.selectors.families import team_of
from fabric.selectors.moments import EventRecord, Moment, moment_at
from fabric.selectors.runs import RunView

log = logging.getLogger(__name__)

JSON = Any


@dataclass
class Seen:
    """One event as it is being looked at."""

    actor: Actor
    run: RunView
    record: EventRecord

    @property
    def fact(self) -> dict[str, JSON]:
        """Its fact, defaults included."""
        return self.record.row.fact

    @cached_property
    def moment(self) -> Moment | None:
        """The run right after it; None where it cannot be had."""
        return moment_at(self.actor, self.run.id, self.record.row.seq)

    @property
    def topology(self) -> str:
        """The worker whose team's topology the run runs; empty: the fabric's own."""
        return self.moment.run.topology if self.moment else team_of(self.run)

    @property
    def fabric(self) -> Compiled:
        """The revision as the run saw it then: with the topology that it runs, under the policy that held."""
        return self.revision.within(self.topology)

    @property
    def revision(self) -> Compiled:
        """The same with the whole fabric's topology."""
        number = self.moment.run.policy if self.moment else 0
        return wiring.compiled_under(self.run.revision_id, self.run.workspace_id, number, self.run.tier)

    @property
    def call(self) -> tuple[int, CallIssued] | None:
        """The intent that it answers, with its seq."""
        return self.moment.issued.get(self.fact.get("command_id", "")) if self.moment else None


def inspect(actor: Actor, run: RunView, record: EventRecord) -> list[Section]:
    """The sections of one event. A kind that this version does not know has none: its raw header speaks for it."""
    show = INSPECT.get(record.row.kind) if record.row.known else None
    if show is None:
        return content(record, "Recorded with it")
    try:
        return show(Seen(actor, run, record))
    except Exception:
        # One event that cannot be explained must not take the page away: its header and its content are shown as they are.
        log.exception("event %s of run %s cannot be explained", record.row.seq, run.id)
        return [
            told("Not explained", "The facts of this event do not fit together."),
            *content(record, "Recorded with it"),
        ]


# -- lifecycle ---------------------------------------------------------------------------------------------------------


def _run_started(seen: Seen) -> list[Section]:
    fact = seen.fact
    facts = pairs(
        "Pinned for good",
        Pair("fabric", fact["fabric"], "text", f"r{seen.run.revision_number}"),
        Pair("revision", fact["revision"], "code"),
        Pair("tier", TIERS.get(fact["tier"], fact["tier"])),
        Pair("deadline", fact["deadline_at"], "at", f"{span(fact['deadline_at'] - seen.record.row.at)} from here"),
        Pair("asked by", fact["requested_by"]),
        Pair("seed", str(fact["seed"]), "code"),
        Pair("depth", fact["depth"], "count"),
    )
    return [*part(seen.record, "text", "Request"), *_documents(seen), facts]


def _documents(seen: Seen) -> list[Section]:
    """Their names; what they say is with the run's input."""
    found = part(seen.record, "documents", "Documents")
    for section in found:
        names = section.body.get("value")
        if section.part == "tree" and isinstance(names, list) and all(isinstance(name, str) for name in names):
            return [listed("Documents", names, f"{len(names):,}")]
    return found


def _policy_taken_up(seen: Seen) -> list[Section]:
    most = Pair("most that a run may spend", seen.fact["run_usd_micros"], "usd")
    number = Pair("version", seen.fact["number"], "count", "holds for the run from here on")
    return [pairs("Workspace policy", number, most)]


def _ownership_taken(seen: Seen) -> list[Section]:
    fact = seen.fact
    note = "Whatever was out with the worker before is counted as lost and asked again."
    facts = pairs(
        "Owner",
        Pair("fence", fact["fence"], "count", "writes of an older fence are refused"),
        Pair("incarnation", fact["incarnation"], "code"),
    )
    return [facts, told("What follows", note)]


def _run_quarantined(seen: Seen) -> list[Section]:
    fact = seen.fact
    note = "It is claimed by no worker until a person has answered the question beside it: try again, or abort."
    facts = pairs(
        "Quarantine",
        Pair("reason", fact["reason"]),
        Pair("claims", fact["claims"], "count", "since it last made progress"),
        Pair("damage", fact["damage"] or None),
    )
    return [facts, told("What follows", note)]


def _run_released(seen: Seen) -> list[Section]:
    return [pairs("Quarantine", Pair("ended by", seen.fact["actor"]))]


def _stage_entered(seen: Seen) -> list[Section]:
    fact = seen.fact
    facts = pairs(
        "Stage",
        Pair("stage", words(fact["stage"]), "text", f"epoch {fact['epoch'] + 1}"),
        Pair("deadline", fact["deadline_at"], "at", f"{span(fact['deadline_at'] - seen.record.row.at)} from here"),
        Pair("branches", ", ".join(fact["agents"]) or "none: the engine does it itself"),
    )
    return [*gate_checks(seen.fact), facts]


def _stage_left(seen: Seen) -> list[Section]:
    fact = seen.fact
    output = seen.moment.where.get(fact["output_ref"]) if seen.moment and fact["output_ref"] else None
    facts = pairs(
        "Stage",
        Pair("stage", words(fact["stage"]), "text", f"epoch {fact['epoch'] + 1}"),
        Pair("outcome", words(fact["outcome"]), tone="" if fact["outcome"] == "passed" else "warn"),
        Pair("output", output, "seq"),
        Pair("output reference", fact["output_ref"], "code"),
    )
    return [*gate_checks(seen.fact), facts, *content(seen.record, "Output", "made by the engine")]


def _replanned(seen: Seen) -> list[Section]:
    fact = seen.fact
    facts = pairs(
        "New epoch",
        Pair("epoch", f"{fact['epoch'] - 1} → {fact['epoch']}"),
        Pair("charged to", words(fact["stage"])),
        Pair("because", words(fact["reason"])),
    )
    return [facts, *content(seen.record, "What the planner is told")]


def _run_ending(seen: Seen) -> list[Section]:
    fact = seen.fact
    facts = pairs(
        "Ending", Pair("as", fact["state"]), Pair("reaction", words(fact["reaction"])), Pair("reason", fact["reason"])
    )
    return [facts, told("What follows", "Nothing is issued any more; it ends when the calls in flight have settled.")]


def _partial(fact: Mapping[str, JSON]) -> str | None:
    """What is missing of an outcome, and why."""
    if not fact["partial"]:
        return None
    whole = fact["state"] in ANSWERED
    return "branches whose retries were exhausted are missing" if whole else "what there was when it was stopped"


def _run_ended(seen: Seen) -> list[Section]:
    fact = seen.fact
    found = seen.moment.where.get(fact["outcome_ref"]) if seen.moment and fact["outcome_ref"] else None
    facts = pairs(
        "End",
        Pair("state", fact["state"], "text", "after recovery" if fact["recovered"] else ""),
        Pair("reaction", words(fact["reaction"])),
        Pair("reason", fact["reason"]),
        Pair("outcome", found, "seq"),
        Pair("partial", _partial(fact)),
        Pair("truncated", "an agent was cut short" if fact["truncated"] else None),
        Pair("cost", seen.moment.spent_usd_micros if seen.moment else None, "usd"),
    )
    return [facts, *content(seen.record, "Outcome")]


# -- steps and what they are told --------------------------------------------------------------------------------------


def _step(seen: Seen) -> list[Section]:
    fact = seen.fact
    facts = pairs(
        "Step",
        Pair("step", fact["step_id"], "code"),
        Pair("agent", fact.get("agent") or seen.record.row.agent),
        Pair("attempt", fact["round"] + 1 if "round" in fact else None, "count"),
        Pair("cause", words(fact.get("cause") or ""), tone="danger"),
        Pair("reason", fact.get("message") or fact.get("reason") or ""),
        Pair("its stage", "goes on without it, as a partial success" if fact.get("partial") else None),
        Pair("approved", "a person asked for it" if fact.get("approved") else None),
    )
    return [facts, *content(seen.record, "What it is told")]


def _turn(seen: Seen) -> list[Section]:
    fact = seen.fact
    facts = pairs(
        "Turn",
        Pair("turn", fact["branch"] + 1, "count"),
        Pair("agent", fact["agent"]),
        Pair("step", fact["step_id"], "code"),
        Pair("brief", fact["brief"] + 1, "count"),
        Pair("reads turns", ", ".join(str(branch + 1) for branch in fact["hears"]) or "none"),
    )
    return [facts, *content(seen.record, "What it is told")]


def _handed_off(seen: Seen) -> list[Section]:
    fact = seen.fact
    return [
        pairs(
            "Handed over",
            Pair("from", fact["from_agent"]),
            Pair("to", fact["to_agent"]),
            Pair("step", fact["step_id"], "code"),
        )
    ]


def _output_accepted(seen: Seen) -> list[Section]:
    fact = seen.fact
    found = seen.moment.where.get(fact["answer_ref"]) if seen.moment else None
    return [
        pairs(
            "Accepted",
            Pair("answer", found, "seq"),
            Pair("step", fact["step_id"], "code"),
            Pair("reference", fact["answer_ref"], "code"),
        )
    ]


def _input_ignored(seen: Seen) -> list[Section]:
    fact = seen.fact
    return [pairs("Without effect", Pair("what came", words(fact["input_kind"])), Pair("why", fact["reason"]))]


# -- people ------------------------------------------------------------------------------------------------------------


def _clocks(seen: Seen) -> list[Section]:
    fact = seen.fact
    facts = pairs(
        "Clocks",
        Pair("run, left", fact.get("run_remaining_us"), "us"),
        Pair("stage, left", fact.get("stage_remaining_us"), "us"),
        Pair("run, until", fact.get("run_deadline_at"), "at"),
        Pair("stage, until", fact.get("stage_deadline_at"), "at"),
    )
    return [
        facts,
        told(
            "Why",
            "While nothing is live but questions to people, the clocks of the run stand still. Commands already out keep their own.",
        ),
    ]


INSPECT: Mapping[str, Callable[[Seen], list[Section]]] = {
    "run_started": _run_started,
    "usual_rates_pinned": control.usual_rates,
    "policy_taken_up": _policy_taken_up,
    "ownership_taken": _ownership_taken,
    "run_quarantined": _run_quarantined,
    "run_released_from_quarantine": _run_released,
    "stage_entered": _stage_entered,
    "stage_left": _stage_left,
    "replanned": _replanned,
    "run_ending": _run_ending,
    "run_ended": _run_ended,
    "step_opened": _step,
    "turn_opened": _turn,
    "speaker_chosen": conversation.speaker_chosen,
    "turn_overdue": conversation.turn_overdue,
    "person_said": conversation.person_said,
    "context_written": conversation.context_written,
    "call_issued": calls.issued,
    "call_streamed": changed_calls.streamed,
    "model_answered": calls.model_answered,
    "tool_answered": calls.tool_answered,
    "call_refused": calls.refused,
    "call_deduplicated": calls.repeated,
    "call_edited": changed_calls.worded,
    "call_resolved": changed_calls.planned,
    "call_skipped": changed_calls.planned,
    "call_responded": changed_calls.worded,
    "input_requested": changed_calls.requested,
    "input_given": changed_calls.requested,
    "output_accepted": _output_accepted,
    "handed_off": _handed_off,
    "attempt_failed": calls.attempt_failed,
    "attempt_interrupted": calls.settled,
    "call_aborted": calls.settled,
    "late_result_ignored": calls.late,
    "input_ignored": _input_ignored,
    "rung_skipped": decision.skipped,
    "reaction_decided": decision.decided,
    "retry_scheduled": calls.retry,
    "node_retry_scheduled": calls.node_retry,
    "message_injected": _step,
    "tools_stripped": _step,
    "step_failed": _step,
    "escalation_opened": questions.opened,
    "escalation_reminded": questions.closed,
    "escalation_approved": questions.approved,
    "escalation_edited": questions.edited,
    "escalation_decided": questions.decided,
    "escalation_withdrawn": questions.closed,
    "output_edited": questions.output_edited,
    "guidance_given": questions.guided,
    "deadlines_suspended": _clocks,
    "deadlines_reissued": _clocks,
    "cancel_accepted": control.cancelled,
    "terminate_accepted": control.terminated,
    "alert_raised": control.alerted,
    "model_changed": control.model_changed,
    "cap_raised": control.cap_raised,
    "budget_raised": control.budget_raised,
    "run_paused": control.paused,
    "run_resumed": control.resumed,
    "run_forked": control.forked,
    "content_kept": control.content_kept,
    "output_kept": control.output_kept,
    **saga.INSPECT,
    **children.INSPECT,
}
"""How each kind is explained; total over the kinds, by test."""
