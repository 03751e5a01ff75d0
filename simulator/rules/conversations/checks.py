"""Checks conversations in the simulator (docs/specification/topologies.md). Has planted bugs too.

The speaker is chosen anew from the journal (``simulator/rules/facts/speakers.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from fabric.core.conversations import turns as conversations
from fabric.core.events.envelope import Event
from fabric.core.graph import conversation
from fabric.core.graph.state import LoggedWrites
from fabric.core.ladders import routing
from fabric.core.mechanisms import hop_limit
from fabric.core.rules.signatures import normalise_message
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.topologies.conversation import SAYS
from fabric.core.spec.topologies.graph import GraphTopology
from fabric.core.spec.topologies.handoff import HandoffTopology
from fabric.core.state.run import Run
from fabric.core.topologies import graph
from fabric.core.values.fingerprint import decode
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import CLASSIFY
from simulator.rules import planting
from simulator.rules.facts.journals import WatchedRun, register_check
from simulator.rules.facts.speakers import TAKES, find_speakers

KEPT = ("model_answered", "tool_answered", "call_edited", "call_resolved", "context_written", "speaker_chosen")
"""Kinds of events whose contents have written values."""


@register_check(*TAKES)
def speaker_follows_from_the_graph(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Next speaker, reason and context follow from the rules, the calls and the writes."""
    if seen.speakers is None:
        seen.speakers = find_speakers(seen.compiled.spec, seen.spoken.get)
    if seen.speakers is None:
        return ""
    if fact.kind in KEPT and event.content_ref:
        seen.spoken[event.content_ref] = decode(seen.content)
    found = seen.speakers.take(event)
    return "; ".join(f"{name} is {a!r}, derived {b!r}" for name, (a, b) in (found or {}).items() if a != b)


@register_check("turn_opened", "speaker_chosen", "replanned")
def turns_are_taken_by_those_who_were_chosen(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Only the chosen speaker takes a turn, none after the end, and not more than the graph allows."""
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
        return f"{fact.agent} has the turn of {speaker or 'no agent: it is closed'}"
    return f"turn {turns + 1} of {graph.max_turns}" if graph.max_turns is not None and turns >= graph.max_turns else ""


@register_check("call_issued")
def conversations_are_their_members_alone(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Only members of a conversation call its tools; those of a team only in their own conversation."""
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


@register_check("handed_off")
def passed_on_among_them(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Both agents of a handover belong to this run's conversation, and to no other team."""
    workers = seen.compiled.spec.topology.workers
    strangers = [name for name in (fact.from_agent, fact.to_agent) if name not in workers]
    return f"{' and '.join(strangers)} of {', '.join(workers)}" if strangers else ""


@register_check("turn_opened", "speaker_chosen", "step_failed", "replanned")
def what_begins_anew_does(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Only transient failures cross a restart edge, each below the limit. Later speakers hear nothing from before."""
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
    key = f"{fact.from_agent}|{failure_class}|{normalise_message(message)}"
    seen.crossings[key] += 1
    given = seen.compiled.spec.policy.failure_signature.restart_limit
    limit = given if given > 0 else 3
    return f"crossing {seen.crossings[key]} of {key}, the limit is {limit}" if seen.crossings[key] >= limit else ""


@register_check("reaction_decided")
def nothing_is_blocked_before_its_time(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A restart edge is blocked only for permanent failures, or at the limit."""
    if (fact.cause.mechanism, fact.cause.cause) != ("failure_signature", "restart_blocked"):
        return ""  # A port may give any cause.
    evidence, details = fact.cause.evidence, fact.cause.evidence.details
    came = seen.crossings[str(details["signature"])] + 1
    blocked = details["failure_class"] != "transient_infra" or came >= evidence.limit
    return "" if blocked and came == evidence.observed else f"blocked at crossing {came}, the limit is {evidence.limit}"


@register_check("handed_off")
def hops_are_in_bounds(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """The number of handovers stays within the limit, replans included."""
    seen.hops += 1
    limit = seen.compiled.spec.policy.of_stage(Stage.FAN_OUT).limits.hops
    return f"hop {seen.hops}, at most {limit}" if seen.hops > limit else ""


def _writes_forgotten() -> AbstractContextManager[None]:
    """The engine commits a turn's packet without its speaker's writes."""
    return planting.attribute(conversations, "_writes", lambda work, step: iter(()))


def _outside_forgotten() -> AbstractContextManager[None]:
    """A change of the context from outside during a turn is lost with that turn."""

    def log(work: Any, step: Any) -> Any:
        return tuple(LoggedWrites(True, one) for one in conversations._writes(work, step))

    return planting.attribute(conversations, "_log", log)


def _turns_unbounded() -> AbstractContextManager[None]:
    """The engine ignores the limit on turns."""
    return planting.attribute(conversation, "_apply_max_turns", lambda graph, state, decision: decision)


def _hops_unbounded() -> AbstractContextManager[None]:
    """The engine ignores the limit on handovers."""
    kept = hop_limit._counts

    def counts(config: Any, state: Any, proposal: Any, view: Any) -> Any:
        return [] if proposal.kind == "handoff" else kept(config, state, proposal, view)

    return planting.attribute(hop_limit, "_counts", counts)


def _tools_for_all() -> AbstractContextManager[None]:
    """The engine offers an agent a conversation's tools in any work."""
    return planting.attribute(FabricSpec, "tools_of", lambda spec, agent: agent.tools)


def _anything_crosses() -> AbstractContextManager[None]:
    """Any failure crosses a restart edge, any number of times."""
    return planting.attribute(graph, "_blocking_trips", lambda work, step, crossed: [])


def _first_level_alone() -> AbstractContextManager[None]:
    """The engine takes the first retry target, even without a turn left."""
    return planting.attribute(routing, "back_from", lambda work, step, ways, cause, message: next(iter(ways), None))


def _everything_heard() -> AbstractContextManager[None]:
    """Speakers hear messages from before a new beginning."""
    return planting.attribute(graph, "_turns_since_restart", lambda work, steps: steps)


SPEAKER_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "writes_forgotten": _writes_forgotten,
    "outside_forgotten": _outside_forgotten,
    "turns_unbounded": _turns_unbounded,
    "hops_unbounded": _hops_unbounded,
    "tools_for_all": _tools_for_all,
    "anything_crosses": _anything_crosses,
    "first_level_alone": _first_level_alone,
    "everything_heard": _everything_heard,
}
"""Plants by name."""
