"""Checks calls in the simulator (S2; docs/specification/agent-step.md). Has planted bugs and draws for the swarm too.

1. References are read and resolved anew. Attempts, and calls repeated after a person's approval, are counted anew from
   the facts alone.
2. Personas are judged anew, part by part of a capability (S3 "Persona constraints").
3. Each rule by which the swarm's tools need a review has a second implementation in Python.
4. Draws give single agents caps and personas. Each has a generator of its own, so that fabrics without them stay
   unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import Any

from fabric.core.calls import call_time
from fabric.core.events.envelope import Event
from fabric.core.evolve import calls
from fabric.core.state.run import CallRecord, Run, Step
from fabric.core.values.fingerprint import decode, fingerprint
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import CLASSIFY, Cause
from fabric.core.values.units import JSON, US
from simulator.cast.agents import ORDER
from simulator.rules import planting
from simulator.rules.facts.journals import WatchedRun, register_check, step_before

OVER = ("done", "refused", "skipped")
WAITED = (Cause.TOOL_CONSTRAINT, Cause.DEPENDENCY_FAILED, Cause.SCHEMA_INVALID)
"""Causes for which a call is refused because of its references."""


def map_proposals(seen: WatchedRun, step_id: str) -> dict[str, Any]:
    """Return the calls that a step's answers proposed. This module sees each event before the callers do."""
    known: dict[str, Any] = seen.referred[step_id]
    return known


