"""What must be true of conversations: invariants as in ``invariants.py`` (semantics.md 5). Who speaks is chosen anew from the journal (``derivation/speakers.py``)."""

from __future__ import annotations

from typing import Any

from fabric.core.derivation.speakers import TAKES, speakers_of
from fabric.core.envelope import Event
from fabric.core.fingerprint import decode
from fabric.core.flow import Stage
from fabric.core.run import Run
from fabric.core.signatures import normalised
from fabric.core.spec_conversation import SAYS
from fabric.core.spec_graph import GraphTopology
from fabric.core.spec_handoff import HandoffTopology
from fabric.core.taxonomy import CLASSIFY
from simulator.kernel.seen import Seen, on

KEPT = ("model_answered", "tool_answered", "call_edited", "call_resolved", "context_written", "speaker_chosen")
"""Kinds whose contents say what was written."""


@on(*TAKES)
def speaker_follows_from_the_graph(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Who speaks after a turn, why, and what the context is then, follow from the rules and what was called and written."""
    if seen.speakers is None:
        seen.speakers = speakers_of(seen.compiled.spec, seen.spoken.get)
    if seen.speakers is None:
        return ""
    if fact.kind in KEPT and event.content_ref:
        seen.spoken[event.content_ref] = decode(seen.content)
    found = seen.speakers.take(event)
    return "; ".join(f"{name} is {a!r}, derived {b!r}" for name, (a, b) in (found or {}).items() if a != b)


@on("turn_opened", "speaker_chosen", "replanned")
def turns_are_taken_by_those_who_were_chosen(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Nobody takes a turn that is not theirs, nor any once the conversation is closed, nor more than the graph allows."""
    if fact.kind == "replanned":
        seen.chosen = None
        return ""
    if fact.kind == "speaker_chosen":
        seen.chosen = (fact.speaker, fact.turn)
        return ""
    topology = seen.compiled.spec.topology
    if not isinstance(topology, GraphTopology | HandoffTopology):
        return ""
    graph = topology.graph
    speaker, turns = seen.chosen or (graph.initial_speaker, 0)
    if fact.agent != speaker:
        return f"{fact.agent} has the turn of {speaker or 'nobody: it is closed'}"
    return f"turn {turns + 1} of {graph.max_turns}" if graph.max_turns is not None and turns >= graph.max_turns else ""


@on("call_issued")
def conversations_are_their_members_alone(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Tools that hand over, end, write and read are called by who takes part, in a run that has a conversation; of a team in its own."""
    if (
        fact.call != "tool"
        or fact.target not in SAYS
        or any(one.name == fact.target for one in seen.compiled.spec.tools)
    ):
        return ""
    topology = seen.compiled.spec.topology
    if not isinstance(topology, GraphTopology | HandoffTopology):
        return f"{fact.agent} calls {fact.target} in a run without a conversation"
    return "" if fact.agent in topology.workers else f"{fact.agent} calls {fact.target} and takes no part"


@on("handed_off")
def passed_on_among_them(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Who hands over and who takes over take part in this run's conversation, and no other team's."""
    workers = seen.compiled.spec.topology.workers
    strangers = [name for name in (fact.from_agent, fact.to_agent) if name not in workers]
    return f"{' and '.join(strangers)} of {', '.join(workers)}" if strangers else ""


@on("turn_opened", "speaker_chosen", "step_failed", "replanned")
def what_begins_anew_does(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Only transient failures cross a restart edge, each less often than the limit, by its words; nobody hears what was said before it."""
    if fact.kind == "replanned":
        seen.anew_from = 0
        return ""
    if fact.kind == "step_failed":
        seen.failed_as[fact.step_id] = (CLASSIFY[fact.cause].error_class, fact.message)
        return ""
    if fact.kind == "turn_opened":
        return (
            f"it hears {fact.hears}, and it began anew with {seen.anew_from}"
            if min(fact.hears, default=seen.anew_from) < seen.anew_from
            else ""
        )
    if fact.why != "restart":
        return ""
    seen.anew_from = fact.turn
    if fact.failure_class is None:
        return "" if not fact.crossed else "a turn that did not fail is counted"
    failure_class, message = seen.failed_as[fact.step_id]
    if failure_class != "transient_infra":
        return f"{failure_class} crossed a restart edge"
    key = f"{fact.from_agent}|{failure_class}|{normalised(message)}"
    seen.crossings[key] += 1
    given = seen.compiled.spec.policy.failure_signature.restart_limit
    limit = given if given > 0 else 3
    return f"crossing {seen.crossings[key]} of {key}, the limit is {limit}" if seen.crossings[key] >= limit else ""


@on("reaction_decided")
def nothing_is_blocked_before_its_time(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A restart edge is blocked for what is not transient, or at the limit itself."""
    if (fact.cause.mechanism, fact.cause.cause) != ("failure_signature", "restart_blocked"):
        return ""  # A port may give any cause.
    evidence, details = fact.cause.evidence, fact.cause.evidence.details
    came = seen.crossings[str(details["signature"])] + 1
    blocked = details["failure_class"] != "transient_infra" or came >= evidence.limit
    return "" if blocked and came == evidence.observed else f"blocked at crossing {came}, the limit is {evidence.limit}"


@on("handed_off")
def hops_are_in_bounds(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """No more handovers than the limit, replans included."""
    seen.hops += 1
    limit = seen.compiled.spec.policy.of_stage(Stage.FAN_OUT).limits.hops
    return f"hop {seen.hops}, at most {limit}" if seen.hops > limit else ""