@register_check(
    *(
        "step_opened",
        "call_streamed",
        "model_answered",
        "tool_answered",
        "call_refused",
        "call_skipped",
        "call_resolved",
        "call_issued",
    ),
    *("call_edited", "call_responded"),
)
def references_are_followed(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A call goes out after all calls that it refers to, with their results, and none of them failed."""
    step = after.steps.get(fact.step_id)
    if step is None or not step.agent:
        return ""
    if fact.kind == "step_opened":
        if fact.keeps:
            seen.referred[fact.step_id] = deepcopy(seen.referred.get(step_before(seen, fact), {}))
        return ""
    known: dict[str, JSON] = seen.referred.setdefault(fact.step_id, {})
    if fact.kind == "model_answered":
        proposed = decode(seen.content).get("calls", ()) if fact.verdict == "calls" else ()
        known["proposed"] = {one["call_id"]: one.get("args") for one in proposed if "problem" not in one}
        known["when"] = {one["call_id"]: one.get("when", "") for one in proposed}
        known["wrote"], known["edited"], known["early"] = {}, {}, []
        return ""
    if fact.kind == "call_streamed":
        return _record_streamed(known, fact, decode(seen.content)["calls"][0]["args"])
    if fact.kind == "call_issued":
        return _check_sent(known, fact, after) if fact.call == "tool" else _forget_early(known)
    if fact.kind == "call_resolved":
        known.setdefault("resolved", {})[fact.call_id] = decode(seen.content)["calls"][0]["args"]
        return ""
    if fact.kind == "call_edited":
        known["edited"][fact.call_id] = decode(seen.content)["calls"][0]
        return ""
    known.setdefault("answers", {})[fact.call_id] = decode(seen.content)
    return _check_refused(fact, after) if fact.kind == "call_refused" and fact.cause in WAITED else ""


def _record_streamed(known: dict[str, JSON], fact: Any, args: JSON) -> str:
    """Take in a call of an answer that is still coming in."""
    known.setdefault("proposed", {})[fact.call_id] = args
    known.setdefault("early", []).append(fact.call_id)
    return ""


def _forget_early(known: dict[str, JSON]) -> str:
    """Drop what began with an attempt that failed: its model is asked anew."""
    for call_id in known.pop("early", ()):
        known["proposed"].pop(call_id, None)
        known.get("answers", {}).pop(call_id, None)
    return ""


@register_check("call_issued")
def writes_do_not_meet(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Two calls of one answer write a memory's key only if one refers to the other.

    Where the last write wins, the earlier one has returned.
    """
    verb, _, memory = fact.target.removeprefix("memory_").partition("_")
    if fact.call != "tool" or not fact.agent or verb not in ("write", "delete"):
        return ""
    known = seen.referred[fact.step_id]
    written = known.get("edited", {}).get(fact.call_id, {}).get("args")
    args = written or known.get("resolved", {}).get(fact.call_id) or known["proposed"][fact.call_id]
    wrote: dict[str, tuple[str, str]] = known["wrote"]
    others = [call_id for call_id, path in wrote.items() if path == (memory, args["key"]) and call_id != fact.call_id]
    wrote[fact.call_id] = (memory, args["key"])
    last_wins = next(one.conflicts for one in seen.compiled.spec.memories if one.name == memory)
    answers = known.get("answers", {})
    for other in others:
        if other in answers and "error" in answers[other]:
            continue
        if last_wins and other in answers:
            continue
        if last_wins or not _leads_to(known, fact.call_id, other):
            return f"{fact.call_id} writes {args['key']!r} of {memory}, which {other} of the same answer writes"
    return ""


def _leads_to(known: dict[str, JSON], call_id: str, other: str) -> bool:
    """Return True if a call uses another one, directly or through others."""
    if call_id == other:
        return True
    used = {words[1] for words in _references(known["proposed"].get(call_id))}
    used |= {name for name in known["proposed"] if f"'{name}'" in known["when"].get(call_id, "")}
    return any(_leads_to(known, one, other) for one in used - {call_id} if one in known["proposed"])


def _references(node: JSON) -> list[list[str]]:
    if isinstance(node, dict) and (words := _words(node)) is not None:
        return [words]
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [words for one in inner for words in _references(one)]


def _check_refused(fact: Any, after: Run) -> str:
    early = _early(after, fact)
    return f"{fact.call_id} was refused before {early}, which it refers to, came back" if early else ""


def _early(after: Run, fact: Any) -> str:
    """Return an unfinished call that this one refers to; empty if all are finished."""
    records = _records(after, fact)
    waits = next((one.after for one in records if one.call_id == fact.call_id), ())
    return next((one.call_id for one in records if one.call_id in waits and one.state not in OVER), "")


def _records(after: Run, fact: Any) -> list[CallRecord]:
    """Return the calls of the streaming answer, or of the last one."""
    step = after.steps[fact.step_id]
    coming = [one.record for one in step.begun]
    return coming or list(step.history[-1].calls if step.history else ())


def _check_sent(known: dict[str, JSON], fact: Any, after: Run) -> str:
    args = known.get("proposed", {}).get(fact.call_id)
    record = next((one for one in _records(after, fact) if one.call_id == fact.call_id), None)
    if record is None or not isinstance(args, dict):
        return ""
    if early := _early(after, fact):
        return f"{fact.call_id} was sent before {early}, which it refers to"
    if (written := known.get("edited", {}).get(fact.call_id)) is not None:
        as_written = (written["tool"], fingerprint(written["args"])) == (fact.target, fact.args_hash)
        return "" if as_written else f"{fact.call_id} was not sent as a person wrote it"
    if not record.args_ref or fact.call_id not in known.get("resolved", {}):
        return f"{fact.call_id} was sent with its references" if _refers(args) else ""
    try:
        followed = _follow_references(args, known.get("answers", {}))
    except (KeyError, IndexError, TypeError):
        return f"{fact.call_id} was sent, and what it refers to brought nothing"
    return "" if fingerprint(followed) == fact.args_hash else f"{fact.call_id} was sent with something else"


def _refers(node: JSON) -> bool:
    if isinstance(node, dict):
        return _words(node) is not None or any(map(_refers, node.values()))
    return isinstance(node, list) and any(map(_refers, node))


def _words(node: dict[str, JSON]) -> list[str] | None:
    to = node.get("$ref") if set(node) == {"$ref"} else None
    return to.split(".") if isinstance(to, str) and to.startswith("calls.") else None


def _follow_references(node: JSON, answers: dict[str, JSON]) -> JSON:
    if isinstance(node, list):
        return [_follow_references(one, answers) for one in node]
    if not isinstance(node, dict):
        return node
    words = _words(node)
    if words is None:
        return {key: _follow_references(one, answers) for key, one in node.items()}
    _, call_id, part, *path = words
    found = answers[call_id].get(part) if part == "error" else answers[call_id][part]
    for key in path:
        found = found[int(key)] if isinstance(found, list) else found[key]
    return found


SHARE, LEAST = 1.4, 0.1
"""All attempts of a call, and the least of one, in timeouts of one (docs/specification/protections.md)."""


@register_check("attempt_failed", "retry_scheduled", "model_changed")
def call_time_is_counted(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Sum the time of a call's failed attempts, without waits for a breaker or for another model. Finds no
    violation.
    """
    if fact.kind == "attempt_failed":
        began = seen.began.get(fact.command_id, event.at)
        seen.call_us[fact.command_id] += event.at - began
        away = fact.retry_after_s is not None and CLASSIFY[fact.cause].failover
        (seen.named.add if away else seen.named.discard)(fact.command_id)
    elif fact.kind == "model_changed" or fact.source not in ("backoff", "retry_after"):
        seen.call_us.pop(fact.command_id, None)
    return ""


@register_check("input_given")
def edited_call_begins_anew(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Reset a call's time if a person edited its arguments, which makes it another call. Finds no violation."""
    seen.call_us.pop(fact.command_id, None)
    return ""


@register_check("call_issued")
def attempts_share_a_time(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """An attempt of a call lasts at most as long as the call's remaining time."""
    spec = seen.compiled.spec
    timeout = spec.policy.of_stage(after.steps[fact.step_id].stage).deadlines_of(after.tier).call_s
    if fact.call == "tool":
        timeout = min(timeout, spec.tool(fact.target).timeout_s or timeout)
    if fact.attempt == 1:
        seen.call_us.pop(fact.command_id, None)
    seen.began[fact.command_id] = event.at
    left = max(SHARE * timeout * US - seen.call_us[fact.command_id], LEAST * timeout * US)
    lasts = fact.deadline_at - event.at
    return f"it may last {lasts / US:g} s, and its call has {left / US:g} s left" if lasts > left + 1 else ""


def _calls(before: Step, after: Step) -> Iterator[tuple[CallRecord, CallRecord]]:
    """Yield each call of a step beside its present state."""
    for old, new in zip(before.history, after.history, strict=False):
        yield from zip(old.calls, new.calls, strict=False)


@register_check("step_opened")
def what_was_done_stands(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A step whose failed call is repeated keeps all its turns and continues from there."""
    if not fact.keeps:
        return ""
    before = seen.run.steps.get(step_before(seen, fact))
    step = after.steps[fact.step_id]
    if before is None or not before.history:
        return "nothing was done before"
    opened = {call.call_id: (call.state, now.state) for call, now in _calls(before, step) if call != now}
    if opened != dict.fromkeys(fact.passes, ("refused", "open")):
        return f"calls {sorted(opened)} of it changed, and {sorted(fact.passes)} were let pass"
    same = [turn.answer_ref for turn in step.history] == [turn.answer_ref for turn in before.history]
    if not same or step.corrections != before.corrections:
        return f"{len(before.history)} answers were given before, and {len(step.history)} stand"
    return "" if step.turns == len(step.history) else f"turn {step.turns + 1} follows {len(step.history)} answers"


@register_check("call_issued", "call_refused")
def personas_are_kept(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A persona's denied tool calls never go out, and its allowed ones are never refused for the persona."""
    if fact.kind == "call_issued" and (fact.call != "tool" or not fact.agent):
        return ""
    name, tool = (
        (fact.agent, fact.target) if fact.kind == "call_issued" else (after.steps[fact.step_id].agent, fact.tool)
    )
    if fact.kind == "call_refused" and fact.cause is not Cause.PERSONA_VIOLATION:
        return ""
    barred = _is_barred(seen, name, tool)
    if fact.kind == "call_issued":
        return f"{name} called {tool}, which its persona bars" if barred else ""
    return "" if barred else f"{name} was refused {tool} for its persona, which lets it pass"


def _is_barred(seen: WatchedRun, name: str, tool: str) -> bool:
    spec = seen.compiled.spec
    persona = spec.agent(name).persona
    if persona is None:
        return False
    allowed, needed = persona.allowed_capabilities, spec.tool(tool).capabilities or (f"tool:{tool}",)
    denied = any(_matches_any(one, persona.denied_capabilities) for one in needed)
    return denied or (allowed is not None and not all(_matches_any(one, allowed) for one in needed))


def _matches_any(capability: str, entries: Iterable[str]) -> bool:
    parts = capability.split(":")
    told = [entry.split(":") for entry in entries]
    return any(parts == each or (each[-1] == "*" and parts[: len(each) - 1] == each[:-1]) for each in told)


@dataclass(frozen=True, slots=True)
class Called:
    """Arguments of a rule about a call."""

    query: str
    agent: str
    stage: str
    tier: str
    spent: int


Twin = Callable[[Called], bool | None]
"""Returns True if a rule applies to a call; None if undecidable."""
RULES: Mapping[str, Twin] = {
    "args.query.contains('1')": lambda one: "1" in one.query,
    "agent.startsWith('worker-1') || size(args.query) > 7": lambda one: (
        one.agent.startswith("worker-1") or len(one.query) > 7
    ),
    "stage == 'fan_out' && run.tier != 'batch'": lambda one: one.stage == "fan_out" and one.tier != "batch",
    "run.spent_usd_micros > 3000": lambda one: one.spent > 3_000,
    "args.amount > 3": lambda _: None,
    "args.query": lambda _: None,
}
"""Second implementation of each rule, by its expression."""


@register_check("call_issued")
def asked_before(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A call whose tool's rule applies, or is undecidable, goes out only after a person's approval."""
    if fact.call != "tool" or fact.attempt > 1 or not fact.agent:
        return ""
    rule = next((one.approve_when for one in seen.compiled.spec.tools if one.name == fact.target), None)
    if rule is None or fact.command_id in seen.changes.approved:
        return ""
    known = map_proposals(seen, fact.step_id)
    args = known.get("resolved", {}).get(fact.call_id) or known["proposed"][fact.call_id]
    step = after.steps[fact.step_id]
    called = Called(args["query"], fact.agent, str(step.stage), str(after.tier), seen.spent)
    if RULES[rule](called) is False:
        return ""
    return f"{fact.call_id} was sent, and no person let it pass: {rule}"


@register_check("call_issued")
def no_result_gives_orders(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """After a result gave an order, a changing call of the agent goes out only after a person's approval."""
    if fact.call != "tool" or fact.attempt > 1 or not fact.agent or fact.command_id in seen.changes.approved:
        return ""
    if seen.compiled.spec.tool(fact.target).effect not in ("mutating", "irreversible"):
        return ""
    # An agent reads no result of an answer that broke off, and none of the answer that it is giving.
    read = {record.call_id for turn in after.steps[fact.step_id].history[:-1] for record in turn.calls}
    answers = map_proposals(seen, fact.step_id).get("answers", {})
    told = [call_id for call_id, answer in answers.items() if call_id in read and ORDER in str(answer)]
    return f"{fact.call_id} was sent after {told[0]} had instructed its agent" if told else ""


def _attempts_forget_time() -> AbstractContextManager[None]:
    """Each attempt of a call gets the whole time of the call."""

    def left_s(pending: Any, timeout: float) -> float:
        return call_time.SHARE * timeout

    return planting.attribute(call_time, "left_s", left_s)


def _kept_step_forgets() -> AbstractContextManager[None]:
    """A step whose failed call is repeated begins anew."""
    kept = calls._keep_turns

    def forgets(before: Step | None, fact: Any) -> Step:
        return replace(kept(before, fact), history=(), turns=0)

    return planting.attribute(calls, "_keep_turns", forgets)


CALL_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "attempts_forget_time": _attempts_forget_time,
    "kept_step_forgets": _kept_step_forgets,
}
"""Plants by name."""


WORKER = "worker-0"
"""The agent that every fabric has."""


def draw_agents(tree: JSON, number: int) -> None:
    """Add caps, personas and streams to a fabric, in place."""
    _caps(tree["policy"]["budget"], Random(f"own caps {number}"))  # noqa: S311 - a simulation is to be repeatable
    _persona(tree, Random(f"persona {number}"))  # noqa: S311 - the same
    _streams(tree, Random(f"streams {number}"))  # noqa: S311 - the same


def _caps(budget: JSON, rng: Random) -> None:
    """Give a single agent caps in some fabrics, below or above those of all agents."""
    if rng.random() < 0.15:
        own: JSON = {"usd_micros": rng.choice((0, 9_000, 60_000, 1_000_000))} if rng.random() < 0.7 else {}
        if not own or rng.random() < 0.4:
            own["tokens"] = rng.choice((3_000, 15_000, 200_000))
        budget["agents"] = {WORKER: own}


def _streams(tree: JSON, rng: Random) -> None:
    """Let the expensive model stream its answers in some fabrics, a call at a time."""
    if rng.random() < 0.4:
        tree["models"][0]["options"] = {"stream": True}


def _persona(tree: JSON, rng: Random) -> None:
    """Give tools capabilities in some fabrics, and deny the first worker some of them."""
    if rng.random() >= 0.12:
        return
    for tool in tree["tools"]:
        if rng.random() < 0.5:
            tool["capabilities"] = [f"world:{'read' if tool.get('effect', 'read_only') == 'read_only' else 'write'}"]
    denied = {"denied_capabilities": [rng.choice(("world:write", "world:*", "tool:lookup", "tool:*"))]}
    allowed = {"allowed_capabilities": rng.choice((["world:*", "tool:poll"], ["tool:*"]))}
    persona = rng.choice((denied, allowed, {**denied, **allowed}))
    next(agent for agent in tree["agents"] if agent["name"] == WORKER)["persona"] = persona
